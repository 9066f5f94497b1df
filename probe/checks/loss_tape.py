"""Computes a loss again for other outputs of its models: do the answers of a batch belong to their own samples?"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from operator import attrgetter
from typing import Any, Final

import torch

from ...storage.records import Json
from ..aside import checking, is_aside, same_random_numbers
from ..guard import Guard
from .check_result import CheckResult
from .function_mode import FunctionMode
from .model_call import outputs_of
from .reshaped_axes import RESHAPES, Reshape, axes_are_not_exchanged_by_reshaping
from .step_direction import DOWNHILL, StepDirection

#: Functions between the outputs and the loss, elements of all tensors that are copied for them, and calls of models
#: that are kept. Our choice.
_MOST_CALLS, _MOST_ELEMENTS, _MOST_OUTPUTS, _MOST_ROOTS = 400, 1 << 21, 4, 4
_DEEPEST: Final = 3
#: Exchanges of the answers, samples below which they say nothing, and seconds that they may take. Our choice.
_EXCHANGES, _FEWEST, _MOST_S = 16, 8, 0.1
#: Relative error within which a loss that is computed again is the same.
_SAME: Final = 1e-5
#: Functions whose results are other ones in each call: they are taken as they were, unless gradients flow through.
_DRAWS: Final = frozenset(
    {"randn_like", "rand_like", "bernoulli", "multinomial", "normal", "randint_like", "item", "tolist", "numpy"}
)


class NotRecorded(Exception):
    """The loss cannot be computed again; the message says why."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """Stands for a tensor that a recorded function got or made."""

    number: int


@dataclass(frozen=True, slots=True)
class _Call:
    """A recorded call, with a slot in place of each tensor."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    made: Any


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the loss of a batch would be if the answers of its samples were exchanged.

    Args:
        loss: As it was.
        exchanged: The mean over exchanges.
        spread: The standard deviation over exchanges.
        samples: How many answers were exchanged.
        is_raised: Whether the optimizers raise it.
    """

    loss: float
    exchanged: float
    spread: float
    samples: int
    is_raised: bool = False

    def data(self) -> dict[str, Json]:
        """Return the fields of the event `exchange`."""
        values: dict[str, Json] = {"loss": self.loss, "exchanged": self.exchanged, "spread": self.spread}
        return {**values, "samples": self.samples, **({"is_raised": True} if self.is_raised else {})}

    @property
    def score(self) -> float:
        """How much better the loss is than after an exchange, in standard deviations of the exchanges."""
        return (self.exchanged - self.loss) / self.spread * (-1 if self.is_raised else 1)


class LossTape(FunctionMode):
    """Records the functions that a program calls between its models' outputs and its loss.

    It lies on torch's stack of modes from the first output on and calls each function as it is; nothing of the program
    computes another value for it. It records only what depends on an output. Data that enter are copied as they were.
    """

    def __init__(self, guard: Guard | None = None, direction: StepDirection = DOWNHILL) -> None:
        super().__init__(guard)
        self._direction = direction
        self._kept: list[torch.Tensor] = []  # their numbers are free for others once they are gone
        self._numbers: dict[int, int] = {}
        self._values: dict[int, torch.Tensor] = {}
        self._calls: list[_Call] = []
        self._outputs: list[list[int]] = []
        self._roots: list[tuple[int, float, bool]] = []
        self._elements = 0
        self._shapes: list[Reshape] = []
        self._reason, self._is_paused, self._is_transformed = "", False, False

    # While the training runs ------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Record nothing: a watched model is being called."""
        self._is_paused = True

    def add_outputs(self, output: Any) -> None:
        """Take what a watched model has returned, and record what is made of it."""
        self._is_paused = False
        if self._reason or len(self._outputs) >= _MOST_OUTPUTS:
            return
        try:
            found = [self._take(tensor) for tensor in outputs_of(output) if id(tensor) not in self._numbers]
        except NotRecorded as reason:
            self._reason = str(reason)
            return
        if found:
            self._outputs.append(found)
            if not self.begin():
                self._reason = "another mode of torch is active, or functions are compiled"

    def backward_begins(self, root: torch.Tensor) -> None:
        """Note a loss that is about to be differentiated, and record nothing meanwhile."""
        self._is_paused = True
        if self._is_transformed and not self._roots:
            self._reason = self._reason or "functions are transformed between the outputs and the loss"
        number = None if self._is_transformed else self._numbers.get(id(root))
        if number is not None and root.numel() == 1 and len(self._roots) < _MOST_ROOTS:
            self._roots.append((number, float(root.detach()), self._direction.sign(root.grad_fn) < 0))

    def backward_ends(self) -> None:
        """Record again."""
        self._is_paused = False

    def stop(self) -> None:
        """Record no more; `leave` takes the tape off torch's stack."""
        self._is_paused = True
        self._kept.clear()
        self._numbers.clear()

    def transformed(self) -> None:
        """Take no more losses: what is made inside of a transform cannot be followed."""
        self._is_transformed |= not (self._is_paused or is_aside())

    def before(self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Note what the function is called with."""
        if self._reason or self._is_paused or is_aside():
            return None
        return (self._noted(function, args, options),)

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Note the call."""
        if getattr(function, "__name__", "") in RESHAPES and len(self._shapes) < _MOST_CALLS:
            self._shapes.append(Reshape(args[0].shape, result.shape))
        if noted[0] is not None and not (self._reason or self._is_paused):
            before, options_before = noted[0]
            self._note(function, before, options_before, result)

    def _noted(self, function: Callable[..., Any], args: Any, options: Any) -> tuple[Any, Any] | None:
        """Return the arguments with slots, before the function may change them; None if none depends on an output."""
        if not _depends(args, self._numbers) and not _depends(options, self._numbers):
            return None
        if _communicates(function):  # never again; a loss that depends on it cannot be computed anew, which is noticed
            return None
        if len(self._calls) >= _MOST_CALLS:
            self._reason = f"more than {_MOST_CALLS} functions lie between the outputs and the loss"
            return None
        try:
            return self._slots_of(args), self._slots_of(options)
        except NotRecorded as reason:
            self._reason = str(reason)
            return None

    def _note(self, function: Callable[..., Any], args: Any, options: Any, result: Any) -> None:
        name = getattr(function, "__name__", "")
        if name == "backward":
            return
        if name in _DRAWS and not any(tensor.requires_grad for tensor in tensors_in(result)):
            return  # a constant, taken as it is where it is used
        made = _mapped(result, lambda tensor: _Slot(self._number(tensor)))
        self._calls.append(_Call(function, args, options, made))

    def _slots_of(self, value: Any) -> Any:
        return _mapped(value, lambda tensor: _Slot(self._known(tensor)))

    def _known(self, tensor: torch.Tensor) -> int:
        number = self._numbers.get(id(tensor))
        return self._take(tensor) if number is None else number

    def _take(self, tensor: torch.Tensor) -> int:
        """Copy a tensor that was not made by a recorded function."""
        self._elements += tensor.numel()
        if self._elements > _MOST_ELEMENTS:
            raise NotRecorded(f"the loss uses more than {_MOST_ELEMENTS} numbers")
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            raise NotRecorded(f"the loss uses a {type(tensor).__name__}")
        number = self._number(tensor)
        with checking(), torch.no_grad():
            self._values[number] = tensor.detach().clone()
        return number

    def _number(self, tensor: torch.Tensor) -> int:
        number = self._numbers.get(id(tensor))
        if number is None:
            number = self._numbers[id(tensor)] = len(self._kept)
            self._kept.append(tensor)
        return number

    # After it ---------------------------------------------------------------------------------------------------

    def reshapes(self) -> CheckResult | None:
        """Return whether a tensor was reshaped where its axes ought to be permuted; None where none was reshaped."""
        samples = {len(self._values[slot]) for slots in self._outputs for slot in slots if self._values[slot].dim()}
        if not self._shapes:
            return None
        return axes_are_not_exchanged_by_reshaping(self._shapes, samples, "the loss")

    def exchanges(self) -> Iterator[Exchange]:
        """Yield, for each loss, what it is for exchanged answers: of the model's call that matters most to it.

        A loss that is the same for all exchanges, such as one that compares all answers with the same target, yields
        nothing.

        Raises:
            NotRecorded: A loss cannot be computed again.
        """
        if self._reason:
            raise NotRecorded(self._reason)
        groups = self._outputs if len(self._outputs) < 2 else [*self._outputs, [*chain(*self._outputs)]]
        with same_random_numbers(), checking(), torch.no_grad():
            for number, given, is_raised in self._roots:
                began = time.thread_time()
                loss = self._loss(number, {})
                if not isfinite(loss) or abs(loss - given) > _SAME * max(abs(given), abs(loss), 1e-12):
                    raise NotRecorded(f"computed again, the loss is {loss:.6g} instead of {given:.6g}")
                times = int(_MOST_S / max(time.thread_time() - began, 1e-6) / len(groups))
                found = [self._exchanged(number, loss, group, min(times, _EXCHANGES)) for group in groups]
                known = [replace(exchange, is_raised=is_raised) for exchange in found if exchange is not None]
                if known:
                    yield max(known, key=attrgetter("score"))

    def _exchanged(self, root: int, loss: float, slots: Sequence[int], times: int) -> Exchange | None:
        lengths = {len(self._values[slot]) for slot in slots if self._values[slot].dim()}
        samples = max(lengths, default=0)
        changed = [slot for slot in slots if self._values[slot].dim() and len(self._values[slot]) == samples]
        if samples < _FEWEST or times < _FEWEST:
            return None
        draws, losses = torch.Generator("cpu").manual_seed(0), []
        for _ in range(times):
            order = torch.randperm(samples, generator=draws, device="cpu")
            values = {slot: self._values[slot][order.to(self._values[slot].device)] for slot in changed}
            losses.append(self._loss(root, values))
        made = torch.tensor(losses, dtype=torch.float64, device="cpu")
        spread, mean = float(made.std()), float(made.mean())
        is_moved = spread > _SAME * max(abs(mean), abs(loss), 1e-12)
        return Exchange(loss, mean, spread, samples) if isfinite(spread) and is_moved else None

    def _loss(self, root: int, changed: Mapping[int, torch.Tensor]) -> float:
        """Return the loss for these values of outputs."""
        values = {number: value.clone() for number, value in {**self._values, **changed}.items()}
        try:
            for call in self._calls:
                arguments = _filled(call.arguments, values)
                options = {name: _filled(value, values) for name, value in call.options.items()}
                _assign(call.made, call.function(*arguments, **options), values)
            return float(values[root])
        except Exception as error:
            raise NotRecorded(f"computed again, the loss raised {type(error).__name__}: {error}") from error


def _communicates(function: Callable[..., Any]) -> bool:
    """Return whether a function exchanges tensors with other processes."""
    module = getattr(function, "__module__", None) or ""
    return module.startswith("torch.distributed") or "c10d" in module


def _depends(value: Any, numbers: Mapping[int, int]) -> bool:
    return any(id(tensor) in numbers for tensor in tensors_in(value))


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """Yield the tensors among a function's arguments or results, nested as they may be."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < _DEEPEST and isinstance(value, tuple | list):
        for inner in value:
            yield from tensors_in(inner, depth + 1)
    elif depth < _DEEPEST and isinstance(value, dict):
        yield from tensors_in(list(value.values()), depth)


def _mapped(value: Any, put: Callable[[torch.Tensor], Any], depth: int = 0) -> Any:
    """Return the value with something else in place of each tensor; named tuples become plain ones."""
    if isinstance(value, torch.Tensor):
        return put(value)
    if depth < _DEEPEST and isinstance(value, tuple | list):
        items = [_mapped(inner, put, depth + 1) for inner in value]
        return items if isinstance(value, list) else tuple(items) if not isinstance(value, torch.Size) else value
    if depth < _DEEPEST and isinstance(value, dict):
        return {name: _mapped(inner, put, depth + 1) for name, inner in value.items()}
    return value


def _filled(value: Any, values: Mapping[int, torch.Tensor]) -> Any:
    """Return the value with the tensors in place of their slots."""
    if isinstance(value, _Slot):
        return values[value.number]
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple(_filled(inner, values) for inner in value)
    if isinstance(value, dict):
        return {name: _filled(inner, values) for name, inner in value.items()}
    return value


def _assign(slots: Any, made: Any, values: dict[int, torch.Tensor]) -> None:
    """Put the results of a call where later calls look for them."""
    if isinstance(slots, _Slot):
        values[slots.number] = made
    elif isinstance(slots, tuple | list):
        for slot, item in zip(slots, made, strict=True):
            _assign(slot, item, values)
    elif isinstance(slots, dict):
        for name, slot in slots.items():
            _assign(slot, made[name], values)
