"""A tape of one training step: every call of torch between two optimizer steps, to be repeated with other weights.

The tape is written by a `TorchFunctionMode`, which sees each function of torch that is called with the arguments that
the program gave. Repeating it calls those functions again whose arguments depend on what was replaced; everything else,
as the batch, is what it was. So the loss of the step can be computed for any weights, however the program writes it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final

import torch
from torch.autograd.function import Function
from torch.overrides import TorchFunctionMode, _get_current_function_mode, handle_torch_function
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...aside import is_aside
from ...warning_places import CallingPlaces, skipped_by_warnings
from ..function_mode import may_warn

#: Calls that a tape holds at most; a longer step is not repeated. Our choice: a transformer of 24 layers makes 2,000.
MOST_CALLS: Final = 20_000
#: Files of our own patches, which hear of each call once; the function that they wrap is what is repeated.
_OWN: Final = str(__file__).rpartition("checks")[0]
_WRITES: Final = frozenset({"__setitem__", "__set__", "__iadd__", "__isub__", "__imul__", "__itruediv__"})


class NotRepeatable(Exception):
    """The step cannot be repeated; the message says why."""


@dataclass(frozen=True, slots=True)
class TapedCall:
    """A call of the step.

    Args:
        function: What was called.
        leaves: Its arguments, flattened; `shape` puts them together again.
        results: What it returned, flattened.
        has_gradients: Whether gradients were on.
    """

    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    shape: Any  # a TreeSpec, which torch does not export
    results: tuple[Any, ...]
    has_gradients: bool

    @property
    def name(self) -> str:
        """Name of the function."""
        return str(getattr(self.function, "__name__", ""))

    @property
    def writes_first(self) -> bool:
        """Whether the call writes into its first argument."""
        name = self.name
        return name in _WRITES or (name.endswith("_") and not name.endswith("__"))


@dataclass(frozen=True, slots=True)
class CustomCall:
    """A call of a `torch.autograd.Function` that the program has written."""

    function: type[Function]
    arguments: tuple[Any, ...]


class StepTape(TorchFunctionMode):  # type: ignore[misc]
    """Writes down a step, from `begin` to `end`.

    Args:
        kept: Tensors that the step may change, such as parameters and buffers; their values at `begin` are kept.

    Attributes:
        roots: The tensors whose backward passes began, each with the number of calls before it.
        customs: The calls of the program's own autograd functions, the first of each.
        reason: Why the step cannot be repeated; empty if it can.
    """

    def __init__(self, kept: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._kept, self._thread = kept, get_ident()
        self._calls: list[TapedCall] = []
        self._is_on, self._is_inside = False, False
        self._places = CallingPlaces(handle_torch_function.__code__)
        self._apply: Any = None
        self.first: dict[int, torch.Tensor] = {}
        self.roots: list[tuple[torch.Tensor, int]] = []
        self.customs: dict[type[Function], CustomCall] = {}
        self.reason = ""

    def begin(self) -> None:
        """Write from now on."""
        self.first = {id(tensor): tensor.detach().clone() for tensor in self._kept}
        self._is_on = True
        self._patch_functions()
        self.__enter__()

    def end(self) -> None:
        """Write no more."""
        self._is_on = False
        Function.apply = self._apply
        if _get_current_function_mode() is self:
            self.__exit__(None, None, None)
        else:
            self.reason = "another mode of torch was begun inside the step"

    @skipped_by_warnings
    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and write the call down."""
        keywords = keywords or {}
        call = _unwrapped(function)
        if not self._is_on or self._is_inside or is_aside() or get_ident() != self._thread:
            return call(*arguments, **keywords)
        name = getattr(call, "__name__", "")
        if name == "backward" and arguments:
            self._note_root(arguments, keywords)
            return call(*arguments, **keywords)
        has_gradients = torch.is_grad_enabled()
        may = may_warn(call)
        result = self._places.call(call, arguments, keywords) if may else call(*arguments, **keywords)
        if name != "__get__" or _holds_tensor(result):
            self._write(call, arguments, keywords, result, has_gradients)
        return result

    def depends_on(self, tensors: Mapping[int, torch.Tensor], upto: int) -> Iterator[TapedCall]:
        """Yield the calls whose arguments come from these tensors, in order."""
        known = set(tensors)
        for call in self._calls[:upto]:
            if any(id(leaf) in known for leaf in call.leaves):
                known |= {id(result) for result in call.results if isinstance(result, torch.Tensor)}
                if call.writes_first:
                    known.add(id(call.leaves[0]))
                yield call

    def repeat(self, replaced: Mapping[int, torch.Tensor], calls: Sequence[TapedCall]) -> dict[int, torch.Tensor]:
        """Call these functions again, with the replaced tensors and what comes of them.

        Returns:
            What stands for each tensor of the step that depends on a replaced one, by its id.
        """
        now = dict(replaced)
        for call in calls:
            leaves = [now.get(id(leaf), leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in call.leaves]
            if call.writes_first and id(call.leaves[0]) not in now:
                leaves[0] = now[id(call.leaves[0])] = call.leaves[0].detach().clone()
            arguments, keywords = tree_unflatten(leaves, call.shape)
            with torch.set_grad_enabled(call.has_gradients):
                results = tree_flatten(call.function(*arguments, **keywords))[0]
            for before, after in zip(call.results, results, strict=False):
                if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
                    now[id(before)] = after
        return now

    # Inside -----------------------------------------------------------------------------------------------------

    def _note_root(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        root, gradient = arguments[0], arguments[1] if len(arguments) > 1 else keywords.get("gradient")
        if not isinstance(root, torch.Tensor) or root.numel() != 1 or gradient is not None:
            self.reason = "a backward pass began from no single number"
        else:
            self.roots.append((root, len(self._calls)))

    def _write(
        self,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        result: Any,
        has_gradients: bool,
    ) -> None:
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            self.reason = "the step uses autocast"
        if len(self._calls) >= MOST_CALLS:
            self.reason = f"the step calls torch more than {MOST_CALLS} times"
            return
        leaves, shape = tree_flatten((arguments, dict(keywords)))
        results = tuple(tree_flatten(result)[0])
        self._calls.append(TapedCall(call, tuple(leaves), shape, results, has_gradients))

    def _patch_functions(self) -> None:
        """Write down calls of the program's own functions, which no mode hears of, as one call each."""
        self._apply = original = Function.__dict__["apply"]
        tape = self

        @skipped_by_warnings
        def apply(function: type[Function], *arguments: Any, **keywords: Any) -> Any:
            call = original.__get__(None, function)
            if not tape._is_on or tape._is_inside or is_aside() or get_ident() != tape._thread:
                return call(*arguments, **keywords)
            tape._is_inside = True
            try:
                result = call(*arguments, **keywords)
            finally:
                tape._is_inside = False
            if function not in tape.customs and not function.__module__.startswith("torch."):
                tape.customs[function] = CustomCall(function, tuple(map(_kept, arguments)))
            tape._write(call, arguments, keywords, result, torch.is_grad_enabled())
            return result

        Function.apply = classmethod(apply)


def _kept(argument: Any) -> Any:
    return argument.detach().clone() if isinstance(argument, torch.Tensor) else argument


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor | tuple | list)


def _unwrapped(function: Any) -> Any:
    """Return the function of torch below our own patch."""
    while hasattr(function, "__wrapped__") and _file_of(function).startswith(_OWN):
        function = function.__wrapped__
    return function


def _file_of(function: Any) -> str:
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))
