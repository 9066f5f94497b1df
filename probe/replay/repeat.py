"""Replays one recorded call of a module in float64: was the kernel wrong, or its input?"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Run, Store, display_site, tensor_files
from ..errors import NotReplayable
from .judge import Judgement, judge, unit_roundoff
from .recorded_call import Arrays, CallReference, Execution, RecordedCall, recorded_call

_EXECUTIONS: Final = {
    "torch": (".torch_execution", "TorchExecution"),
    "mindscope": (".engine_execution", "EngineExecution"),
}
#: Runs with moved inputs; eight give a root mean square that is within a factor of two of the true one in all but one
#: of 500 elements (chi square of eight degrees of freedom), where the limit of `judge` is a factor of 32.
_MOVED: Final = 8


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of it.

    Args:
        site: The module.
        outputs: By place in its output; the first is the empty one.
        notes: What the reader has to know to trust the outcome.
    """

    run: str
    site: str
    step: int
    outputs: Mapping[str, Judgement]
    notes: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether some output is not what the inputs and weights make."""
        return any(output.verdict == "wrong_kernel" for output in self.outputs.values())


def replay(
    store: Store,
    run: Run,
    module: object,
    reference: CallReference,
    *,
    training: bool = True,
    options: Mapping[str, object] | None = None,
) -> Replayed:
    """Compute a recorded call again in float64 and compare the two.

    Inputs, outputs and weights come from the tensors that the run has dumped, `dump: {sites: [SITE, SITE.*], subjects:
    [input, activation, weight]}`; what is no parameter, such as running statistics, comes from the module.

    Args:
        module: As the run had it: the module at the site, the whole model, or a function of tensors; its weights do
            not matter.
        training: Whether it is computed in training mode.
        options: Further keyword arguments of the call, that are no tensors.

    Raises:
        NotReplayable: Something was not dumped, the module is another one, or it draws random numbers.
        StoreUnavailable, StoreDamaged: A tensor's file is not there, or not what was written.
    """
    found = recorded_call(store, run, tensor_files(store, run), reference)
    execution = _execution(run, module, reference.site, training=training, options=options or {})
    exact = _double(execution, found)
    if missing := set(found.outputs) - set(exact):
        raise NotReplayable(
            f"{display_site(reference.site)!r} gives no output {sorted(missing)} here, as it did in the run; "
            f"hand over the module of the run"
        )
    native, notes = _native(execution, found, exact)
    moved = list(_moved(execution, found))
    are_finite = all(bool(np.isfinite(weight.astype(np.float64)).all()) for weight in found.weights.values())
    outputs = {
        path: judge(
            recorded,
            exact[path],
            [moved_outputs[path] for moved_outputs in moved],
            native.get(path),
            weights_are_finite=are_finite,
        )
        for path, recorded in found.outputs.items()
    }
    return Replayed(run.id, reference.site, found.step, outputs, notes)


def _execution(run: Run, module: object, site: str, *, training: bool, options: Mapping[str, object]) -> Execution:
    framework = run.framework.split()[0] if run.framework else ""
    if framework not in _EXECUTIONS:
        raise NotReplayable(
            f"run {run.name!r} was recorded from {run.framework or 'no framework'}; "
            f"modules of torch and of the engine can be replayed"
        )
    file, name = _EXECUTIONS[framework]
    if not callable(module):
        raise NotReplayable(f"a module to replay is one that can be called, got {type(module).__name__}")
    execution: Execution = getattr(import_module(file, __package__), name)(
        module, site, training=training, options=options
    )
    return execution


def _double(execution: Execution, found: RecordedCall) -> dict[str, NDArray[Any]]:
    weights, inputs = _as_double(found.weights), _as_double(found.inputs)
    first, second = (execution.outputs(weights, inputs, seed=seed) for seed in (0, 1))
    if any(not np.array_equal(output, second[path], equal_nan=True) for path, output in first.items()):
        raise NotReplayable(
            "the module draws random numbers, as dropout does, and no draw repeats that of the run; "
            "replay the modules around it"
        )
    return {path: output.astype(np.float64) for path, output in first.items()}


def _native(
    execution: Execution, found: RecordedCall, exact: Arrays
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Compute the outputs in the recorded dtypes, as far as a kernel here can; return them with notes."""
    if all(output.dtype == np.float64 for output in found.outputs.values()):
        return {}, ("the run computed in float64 itself: what differs is the order of operations",)
    try:
        computed = execution.outputs(found.weights, found.inputs)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return {}, (f"no kernel here computes it in the recorded dtypes ({_first_line(error)})",)
    same = {
        path: output for path, output in computed.items() if path in exact and _is_like(output, found.outputs.get(path))
    }
    if len(same) < len(found.outputs):
        return same, ("the recorded dtype is not that of the weights: it ran under mixed precision",)
    return same, ()


def _is_like(array: NDArray[Any], recorded: NDArray[Any] | None) -> bool:
    return recorded is not None and (array.dtype, array.shape) == (recorded.dtype, recorded.shape)


def _moved(execution: Execution, found: RecordedCall) -> "list[dict[str, NDArray[np.float64]]]":
    """Compute the outputs for inputs and weights that are rounded differently."""
    unit = max(unit_roundoff(output.dtype) for output in found.outputs.values())
    random = np.random.default_rng(0)

    def moved(arrays: Arrays) -> dict[str, NDArray[Any]]:
        return {
            name: array * (1.0 + unit * random.uniform(-1.0, 1.0, array.shape)) if array.dtype == np.float64 else array
            for name, array in _as_double(arrays).items()
        }

    return [
        {path: output.astype(np.float64) for path, output in outputs.items()}
        for outputs in (execution.outputs(moved(found.weights), moved(found.inputs)) for _ in range(_MOVED))
    ]


def _as_double(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Convert floats to float64; integers and booleans, such as tokens and masks, stay as they are."""
    return {
        name: array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array
        for name, array in arrays.items()
    }


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
