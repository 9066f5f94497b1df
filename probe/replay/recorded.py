"""What a run has stored of one call of a module: the tensors that went in and came out, and its weights."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ...storage import Blobs, Event, Run, Store, display_site, nearest
from ..errors import NotReplayable

_ALL = 1_000_000_000
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """Which call of which module.

    Args:
        step: None for the newest step of which everything is there.
        call: Number of the call in the micro-step.
    """

    site: str
    step: int | None = None
    call: int = 0
    micro_step: int = 0
    rank: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """The tensors of a call, in the dtypes that they had.

    Args:
        inputs: By their place in the arguments: `[0]`, `[1][0]`, `[mask]`.
        outputs: By their place in the output; the first is the empty one.
        weights: By their names inside of the module, those of which several names share one memory under each.
    """

    step: int
    inputs: Arrays
    outputs: Arrays
    weights: Arrays


def recorded_call(store: Store, run: Run, blobs: Blobs, asked: Call) -> RecordedCall:
    """The tensors of one call.

    Raises:
        NotReplayable: Inputs or outputs of it were not dumped at one step.
        StoreUnavailable, StoreDamaged: A file is not there, or not what was written.
    """
    step, inputs, outputs, events = _found(store, run, asked)
    weights = [one for one in events if one.data["subject"] == "weight" and one.step == step]
    return RecordedCall(
        step,
        {_path(one, asked.site): _tensor(blobs, one) for one in inputs if one.step == step},
        {_path(one, asked.site): _tensor(blobs, one) for one in outputs if one.step == step},
        {name: _tensor(blobs, one) for name, one in _weights_inside(store, run, asked, weights).items()},
    )


def check_recorded(store: Store, run: Run, asked: Call) -> None:
    """Nothing, if inputs and outputs of that call were dumped; the tensors themselves are not read.

    Raises:
        NotReplayable: The run has no such module, or inputs or outputs of it were not dumped at one step.
    """
    _found(store, run, asked)


def _found(store: Store, run: Run, asked: Call) -> tuple[int, list[Event], list[Event], Sequence[Event]]:
    """The step, the inputs and outputs of all steps, and all tensors of the run."""
    events = store.events(run.id, rank=asked.rank, kind="tensor", limit=_ALL)
    mine = [one for one in events if one.data["call"] == asked.call and one.micro_step == asked.micro_step]
    inputs = _of_module(mine, "input", asked.site)
    outputs = _of_module(mine, "activation", asked.site)
    steps = {one.step for one in inputs} & {one.step for one in outputs}
    step = max(steps, default=None) if asked.step is None else asked.step
    if step is None or step not in steps:
        modules = [one.site for one in store.structure(run.id, rank=asked.rank).modules]
        raise _nothing(run, asked, inputs, outputs, modules)
    return step, inputs, outputs, events


def _of_module(events: Iterable[Event], subject: str, site: str) -> list[Event]:
    return [one for one in events if one.data["subject"] == subject and one.site.partition("[")[0] == site]


def _path(event: Event, site: str) -> str:
    return event.site.removeprefix(site)


def _tensor(blobs: Blobs, event: Event) -> NDArray[Any]:
    return blobs.get(str(event.data["digest"]))


def _weights_inside(store: Store, run: Run, asked: Call, weights: Iterable[Event]) -> dict[str, Event]:
    """The dumped weights by the names that they have inside of the module."""
    prefix = f"{asked.site}." if asked.site else ""
    dumped = {one.site: one for one in weights}
    parameters = store.structure(run.id, rank=asked.rank).parameters
    by_storage = {one.storage: dumped[one.site] for one in parameters if one.site in dumped}
    found = {one.site: by_storage[one.storage] for one in parameters if one.storage in by_storage} | dumped
    return {site.removeprefix(prefix): one for site, one in found.items() if site.startswith(prefix)}


def _nothing(run: Run, asked: Call, inputs: list[Event], outputs: list[Event], modules: Sequence[str]) -> NotReplayable:
    name = display_site(asked.site)
    if modules and asked.site not in modules and not (inputs or outputs):
        near = nearest(name, map(display_site, modules))
        return NotReplayable(f"run {run.name!r} has no module {name!r}{near or '; `mindscope graph` lists them'}")
    where = f"{name!r} (call {asked.call}, micro-step {asked.micro_step}, rank {asked.rank})"
    both = (("inputs", inputs), ("outputs", outputs))
    there = [f"{what} at steps {_some(events)}" for what, events in both if events]
    at = "" if asked.step is None else f" at step {asked.step}"
    held = f"{' and '.join(there)} of {where}, not both{at}" if there else f"no tensors of {where}"
    return NotReplayable(
        f"run {run.name!r} holds {held}; to replay it, dump "
        f"what it is given, what it makes and its weights: "
        f"dump: {{sites: ['{name}', '{name}.*'], subjects: [input, activation, weight]}}"
    )


def _some(events: list[Event]) -> str:
    steps = sorted({one.step for one in events})
    return ", ".join(map(str, steps[:5])) + (", ..." if len(steps) > 5 else "")
