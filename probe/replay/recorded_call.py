"""A recorded call of a module: its stored tensors, and what a framework needs to compute it again."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from ...storage import Blobs, Event, Run, Store, display_site, nearest
from ..errors import NotReplayable

_ALL = 1_000_000_000
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CallReference:
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


def recorded_call(store: Store, run: Run, blobs: Blobs, asked: CallReference) -> RecordedCall:
    """Read the tensors of one call.

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


def check_recorded(store: Store, run: Run, asked: CallReference) -> None:
    """Check that inputs and outputs of the call were dumped, without reading the tensors.

    Raises:
        NotReplayable: The run has no such module, or inputs or outputs of it were not dumped at one step.
    """
    _found(store, run, asked)


def _found(store: Store, run: Run, asked: CallReference) -> tuple[int, list[Event], list[Event], Sequence[Event]]:
    """Return the step, the inputs and outputs of all steps, and all tensor events of the run."""
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


def _weights_inside(store: Store, run: Run, asked: CallReference, weights: Iterable[Event]) -> dict[str, Event]:
    """Return the dumped weights by the names that they have inside the module."""
    prefix = f"{asked.site}." if asked.site else ""
    dumped = {one.site: one for one in weights}
    parameters = store.structure(run.id, rank=asked.rank).parameters
    by_storage = {one.storage: dumped[one.site] for one in parameters if one.site in dumped}
    found = {one.site: by_storage[one.storage] for one in parameters if one.storage in by_storage} | dumped
    return {site.removeprefix(prefix): one for site, one in found.items() if site.startswith(prefix)}


def _nothing(
    run: Run, asked: CallReference, inputs: list[Event], outputs: list[Event], modules: Sequence[str]
) -> NotReplayable:
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


_STEP = re.compile(r"\[([^\]]*)\]")


class Execution(Protocol):
    """One module of one framework."""

    def outputs(self, weights: Arrays, inputs: Arrays, *, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Compute the outputs by path, the first under the empty one; random numbers come from the seed."""


def check_weights(site: str, needed: Mapping[str, tuple[int, ...]], weights: Arrays) -> None:
    """Check that every parameter was recorded in its shape.

    Args:
        needed: The shapes of the module's parameters.

    Raises:
        NotReplayable: The first that was not.
    """
    name = display_site(site)
    for parameter, shape in needed.items():
        found = weights.get(parameter)
        if found is None:
            raise NotReplayable(
                f"the weight {parameter!r} of {name!r} was not dumped; dump: {{sites: ['{name}', '{name}.*'], "
                f"subjects: [input, activation, weight]}}, and hand over the module of the run"
            )
        if tuple(found.shape) != tuple(shape):
            raise NotReplayable(
                f"the weight {parameter!r} of {name!r} was recorded in shape {found.shape}, the module has {shape}; "
                f"make it with the options of the run"
            )


def arguments(
    inputs: Arrays, tensor: Callable[[NDArray[Any]], Any]
) -> tuple[list[Any], dict[str, Any]]:  # Any: a framework's tensors, nested as they were
    """Return positional and keyword arguments of the call; positional ones that were no tensors are None."""
    tree: dict[str, Any] = {}
    for path, array in inputs.items():
        *outer, last = _STEP.findall(path)
        inside = tree
        for key in outer:
            inside = inside.setdefault(key, {})
        inside[last] = tensor(array)
    nested = {key: _nested(value) for key, value in tree.items()}
    return _in_order(nested), {key: value for key, value in nested.items() if not key.isdigit()}


def _nested(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _nested(one) for key, one in value.items()}
    return tuple(_in_order(inner)) if all(key.isdigit() for key in inner) else inner


def _in_order(values: Mapping[str, Any]) -> list[Any]:
    places = [int(key) for key in values if key.isdigit()]
    return [values.get(str(place)) for place in range(max(places, default=-1) + 1)]
