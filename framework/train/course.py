"""The course of a training: callbacks called in turn, a network in evaluation mode, batches as tensors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..context import no_grad
from ..data import Dataset, Loader
from ..nn.cell import Cell
from ..tensor import Tensor
from .callbacks.callback import Callback, RunContext
from .metrics import Metric, metric_of

#: A dataset, a loader (which may stand in the middle of an epoch), or anything that yields batches.
Batches: TypeAlias = Dataset | Loader | Iterable[Any]
Metrics: TypeAlias = Mapping[str, Metric | str] | Iterable[str]
Callbacks: TypeAlias = Callback | Sequence[Callback] | None


def metrics_of(given: Metrics | None) -> dict[str, Metric]:
    """The metrics by the names that results have."""
    if given is None:
        return {}
    named = given if isinstance(given, Mapping) else {name: name for name in given}
    return {name: metric_of(entry) if isinstance(entry, str) else entry for name, entry in named.items()}


def listed(callbacks: Callbacks) -> list[Callback]:
    """The callbacks, however they were given."""
    if callbacks is None:
        return []
    return [callbacks] if isinstance(callbacks, Callback) else list(callbacks)


def call_all(callbacks: list[Callback], turn: str, context: RunContext) -> None:
    """Nothing; every callback has had this turn."""
    for callback in callbacks:
        getattr(callback, turn)(context)


@contextmanager
def between(callbacks: list[Callback], begin: str, end: str, context: RunContext) -> Iterator[None]:
    """A block before which every callback is begun, and after which those that were are ended, whatever happens."""
    begun: list[Callback] = []
    try:
        for callback in callbacks:
            begun.append(callback)
            call_all([callback], begin, context)
        yield
    finally:
        call_all(begun, end, context)


@contextmanager
def evaluating(network: Cell) -> Iterator[None]:
    """A block in which the network is in evaluation mode and nothing is recorded."""
    was_training = network.training
    network.set_train(False)
    try:
        with no_grad():
            yield
    finally:
        network.set_train(was_training)


def batches_of(batches: Batches, number: int) -> Iterator[tuple[Any, ...]]:
    """The batches of one epoch as tuples."""
    found = batches.epoch(number) if isinstance(batches, Dataset) else iter(batches)
    for batch in found:
        yield tuple(batch) if isinstance(batch, tuple | list) else (batch,)


def length_of(batches: Batches) -> int | None:
    """How many batches there are, if that is known."""
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_input(value: Any) -> Tensor:
    """The value as a tensor."""
    return value if isinstance(value, Tensor) else Tensor(value)
