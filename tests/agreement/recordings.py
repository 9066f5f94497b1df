"""Small recordings of many kinds, as real trainings, readers of other tools' files and crashes leave them in a store.

`RECORDINGS` has each by its name; `make` writes some of them into a folder. A training takes a few tenths of a second.
"""

import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import mindscope as ms
import numpy as np
import torch
from mindscope.cli import main
from mindscope.storage import Outcome, StepRecord, Store, open_store
from torch.utils.tensorboard import SummaryWriter

from ..dashboard.recorded import Plan, write_run

RECORDINGS: dict[str, Callable[[Store], None]] = {}


def make(names: Iterable[str], folder: Path) -> None:
    """Write these recordings into the store of the folder, each under its name."""
    with open_store(str(folder)) as store:
        for name in names:
            RECORDINGS[name](store)


_LEFT_OPEN: list[object] = []


@dataclass
class Training:
    """A classifier on two clouds, and what may be wrong with it.

    Attributes:
        at_step: Called with the step and the training's model, batch and optimizer before each forward; it may raise.
        sign: Of the loss that is descended.
    """

    steps: int = 70
    rate: float = 0.1
    sign: float = 1.0
    seed: int = 0
    zeroes: bool = True
    validates: bool = False
    frozen: bool = False
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD
    closes: bool = True
    config: dict[str, Any] = field(default_factory=dict)
    at_step: Callable[[int, torch.nn.Module, torch.Tensor], None] = lambda step, model, x: None

    def __call__(self, store: Store, name: str) -> None:
        """Train, and leave the recording in the store."""
        torch.manual_seed(self.seed)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        if self.frozen:
            model[0].weight.requires_grad_(False)
            model[0].bias.requires_grad_(False)
        optimizer = self.optimizer([item for item in model.parameters() if item.requires_grad], lr=self.rate)
        generator = torch.Generator().manual_seed(self.seed)
        centres = 2 * torch.randn(3, 8, generator=generator)
        monitor = ms.watch(model, optimizer, store=store, run=name, config=self.config)
        with suppress(RuntimeError, KeyboardInterrupt), monitor if self.closes else nullcontext():
            for step in range(self.steps):
                y = torch.randint(0, 3, (16,), generator=generator)
                x = centres[y] + torch.randn(16, 8, generator=generator)
                self.at_step(step, model, x)
                if self.zeroes:
                    optimizer.zero_grad()
                (self.sign * torch.nn.functional.cross_entropy(model(x), y)).backward()
                optimizer.step()
                if self.validates and step % 10 == 9:
                    monitor.log({"validation/loss": math.exp(-step / 30)})
        if not self.closes:
            monitor.flush()
            _LEFT_OPEN.append(monitor)


def recording(name: str) -> Callable[[Callable[[Store, str], None]], Callable[[Store, str], None]]:
    """Register a function that writes one recording."""

    def register(write: Callable[[Store, str], None]) -> Callable[[Store, str], None]:
        RECORDINGS[name] = lambda store: write(store, name)
        return write

    return register


def _at(step: int, act: Callable[[torch.nn.Module, torch.Tensor], object]) -> Callable[..., None]:
    return lambda now, model, x: act(model, x) if now == step else None  # type: ignore[func-returns-value]


def _raise(error: BaseException) -> Callable[..., None]:
    def act(model: torch.nn.Module, x: torch.Tensor) -> None:
        raise error

    return act


def _both(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    return lambda step, model, x: (first(step, model, x), second(step, model, x))  # type: ignore[func-returns-value, return-value]


def _ruin(model: torch.nn.Module, x: torch.Tensor) -> None:
    x[3, 2] = math.nan


def _ruin_more(model: torch.nn.Module, x: torch.Tensor) -> None:
    x[3, 2] = math.inf


def _blow_up(model: torch.nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        model[2].weight.mul_(1e30)


for _name, _training in {
    "good": Training(),
    "good, validated": Training(validates=True),
    "good, adam": Training(rate=0.01, optimizer=torch.optim.Adam),
    "good, long": Training(steps=300),
    "one step": Training(steps=1),
    "three steps": Training(steps=3),
    "twenty steps": Training(steps=20),
    "no step": Training(steps=0),
    "wrong sign": Training(sign=-1.0, steps=150),
    "wrong sign, infinite batch": Training(sign=-1.0, steps=150, at_step=_at(60, _ruin_more)),
    "rate too high": Training(rate=50.0, steps=120),
    "rate too low": Training(rate=1e-9, steps=150),
    "batch with nan": Training(at_step=_at(40, _ruin)),
    "weights blown up": Training(at_step=_at(40, _blow_up)),
    "gradients kept": Training(zeroes=False, steps=120),
    "frozen layer": Training(frozen=True),
    "error": Training(at_step=_at(30, _raise(RuntimeError("shapes cannot be multiplied")))),
    "error, at once": Training(at_step=_at(0, _raise(RuntimeError("CUDA out of memory")))),
    "error, no message": Training(at_step=_at(30, _raise(RuntimeError()))),
    "error after nan": Training(at_step=_both(_at(20, _ruin), _at(30, _raise(RuntimeError("no"))))),
    "interrupted": Training(at_step=_at(30, _raise(KeyboardInterrupt()))),
    "loss only": Training(config={"subjects": ["loss"]}),
    "no gradients": Training(config={"subjects": ["loss", "update", "optimizer"]}),
    "every fifth step": Training(steps=120, config={"every": 5}),
    "every fifth step, wrong sign": Training(steps=300, sign=-1.0, config={"every": 5}),
    "watchpoint": Training(config={"watchpoints": ["gradient/l2_norm > 0"]}),
}.items():
    recording(_name)(lambda store, name, training=_training: training(store, name))


@recording("muted finding")
def _muted(store: Store, name: str) -> None:
    Training(at_step=_at(40, _ruin))(store, name)
    run = store.find_run(name)
    for finding in store.findings(run.id)[:1]:
        store.mute(run.id, finding.rule, finding.site)


@recording("two learners")
def _two_learners(store: Store, name: str) -> None:
    """A generator and a discriminator, of which one module is watched with both optimizers."""
    torch.manual_seed(0)
    net = torch.nn.ModuleDict({"G": _mlp(4, 8, 8), "D": _mlp(8, 8, 1)})
    optimizers = [torch.optim.Adam(net[part].parameters(), lr=1e-3) for part in ("G", "D")]
    with ms.watch(net, optimizers, store=store, run=name):
        _play(net["G"], net["D"], *optimizers)


@recording("discriminator alone")
def _discriminator(store: Store, name: str) -> None:
    """The same game, where only the discriminator is watched."""
    torch.manual_seed(0)
    generator, discriminator = _mlp(4, 8, 8), _mlp(8, 8, 1)
    optimizers = [torch.optim.Adam(net.parameters(), lr=1e-3) for net in (generator, discriminator)]
    with ms.watch(discriminator, optimizers[1], store=store, run=name):
        _play(generator, discriminator, *optimizers)


def _mlp(inputs: int, width: int, outputs: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, outputs))


def _play(generator: Any, discriminator: Any, of_generator: Any, of_discriminator: Any, steps: int = 60) -> None:
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    for _ in range(steps):
        real, fake = torch.randn(16, 8) + 2, generator(torch.randn(16, 4))
        of_discriminator.zero_grad()
        true, false = discriminator(real), discriminator(fake.detach())
        (loss(true, torch.ones_like(true)) + loss(false, torch.zeros_like(false))).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        judged = discriminator(fake)
        loss(judged, torch.ones_like(judged)).backward()
        of_generator.step()


@recording("no loss")
def _no_loss(store: Store, name: str) -> None:
    """A training whose loss the monitor cannot know: a user's own gradient."""
    torch.manual_seed(0)
    model = _mlp(4, 8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with ms.watch(model, optimizer, store=store, run=name):
        for _ in range(40):
            optimizer.zero_grad()
            output = model(torch.randn(8, 4))
            output.backward(torch.ones_like(output))
            optimizer.step()


@recording("csv")
def _csv(store: Store, name: str) -> None:
    _import(store, name, [math.exp(-step / 40) for step in range(120)])


@recording("csv, diverges")
def _csv_diverges(store: Store, name: str) -> None:
    _import(store, name, [math.exp(-step / 40) if step < 60 else math.nan for step in range(120)])


def _import(store: Store, name: str, losses: list[float]) -> None:
    place = Path(store.url) / f"{name}.csv"
    rows = (f"0,{step},0,{step},,0,scalar/loss,{loss}" for step, loss in enumerate(losses))
    place.write_text("\n".join(("rank,step,micro_step,time,site,call,metric,value", *rows)))
    _import_file(store, place, name)
    place.unlink()


def _import_file(store: Store, place: Path, name: str) -> None:
    with redirect_stdout(StringIO()):
        assert main(["import", str(place), "--name", name, "--store", store.url]) == 0


@recording("tensorboard")
def _tensorboard(store: Store, name: str) -> None:
    place = Path(store.url) / "events"
    with SummaryWriter(str(place)) as writer:
        for step in range(0, 900, 3):
            writer.add_scalar("train/loss", 2.0 * math.exp(-step / 300) + 0.01 * math.sin(step), step)
    _import_file(store, place, name)


@recording("written, fine")
def _written_fine(store: Store, name: str) -> None:
    write_run(store, name, Plan(steps=120, goes_bad=False, spike_at=None, seed=1))


@recording("written, thousands")
def _written_long(store: Store, name: str) -> None:
    """A loss of thousands of steps, noisy, with one low value far from both ends."""
    noise = np.random.default_rng(0).normal(0, 20, 5000)
    losses = 500 + noise - 0.005 * np.arange(5000)
    losses[2345] = 311.0
    writer = store.begin_run(name, framework="pytorch")
    writer.write([StepRecord(step, 1e9 + step, scalars={"loss": loss}) for step, loss in enumerate(losses.tolist())])
    writer.close("finished")


@recording("written, killed")
def _written_killed(store: Store, name: str) -> None:
    """A process that needs no PyTorch writes some steps and ends without a word."""
    words = ("-W", "ignore", "-c", _WRITE, store.url, name)
    subprocess.run([sys.executable, *words], check=False, cwd=_ROOT)


_ROOT = Path(__file__).parents[2]
_WRITE = """
import os, sys
from mindscope.storage import open_store
from tests.dashboard.recorded import Plan, write_run

write_run(open_store(sys.argv[1]), sys.argv[2], Plan(steps=40, goes_bad=False, spike_at=None), closes=False)
os._exit(9)
"""


@recording("evaluation")
def _evaluation(store: Store, name: str) -> None:
    writer = store.begin_run(name, kind="evaluation")
    writer.write_outcomes([Outcome("fgsm", "linf", 0.1, 0.5, 100)])
    writer.close("finished")


@recording("empty, ended")
def _empty(store: Store, name: str) -> None:
    store.begin_run(name).close("finished")


@recording("failed before its first step")
def _failed_early(store: Store, name: str) -> None:
    store.begin_run(name).close("failed", "ValueError: no such file")


@recording("killed")
def _killed(store: Store, name: str) -> None:
    """Three trainings in one process that ends without a word, which saves two starts."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", _LEAVE, store.url], check=False, cwd=_ROOT)


_LEAVE = """
import os, sys
from tests.agreement.recordings import Training, _at, _ruin
from mindscope.storage import open_store

store = open_store(sys.argv[1])
Training(steps=30, closes=False)(store, "killed")
Training(closes=False, at_step=_at(20, _ruin))(store, "killed after nan")
Training(steps=0, closes=False)(store, "killed before its first step")
os._exit(9)
"""


if __name__ == "__main__":
    make(RECORDINGS, Path(sys.argv[1]))
