"""Healthy trainings as other people write them are not called unhealthy, whatever their loss does."""

import copy
from collections.abc import Callable, Iterator

import mindscope as ms
import pytest
import torch
from mindscope.insight import Diagnosis, diagnose
from mindscope.storage import open_store
from torch import nn
from torch.nn import functional

Train = Iterator[None]


def clusters(classes: int, width: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.randint(0, classes, (samples,))
    centers = torch.randn(classes, width, generator=torch.Generator().manual_seed(1)) * 2
    return centers[labels] + torch.randn(samples, width), labels


def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def full_batch() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    inputs = torch.randn(60, 5)
    wanted = inputs @ torch.randn(5, 1)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def train() -> Train:
        for _ in range(100):
            step(optimizer, functional.mse_loss(model(inputs), wanted))
            yield

    return model, optimizer, train()


def last_batch_of_two() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    inputs, labels = clusters(5, 10, 130)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)

    def train() -> Train:
        for _ in range(20):
            for batch in torch.randperm(130).split(32):
                step(optimizer, functional.cross_entropy(model(inputs[batch]), labels[batch]))
                yield

    return model, optimizer, train()


def two_players() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer, other = (torch.optim.Adam(player.parameters(), 1e-3, (0.5, 0.999)) for player in (judge, maker))
    loss = nn.BCEWithLogitsLoss()

    def train() -> Train:
        for _ in range(100):
            made = maker(torch.randn(32, 4))
            optimizer.zero_grad()
            loss(judge(torch.randn(32, 2) + 2), torch.ones(32, 1)).backward()
            loss(judge(made.detach()), torch.zeros(32, 1)).backward()
            optimizer.step()
            step(other, loss(judge(made), torch.ones(32, 1)))
            yield

    return judge, optimizer, train()


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(4, 32), nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.tanh(self.body(seen))
        return self.policy(hidden), self.value(hidden)[:, 0]


def policy_that_collects() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    model, goal = ActorCritic(), torch.randn(4)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)

    def train() -> Train:
        for cycle in range(15):
            seen = torch.randn(32, 4) + cycle / 5
            with torch.no_grad():
                acts = torch.cat([torch.distributions.Categorical(logits=model(one[None])[0]).sample() for one in seen])
            rewards = (seen @ goal) * (2 * acts - 1) * (1 + cycle)
            for _ in range(8):
                logits, value = model(seen)
                chosen = torch.distributions.Categorical(logits=logits).log_prob(acts)
                advantage = (rewards - value).detach()
                step(optimizer, -(chosen * advantage).mean() + functional.smooth_l1_loss(value, rewards))
                yield

    return model, optimizer, train()


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.aux = nn.Linear(8, 32), nn.Linear(32, 1), nn.Linear(32, 3)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.relu(self.body(inputs))
        return self.head(hidden), self.aux(hidden)


def curriculum_with_a_late_head() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    model, weight, other = TwoHeads(), torch.randn(8, 1), torch.randn(8, 3)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)

    def train() -> Train:
        for at in range(100):
            inputs = torch.randn(32, 8) * (0.2 + at / 50)
            wanted, aux = model(inputs)
            late = functional.mse_loss(aux, inputs @ other) if at >= 40 else 0.0 * aux.sum()
            step(optimizer, functional.mse_loss(wanted, inputs @ weight) + late)
            yield

    return model, optimizer, train()


class Frozen(nn.Module):
    """A teacher that follows slowly, and a backbone in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.head = nn.Linear(32, 5)
        self.teacher = copy.deepcopy(self.head).requires_grad_(requires_grad=False)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(inputs)
        return self.head(hidden), self.teacher(hidden)


def fine_tuning_with_a_teacher() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    model = Frozen()
    model.body.requires_grad_(requires_grad=False)
    optimizer = torch.optim.AdamW(model.head.parameters(), 1e-2)

    def train() -> Train:
        for _ in range(80):
            model.train()
            model.body.eval()
            inputs, labels = clusters(5, 10, 32)
            logits, follows = model(inputs)
            step(optimizer, functional.cross_entropy(logits, labels) + 0.1 * functional.mse_loss(logits, follows))
            with torch.no_grad():
                model.teacher.weight.lerp_(model.head.weight, 0.05)
            yield

    return model, optimizer, train()


def noise_to_predict() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    model = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)

    def train() -> Train:
        for _ in range(100):
            noise = torch.randn(32, 32)
            step(optimizer, functional.mse_loss(model(0.2 * torch.randn(32, 32) + 0.98 * torch.randn(32, 32)), noise))
            yield

    return model, optimizer, train()


def pairs_that_keep_their_distance() -> tuple[nn.Module, torch.optim.Optimizer, Train]:
    model, centers = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8)), 2 * torch.randn(4, 10)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def train() -> Train:
        for _ in range(80):
            inputs = centers[torch.randint(0, 4, (32,))] + 0.1 * torch.randn(32, 10)
            near, far = inputs + 0.1 * torch.randn_like(inputs), -inputs
            step(optimizer, functional.triplet_margin_loss(model(inputs), model(near), model(far), margin=0.3))
            yield

    return model, optimizer, train()


HEALTHY: tuple[Callable[[], tuple[nn.Module, torch.optim.Optimizer, Train]], ...] = (
    curriculum_with_a_late_head,
    fine_tuning_with_a_teacher,
    full_batch,
    last_batch_of_two,
    noise_to_predict,
    pairs_that_keep_their_distance,
    policy_that_collects,
    two_players,
)


def diagnosed(build: Callable[[], tuple[nn.Module, torch.optim.Optimizer, Train]]) -> Diagnosis:
    torch.manual_seed(0)
    with open_store("memory:") as store:
        model, optimizer, train = build()
        with ms.watch(model, optimizer, store=store) as monitor:
            for _ in train:
                pass
        return diagnose(store, monitor.run.id)


@pytest.mark.parametrize("build", HEALTHY, ids=[build.__name__ for build in HEALTHY])
def test_a_healthy_training_of_a_stranger_is_not_called_unhealthy(build) -> None:
    found = diagnosed(build)
    assert found.verdict == "healthy", [(item.cause, item.explanation) for item in found.root_causes]
    assert all(finding.confidence < 1 for finding in found.findings)


def test_what_is_meant_is_asked_beside_the_verdict() -> None:
    found = diagnosed(fine_tuning_with_a_teacher)
    assert {"frozen_parameter"} <= {finding.cause for finding in found.questions}
    assert diagnosed(last_batch_of_two).verdict_words == "healthy"
