"""A recorded call of a module: its stored tensors, and what a framework needs to compute it again."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage import Blobs, Event, Run, Store, display_site, nearest
from ..errors import NotReplayable

_ALL = 1_000_000_000
Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class CallReference:
    """Which call of which module.

    Args:
        step: None for the newest step of which everything is there.
        call: Number of the call in the micro-step.
        rank: None for the first of the run.
    """

    site: str
    step: int | None = None
    call: int = 0
    micro_step: int = 0
    rank: int | None = None


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


def recorded_call(store: Store, run: Run, blobs: Blobs, reference: CallReference) -> RecordedCall:
    """Read the tensors of one call.

    Raises:
        NotReplayable: Inputs or outputs of it were not dumped at one step.
        StoreUnavailable, StoreDamaged: A file is not there, or not what was written.
    """
    step, inputs, outputs, events = _found(store, run, reference)
    weights = [event for event in events if event.data["subject"] == "weight" and event.step == step]
    return RecordedCall(
        step,
        {_path(event, reference.site): _tensor(blobs, event) for event in inputs if event.step == step},
        {_path(event, reference.site): _tensor(blobs, event) for event in outputs if event.step == step},
        {name: _tensor(blobs, event) for name, event in _weights_inside(store, run, reference, weights).items()},
    )


def check_recorded(store: Store, run: Run, reference: CallReference) -> None:
    """Check that inputs and outputs of the call were dumped, without reading the tensors.

    Raises:
        NotReplayable: The run has no such module, or inputs or outputs of it were not dumped at one step.
    """
    _found(store, run, reference)


def _found(store: Store, run: Run, reference: CallReference) -> tuple[int, list[Event], list[Event], Sequence[Event]]:
    """Return the step, the inputs and outputs of all steps, and all tensor events of the run."""
    events = store.events(run.id, rank=reference.rank, kind="tensor", limit=_ALL)
    of_call = [
        event for event in events if event.data["call"] == reference.call and event.micro_step == reference.micro_step
    ]
    inputs = _of_module(of_call, "input", reference.site)
    outputs = _of_module(of_call, "activation", reference.site)
    steps = {event.step for event in inputs} & {event.step for event in outputs}
    step = max(steps, default=None) if reference.step is None else reference.step
    if step is None or step not in steps:
        modules = [module.site for module in store.structure(run.id, rank=reference.rank).modules]
        raise _nothing(run, reference, inputs, outputs, modules)
    return step, inputs, outputs, events


def _of_module(events: Iterable[Event], subject: str, site: str) -> list[Event]:
    return [event for event in events if event.data["subject"] == subject and event.site.partition("[")[0] == site]


def _path(event: Event, site: str) -> str:
    return event.site.removeprefix(site)


def _tensor(blobs: Blobs, event: Event) -> NDArray[np.generic]:
    return blobs.get(str(event.data["digest"]))


def _weights_inside(store: Store, run: Run, reference: CallReference, weights: Iterable[Event]) -> dict[str, Event]:
    """Return the dumped weights by the names that they have inside the module."""
    prefix = f"{reference.site}." if reference.site else ""
    dumped = {event.site: event for event in weights}
    parameters = store.structure(run.id, rank=reference.rank).parameters
    by_storage = {parameter.storage: dumped[parameter.site] for parameter in parameters if parameter.site in dumped}
    found = {
        parameter.site: by_storage[parameter.storage] for parameter in parameters if parameter.storage in by_storage
    } | dumped
    return {site.removeprefix(prefix): event for site, event in found.items() if site.startswith(prefix)}


def _nothing(
    run: Run, reference: CallReference, inputs: list[Event], outputs: list[Event], modules: Sequence[str]
) -> NotReplayable:
    name = display_site(reference.site)
    if modules and reference.site not in modules and not (inputs or outputs):
        near = nearest(name, map(display_site, modules))
        return NotReplayable(f"run {run.name!r} has no module {name!r}{near or '; `mindscope graph` lists them'}")
    rank = run.first_rank if reference.rank is None else reference.rank
    where = f"{name!r} (call {reference.call}, micro-step {reference.micro_step}, rank {rank})"
    kinds = (("inputs", inputs), ("outputs", outputs))
    found = [f"{what} at steps {_some(events)}" for what, events in kinds if events]
    at = "" if reference.step is None else f" at step {reference.step}"
    tensors = f"{' and '.join(found)} of {where}, not both{at}" if found else f"no tensors of {where}"
    return NotReplayable(
        f"run {run.name!r} holds {tensors}; to replay it, dump "
        f"what it is given, what it makes and its weights: "
        f"dump: {{sites: ['{name}', '{name}.*'], subjects: [input, activation, weight]}}"
    )


def _some(events: list[Event]) -> str:
    steps = sorted({event.step for event in events})
    return ", ".join(map(str, steps[:5])) + (", ..." if len(steps) > 5 else "")


_STEP = re.compile(r"\[([^\]]*)\]")


class Execution(Protocol):
    """One module of one framework."""

    def outputs(self, weights: Arrays, inputs: Arrays, *, seed: int = 0) -> dict[str, NDArray[np.generic]]:
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
    inputs: Arrays, tensor: Callable[[NDArray[np.generic]], Any]
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
    inner = {key: _nested(inner_value) for key, inner_value in value.items()}
    return tuple(_in_order(inner)) if all(key.isdigit() for key in inner) else inner


def _in_order(values: Mapping[str, Any]) -> list[Any]:
    positions = [int(key) for key in values if key.isdigit()]
    return [values.get(str(position)) for position in range(max(positions, default=-1) + 1)]
