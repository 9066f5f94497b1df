"""Every training here runs twice, alone and watched, and must come out the same to the bit."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from mindscope.probe import Monitor, watch
from mindscope.storage import Event, StepRecord, Store, open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

Watching = Callable[..., AbstractContextManager[Any]]
#: A training gets `watching(model, optimizer)`, trains inside of it, and returns its losses and what it has trained.
Training = Callable[[Watching], tuple[list[float], Any]]


@dataclass
class Seen:
    """What the monitors of one training have recorded."""

    store: Store
    losses: list[float]
    monitors: list[Monitor] = field(default_factory=list)

    @property
    def run(self) -> str:
        return self.monitors[0].run.id

    def values(self, site: str, metric: str, run: str = "", **options: Any) -> Any:
        return self.store.series(run or self.run, site, metric, **options).values

    def records(self) -> list[StepRecord]:
        return list(self.store.replay(self.run))

    def events(self, kind: str) -> tuple[Event, ...]:
        return self.store.events(self.run, kind=kind)

    def calls(self, site: str, step: int = 0, subject: str = "activation") -> int:
        """How many calls of the site are in this step's records."""
        blocks = [b for r in self.records() if r.step == step for b in r.blocks if b.layout.subject == subject]
        return sum(
            one == site and (block.present is None or bool(block.present[row]))
            for block in blocks
            for row, one in enumerate(block.layout.sites)
        )

    def faults(self) -> list[Any]:
        return [event.data for event in self.events("monitor_fault")]


def _weights(trained: Any) -> list[bytes]:
    modules = trained if isinstance(trained, list | tuple) else [trained]
    return [p.detach().float().numpy().tobytes() for module in modules for p in module.parameters()]


@pytest.fixture
def alike() -> Callable[..., Seen]:
    """Trains without and with monitors; the losses and the weights are the same bits, and what was seen comes back."""

    def train(training: Training, **options: Any) -> Seen:
        torch.manual_seed(0)
        expected, alone = training(lambda *_, **__: nullcontext())
        store = open_store("memory:")
        seen = Seen(store, [])

        def watching(model: Any, optimizer: Any = None, **more: Any) -> Monitor:
            monitor = watch(model, optimizer, store=store, **{**options, **more})
            seen.monitors.append(monitor)
            return monitor

        torch.manual_seed(0)
        seen.losses, watched = training(watching)
        assert [one.hex() for one in seen.losses] == [one.hex() for one in expected]
        assert _weights(watched) == _weights(alone)
        return seen

    return train
