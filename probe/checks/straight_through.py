"""Does a straight-through step pass its gradient to what the value was chosen by? Read from a copy's call."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch

from .check_result import CheckResult, broken, held
from .copy_flow import Flow, FlowCall

STRAIGHT: Final = "straight_through_steps_pass_gradients"
_CLAIM: Final = "where x + (y - x).detach() stands for y, y was made of x, and the gradient goes to x alone"
_ADDS: Final = frozenset({"add", "__add__", "__radd__", "add_", "__iadd__"})
_SUBTRACTS: Final = frozenset({"sub", "__sub__", "subtract", "sub_", "__isub__"})
_REVERSED: Final = frozenset({"rsub", "__rsub__"})
#: Terms of one sum that are told apart, and the fewest of a straight-through step.
_MOST_TERMS, _FEWEST_TERMS = 8, 3
#: Nodes of a graph that are visited.
_MOST_NODES: Final = 5000


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor in a sum, its sign, and whether a gradient goes to it."""

    tensor: torch.Tensor
    sign: int
    is_attached: bool

    def turned(self, sign: int, *, is_attached: bool) -> "_Term":
        return _Term(self.tensor, sign * self.sign, self.is_attached and is_attached)


def straight_through_steps_pass_gradients(flow: Flow) -> CheckResult | None:
    """Check sums in which one tensor is both added and subtracted, so that another one is left as the value.

    The step gives what cannot be differentiated, a nearest code or a rounded number y, the gradient of what it was made
    of, x (Bengio et al. 2013, arXiv:1308.3432; van den Oord et al. 2017, arXiv:1711.00937, section 3.2). Without
    `detach`, x gets nothing. With x and y exchanged, the value is x, and the gradient goes to y. Where gradients go
    from one of them to the other by themselves, as where a gradient is scaled, nothing is lost and nothing is said.

    Returns:
        None where there is no such step.
    """
    has_looked = False
    for call in _sums(flow):
        for value, passed, is_lost in _steps(_terms(flow, call.made[0], 0)):
            has_looked = True
            told = _judged(flow, value, passed, is_lost=is_lost)
            if told is not None:
                return told.at(call.module)
    return held(STRAIGHT, _CLAIM) if has_looked else None


def _judged(flow: Flow, value: torch.Tensor, passed: torch.Tensor, *, is_lost: bool) -> CheckResult | None:
    shape = tuple(value.shape)
    if is_lost and flow.depends(value, passed) and passed.requires_grad and not _reaches(value, passed):
        words = (
            f"a tensor {shape} is added and subtracted, both times with its gradient, so that a value is left that was "
            "made of it without one: the gradients cancel, and what made the tensor gets nothing from here"
        )
        return broken(STRAIGHT, _CLAIM, words, elements=value.numel())
    is_turned = not is_lost and value.requires_grad and flow.depends(passed, value)
    if is_turned and not flow.depends(value, passed) and not _reaches(passed, value):
        words = (
            f"the value of a straight-through step {shape} is what the choice was made of, and the gradient goes to "
            "the choice: x and y are exchanged in x + (y - x).detach(), and what made the value gets nothing from here"
        )
        return broken(STRAIGHT, _CLAIM, words, elements=value.numel())
    return None


def _sums(flow: Flow) -> Iterator[FlowCall]:
    """Yield the calls that end a sum: what they make is in no larger one."""
    calls = [call for call in flow.calls if call.name in _ADDS | _SUBTRACTS | _REVERSED]
    inner = {id(one) for call in calls for one in call.given}
    yield from (call for call in calls if id(call.made[0]) not in inner)


def _terms(flow: Flow, tensor: torch.Tensor, depth: int) -> list[_Term]:
    """Return what a tensor is the sum of, through additions, subtractions, signs and `detach`."""
    call = flow.maker_of(tensor)
    if call is None or depth > _MOST_TERMS or call.options or not call.arguments:
        return [_Term(tensor, 1, True)]
    name, parts = call.name, call.arguments
    if name == "detach" or (
        name == "__get__" and parts[0].data_ptr() == tensor.data_ptr() and not tensor.requires_grad
    ):
        return [term.turned(1, is_attached=False) for term in _terms(flow, parts[0], depth + 1)]
    if name in ("neg", "__neg__", "negative"):
        return [term.turned(-1, is_attached=True) for term in _terms(flow, parts[0], depth + 1)]
    if name not in _ADDS | _SUBTRACTS | _REVERSED or len(parts) != 2 or not all(_is_like(one, tensor) for one in parts):
        return [_Term(tensor, 1, True)]
    if id(parts[0]) == id(tensor):  # changed in place: what it was is not there any more
        return [_Term(tensor, 1, True)]
    signs = (-1, 1) if name in _REVERSED else (1, -1) if name in _SUBTRACTS else (1, 1)
    return [
        term.turned(sign, is_attached=True)
        for part, sign in zip(parts, signs, strict=True)
        for term in _terms(flow, part, depth + 1)
    ]


def _steps(terms: list[_Term]) -> Iterator[tuple[torch.Tensor, torch.Tensor, bool]]:
    """Yield value, the tensor that is added and subtracted, and whether both times with its gradient."""
    if not _FEWEST_TERMS <= len(terms) <= _MOST_TERMS:
        return
    for added in (term for term in terms if term.sign > 0):
        for taken in (term for term in terms if term.sign < 0 and term.tensor is added.tensor):
            rest = [term for term in terms if term is not added and term is not taken]
            if len(rest) != 1 or rest[0].sign < 0 or not added.is_attached:
                continue
            if taken.is_attached or not rest[0].is_attached:
                yield rest[0].tensor, added.tensor, taken.is_attached


def _is_like(value: Any, tensor: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == tensor.shape and value.is_floating_point()


def _reaches(value: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether a gradient goes from the value to the other tensor."""
    wanted = other.grad_fn
    waiting, seen = [value.grad_fn], set[Any]()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node is wanted or (wanted is None and getattr(node, "variable", None) is other):
            return True
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
    return bool(waiting)
