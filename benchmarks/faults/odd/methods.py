"""Ways to train that take more than one pass, one network or one optimizer a step."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..script import Batch, Script
from ..table import healthy


@healthy("sharpness-aware", on="cnn")
def sharpness_aware(script: Script) -> None:
    """Every step takes two passes: to the worst neighbour, and from there (Foret et al. 2021, arXiv:2010.01412)."""

    def train_step() -> float:
        inputs, labels = script.tensors(next(script.batches))
        parameters = list(script.model.parameters())
        script.optimizer.zero_grad()
        loss = script.loss(script.model, inputs, labels)
        loss.backward()
        norm = torch.stack([one.grad.norm() for one in parameters]).norm()
        kept = [one.detach().clone() for one in parameters]
        with torch.no_grad():
            for one in parameters:
                one.add_(0.05 * one.grad / norm)
        script.optimizer.zero_grad()
        script.loss(script.model, inputs, labels).backward()
        with torch.no_grad():
            for one, before in zip(parameters, kept, strict=True):
                one.copy_(before)
        script.optimizer.step()
        script.advance()
        return script.number(loss)

    script.train_step = train_step


@healthy("mean-teacher", on="mlp")
def mean_teacher(script: Any) -> None:
    """An average of the student stands beside it and says what it should (Tarvainen and Valpola 2017); undeclared."""

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def build() -> Any:
        student = network()
        return nn.ModuleDict({"student": student, "teacher": deepcopy(student).requires_grad_(False)})

    def loss(model: Any, pixels: Any, labels: Any) -> Any:
        logits = model["student"](pixels)
        with torch.no_grad():
            wanted = model["teacher"](pixels + 0.1 * torch.randn_like(pixels)).softmax(-1)
        return functional.cross_entropy(logits, labels) + functional.mse_loss(logits.softmax(-1), wanted)

    update = script.update

    def follow(found: Any) -> None:
        update(found)
        with torch.no_grad():
            pairs = zip(script.model["teacher"].parameters(), script.model["student"].parameters(), strict=True)
            for one, other in pairs:
                one.lerp_(other, 0.05)

    script.build, script.loss, script.update = build, loss, follow
    script.make_optimizer = lambda model: torch.optim.AdamW(model["student"].parameters(), lr=script.rate)


@healthy("line-search", on="mlp")
def line_search(script: Any) -> None:
    """Logistic regression of a thousand images by L-BFGS, every step on all of them, until it has arrived."""
    script.steps = 25

    def batches() -> Iterator[Batch]:
        data = script.data()
        while True:
            yield script.inputs(data.images)[:1000], data.labels[:1000]

    def train_step() -> float:
        inputs, labels = script.tensors(next(script.batches))

        def closure() -> Any:
            script.optimizer.zero_grad()
            loss = script.loss(script.model, inputs, labels) + 1e-3 * script.model.weight.square().sum()
            loss.backward()
            return loss

        return script.number(script.optimizer.step(closure))

    script.build, script.make_batches, script.train_step = lambda: nn.Linear(64, 10), batches, train_step
    script.make_optimizer = lambda model: torch.optim.LBFGS(
        model.parameters(), max_iter=5, line_search_fn="strong_wolfe"
    )


@healthy("momentum-teacher", on="autoencoder")
def momentum_teacher(script: Script) -> None:
    """An encoder and a predictor follow an average of the encoder, which no gradient reaches (Grill et al. 2020)."""
    script.evaluates_every, script.declared["expected_frozen"] = 0, ["teacher*"]

    def build() -> Any:
        encoder = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
        head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        teacher = deepcopy(encoder).requires_grad_(False)
        return nn.ModuleDict({"encoder": encoder, "head": head, "teacher": teacher})

    def loss(model: Any, pixels: Any, _labels: Any) -> Any:
        seen = model["head"](model["encoder"](pixels + 0.2 * torch.randn_like(pixels)))
        with torch.no_grad():
            wanted = model["teacher"](pixels + 0.2 * torch.randn_like(pixels))
        return 1.0 - functional.cosine_similarity(seen, wanted).mean()

    update = script.update

    def follow(found: Any) -> None:
        update(found)
        with torch.no_grad():
            for one, other in zip(
                script.model["teacher"].parameters(), script.model["encoder"].parameters(), strict=True
            ):
                one.lerp_(other, 0.05)

    script.build, script.loss, script.update = build, loss, follow
    script.make_optimizer = lambda model: torch.optim.RMSprop(
        [one for one in model.parameters() if one.requires_grad], lr=script.rate
    )


@healthy("clipped-weights", on="adversarial")
def clipped_weights(script: Script) -> None:
    """Wasserstein's distance, RMSprop, and weights of the judge held in a box (Arjovsky et al. 2017)."""

    def train_step() -> float:
        (real,) = script.tensors(next(script.batches))
        ours, theirs = script.optimizer
        fake = script.model["generator"](torch.randn(len(real), 8))
        loss = script.judge(fake.detach()).mean() - script.judge(real).mean()
        ours.zero_grad()
        loss.backward()
        ours.step()
        with torch.no_grad():
            for one in script.model["judge"].parameters():
                one.clamp_(-0.1, 0.1)
        theirs.zero_grad()
        (-script.judge(fake).mean()).backward()
        theirs.step()
        return script.number(loss)

    script.train_step = train_step
    script.make_optimizer = lambda model: [
        torch.optim.RMSprop(model[name].parameters(), 5e-5) for name in ("judge", "generator")
    ]
