"""Patches of torch where it has no hooks: backward passes, checkpointing, loss scalers, losses and clipping."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import update_wrapper
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, Generic, Protocol, TypeVar

import torch
from torch.nn import functional
from torch.nn.utils import clip_grad
from torch.utils import checkpoint

from ...aside import is_aside
from ...checks.function_mode import is_transformed
from ...guard import Guard
from ...warning_places import skipped_by_warnings

_Listener = TypeVar("_Listener")
_Result = TypeVar("_Result")


class PatchedFunctions(Generic[_Listener]):
    """Patched functions and the listeners that hear of their calls.

    Args:
        replace: Replaces the functions, each by `put`; called for the first listener.

    Attributes:
        listeners: All listeners.
        awake, asleep: Those that want reports now, and the others; always the same list objects.
    """

    def __init__(self, replace: Callable[[], None]) -> None:
        self._replace = replace
        self.listeners: list[_Listener] = []
        self.awake: list[_Listener] = []
        self.asleep: list[_Listener] = []
        self._originals: list[tuple[object, str, object, object]] = []

    def add(self, listener: _Listener) -> None:
        """Report every call to the listener from now on."""
        self.listeners.append(listener)
        self.awake.append(listener)
        if len(self.listeners) == 1:
            self._replace()

    def remove(self, listener: _Listener) -> None:
        """Remove the listener; after the last one, restore the functions that nobody else has replaced."""
        if listener in self.listeners:
            self.listeners.remove(listener)
        self.wake(listener, False)
        if self.listeners:
            return
        while self._originals:
            owner, name, original, replacement = self._originals.pop()
            if getattr(owner, name) is replacement:
                setattr(owner, name, original)

    def wake(self, listener: _Listener, is_awake: bool) -> None:
        """Report calls to the listener from now on, or stop reporting them."""
        for some in (self.awake, self.asleep):
            if listener in some:
                some.remove(listener)
        if listener in self.listeners:
            (self.awake if is_awake else self.asleep).append(listener)

    def put(self, owner: object, name: str, build: Callable[[Any], Callable[..., object]]) -> None:
        """Replace the owner's function of this name by what `build` makes of it."""
        original = getattr(owner, name)
        replacement = update_wrapper(skipped_by_warnings(build(original)), original)
        self._originals.append((owner, name, original, replacement))
        setattr(owner, name, replacement)


class Guarded(Protocol):
    """A listener whose exceptions are kept from the training.

    Attributes:
        guard: Takes them; a listener whose guard is off hears nothing.
    """

    guard: Guard


def report(listeners: Sequence[Guarded], name: str, *arguments: object) -> None:
    """Call the method of this name of every listener."""
    for listener in tuple(listeners):
        if not listener.guard.is_off:
            try:
                getattr(listener, name)(*arguments)
            except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
                listener.guard.failed(error)


#: Number of the backward pass in which this thread runs; -1 outside of any.
current_graph_task_id = torch._C._current_graph_task_id
_reentrant_forward: CodeType = checkpoint.CheckpointFunction.forward.__code__
_reentrant_backward: CodeType = checkpoint.CheckpointFunction.backward.__code__
_FILE, _AGAIN = checkpoint.__file__, "recompute_fn"


def is_recording() -> bool:
    """Return whether gradients flow through what a module computes now, and this is not a recomputation."""
    return torch.is_grad_enabled() and (current_graph_task_id() == -1 or not _is_repetition())


def is_repeated() -> bool:
    """Return whether another forward of the same checkpointed function counts instead of this one."""
    if torch.is_grad_enabled():
        return bool(current_graph_task_id() != -1) and _is_repetition()
    return is_first_of_two()


def is_first_of_two() -> bool:
    """Return whether this is the forward without gradients of a reentrant checkpoint."""
    return _nearest() is _reentrant_forward


def _is_repetition() -> bool:
    found = _nearest()
    return found is not None and found.co_name == _AGAIN


def _nearest() -> CodeType | None:
    """Return the innermost function of torch's checkpointing that is running."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code is _reentrant_forward or code is _reentrant_backward:
            return code
        if code.co_name == _AGAIN and code.co_filename == _FILE:
            return code
        frame = frame.f_back
    return None


#: Frames above torch's that tell two callers of `backward` apart. Our choice.
_MOST_CALLERS: Final = 8
_FOLDERS: Final = tuple(f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parents[2]))


def calling_place() -> int:
    """Return a number of the place that calls torch now: the same in every turn of a loop, another on another line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDERS):
        frame = frame.f_back
    place = 0
    for _ in range(_MOST_CALLERS):
        if frame is None:
            break
        place = hash((place, id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return place


class TrainingListener(Guarded, Protocol):
    """A listener to backward passes and loss scalers of the process, whichever model they belong to."""

    @property
    def wraps_backward(self) -> bool:
        """Whether `around_backward` may have contexts for a backward pass."""

    def backward_begins(self, roots: object) -> None:
        """Note that `torch.autograd.backward` is about to start from these tensors."""

    def backward_unrecorded(self, roots: object) -> None:
        """Note that a backward pass starts from these tensors while the listener is asleep."""

    def backward_ends(self) -> None:
        """Note that this backward pass has ended."""

    def around_backward(self, roots: object) -> Sequence[AbstractContextManager[object]]:
        """Return the contexts in which this backward pass runs."""

    def gradients_asked(self, roots: object, inputs: object, create_graph: bool) -> None:
        """Note that `torch.autograd.grad` is about to differentiate these tensors with respect to the inputs."""

    def gradients_given(self, inputs: object, gradients: object) -> None:
        """Note that it has, and what came out, as `torch.autograd.grad` returns it."""

    def loss_scaled(self, loss: object, scaled: object, scaler: torch.amp.GradScaler) -> None:
        """Note that a loss scaler has multiplied a loss."""

    def scaler_steps(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that a loss scaler is about to step the optimizer, or to skip its step."""

    def scaler_stepped(self, optimizer: torch.optim.Optimizer, scale: Callable[[], float]) -> None:
        """Note that a loss scaler has stepped the optimizer or skipped its step; reading `scale` may wait."""


def _watched_backward(original: Callable[..., _Result]) -> Callable[..., _Result]:
    def backward(tensors: object, *arguments: object, **options: object) -> _Result:
        if current_graph_task_id() != -1:
            # a checkpointed function recomputes its forward and runs its own backward pass
            return original(tensors, *arguments, **options)
        if _sleeping_trainings:
            report(_sleeping_trainings, "backward_unrecorded", tensors)
        if not _awake_trainings:
            return original(tensors, *arguments, **options)
        report(_awake_trainings, "backward_begins", tensors)
        around = [context for one in _awake_trainings if one.wraps_backward for context in _contexts(one, tensors)]
        if around:
            with ExitStack() as stack:
                for context in around:
                    stack.enter_context(context)
                result = original(tensors, *arguments, **options)
        else:
            result = original(tensors, *arguments, **options)
        report(_awake_trainings, "backward_ends")
        return result

    return backward


def _contexts(listener: TrainingListener, roots: object) -> list["_Around"]:
    """Return the contexts of one listener, whose exceptions do not reach the training either."""
    found = listener.guard(listener.around_backward, otherwise=())(roots)
    return [_Around(context, listener.guard) for context in found]


class _Around:
    """A context of ours around something of the training's: it ends nothing and swallows nothing of that."""

    def __init__(self, context: AbstractContextManager[object], guard: Guard) -> None:
        self._context, self._guard = context, guard
        self._is_entered = False

    def __enter__(self) -> None:
        self._guard(self._enter)()

    def _enter(self) -> None:
        self._context.__enter__()
        self._is_entered = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if self._is_entered:
            try:
                self._context.__exit__(kind, error, trace)
            except BaseException as another:  # noqa: BLE001  the training must not feel that the observation fails
                if another is not error:
                    self._guard.failed(another)


#: Place of `create_graph` behind the outputs and inputs of `torch.autograd.grad`.
_CREATE_GRAPH: Final = 2


def _watched_grad(original: Callable[..., _Result]) -> Callable[..., _Result]:
    def grad(outputs: object, inputs: object, *arguments: object, **options: object) -> _Result:
        if not _awake_trainings or current_graph_task_id() != -1 or is_aside():
            return original(outputs, inputs, *arguments, **options)
        if not isinstance(inputs, torch.Tensor | list | tuple):
            if not isinstance(inputs, Iterator):
                return original(outputs, inputs, *arguments, **options)
            inputs = tuple(inputs)  # as of `parameters()`, which can be read once; the original does so too
        has_graph = bool(options.get("create_graph", arguments[_CREATE_GRAPH] if len(arguments) > _CREATE_GRAPH else 0))
        report(_awake_trainings, "gradients_asked", outputs, inputs, has_graph)
        result = original(outputs, inputs, *arguments, **options)
        report(_awake_trainings, "gradients_given", inputs, result)
        return result

    return grad


def _watched_scale(original: Callable[..., _Result]) -> Callable[..., _Result]:
    def scale(self: torch.amp.GradScaler, outputs: object) -> _Result:
        scaled = original(self, outputs)
        report(_trainings, "loss_scaled", outputs, scaled, self)
        return scaled

    return scale


def _watched_step(original: Callable[..., _Result]) -> Callable[..., _Result]:
    def step(
        self: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, *arguments: object, **options: object
    ) -> _Result:
        report(_trainings, "scaler_steps", optimizer)
        result = original(self, optimizer, *arguments, **options)
        report(_trainings, "scaler_stepped", optimizer, self.get_scale)
        return result

    return step


def _patch_training() -> None:
    _training_patches.put(torch.autograd, "backward", _watched_backward)
    _training_patches.put(torch.autograd, "grad", _watched_grad)
    _training_patches.put(torch.amp.GradScaler, "scale", _watched_scale)
    _training_patches.put(torch.amp.GradScaler, "step", _watched_step)


_training_patches: PatchedFunctions[TrainingListener] = PatchedFunctions(_patch_training)
_trainings, _awake_trainings = _training_patches.listeners, _training_patches.awake
_sleeping_trainings = _training_patches.asleep
add_listener, remove_listener, wake_listener = _training_patches.add, _training_patches.remove, _training_patches.wake


#: The loss functions that are reported, by torch's names.
LOSSES: Final = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "mse_loss",
    "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss", "poisson_nll_loss", "ctc_loss",
)  # fmt: skip


class CallListener(Guarded, Protocol):
    """A listener to losses and gradient clipping in the process, whichever model they belong to."""

    def loss_called(self, name: str, input_: object, target: object, options: dict[str, object]) -> None:
        """Note the call of a loss function with these arguments."""

    def loss_returned(self, result: object, options: dict[str, object]) -> None:
        """Note the result of the loss function."""

    def gradients_clipped(self, parameters: object, limit: float, norm: torch.Tensor | None) -> None:
        """Note that gradients of this norm are about to be clipped; the norm is None when values are clipped."""


def _announcing(
    called: Callable[..., None], returned: Callable[..., None] | None = None
) -> Callable[[FunctionType], FunctionType]:
    """Return a builder of functions that report their calls around the original, unless a transform calls them."""

    def around(original: FunctionType) -> FunctionType:
        is_compiling, is_inside, awake, safely = torch.compiler.is_compiling, is_transformed, _awake_calls, _safely

        def call(*arguments: object, **options: object) -> object:
            if is_compiling() or not awake or is_inside():
                return original(*arguments, **options)
            safely(called, *arguments, **options)
            result = original(*arguments, **options)
            if returned is not None:
                safely(returned, result, options)
            return result

        return FunctionType(call.__code__, original.__globals__, original.__name__, None, call.__closure__)

    return around


def _safely(report_call: Callable[..., None], *arguments: object, **options: object) -> None:
    """Report a call; if that fails before any listener has heard of it, it fails for all of them."""
    try:
        report_call(*arguments, **options)
    except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
        for listener in tuple(_awake_calls):
            listener.guard.failed(error)


#: Arguments behind the targets that may be given by position, as torch's own module of `ctc_loss` does.
_FURTHER: Final[dict[str, tuple[str, ...]]] = {
    "ctc_loss": ("input_lengths", "target_lengths", "blank", "reduction", "zero_infinity"),
    "poisson_nll_loss": ("log_input",),
}


def _report_loss(name: str) -> Callable[..., None]:
    further = _FURTHER.get(name, ())

    def loss_called(*arguments: object, **options: object) -> None:
        values = list(arguments[:2])
        input_ = values[0] if values else options.get("input")
        target = values[1] if len(values) > 1 else options.get("target")
        named = {**dict(zip(further, arguments[2:], strict=False)), **options} if further else options
        report(_awake_calls, "loss_called", name, input_, target, named)

    return loss_called


def _report_result(result: object, options: dict[str, object]) -> None:
    report(_awake_calls, "loss_returned", result, options)


def _report_norm(parameters: object, max_norm: float, total_norm: torch.Tensor, *_: object, **__: object) -> None:
    report(_awake_calls, "gradients_clipped", parameters, float(max_norm), total_norm)


def _report_value(parameters: object, clip_value: float, *_: object, **__: object) -> None:
    if isinstance(parameters, torch.Tensor | list | tuple):  # reading a generator would exhaust it
        report(_awake_calls, "gradients_clipped", parameters, float(clip_value), None)


def _patch_calls() -> None:
    for name in LOSSES:
        if hasattr(functional, name):
            _call_patches.put(functional, name, _announcing(_report_loss(name), _report_result))
    if hasattr(
        clip_grad, "_clip_grads_with_norm_"
    ):  # it runs inside clip_grad_norm_, which users may have imported already
        _call_patches.put(clip_grad, "_clip_grads_with_norm_", _announcing(_report_norm))
    for module in (torch.nn.utils, clip_grad):
        _call_patches.put(module, "clip_grad_value_", _announcing(_report_value))


_call_patches: PatchedFunctions[CallListener] = PatchedFunctions(_patch_calls)
_awake_calls = _call_patches.awake
add_call_listener, remove_call_listener, wake_call_listener = (
    _call_patches.add,
    _call_patches.remove,
    _call_patches.wake,
)


class EarlyLosses:
    """Replaces the loss functions before a script imports them, so that they report also under names of its own."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        add_call_listener(self)
        wake_call_listener(self, False)

    def stop(self) -> None:
        """Restore them, unless somebody still listens."""
        remove_call_listener(self)

    def loss_called(self, name: str, input_: object, target: object, options: dict[str, object]) -> None:
        """Do nothing."""

    def loss_returned(self, result: object, options: dict[str, object]) -> None:
        """Do nothing."""

    def gradients_clipped(self, parameters: object, limit: float, norm: torch.Tensor | None) -> None:
        """Do nothing."""
