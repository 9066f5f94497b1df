"""Derivatives by inputs that a loss is made of: constants where a graph is needed, and zeros everywhere."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final

import torch

from ..aside import is_aside
from ..guard import Guard
from .check_result import CheckResult, broken, held
from .function_mode import FunctionMode
from .loss_tape import tensors_in
from .reached_parameters import leaves_of

HAS_GRAPH, CURVED = "derivatives_have_a_graph", "second_derivatives_are_not_zero"
_GRAPH = "the derivatives by inputs that the loss adds up are differentiated themselves"
_CURVED = "the second derivatives by inputs that the loss uses are not zero everywhere"
#: Functions that add up what they are given, or compare it.
_SUMS: Final = frozenset(
    {
        "add", "sub", "rsub", "subtract", "add_", "sub_", "__add__", "__radd__", "__sub__", "__rsub__", "__iadd__",
        "__isub__", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    }
)  # fmt: skip
_PRODUCTS: Final = frozenset({"mul", "div", "__mul__", "__rmul__", "__truediv__"})
#: Derivatives that are followed in a step, functions that are called with them, and elements of a trained coefficient.
#: Our choice.
_MOST_ASKED, _MOST_CALLS, _COEFFICIENT = 32, 400, 16
#: Nodes that are visited: from a loss, and from one value back to another.
_FROM_THE_LOSS, _NEAR = 20_000, 2_000
#: Nodes between a first derivative and what is differentiated again, such as a sum or a column.
_BETWEEN: Final = 12
#: Elements of second derivatives that must all be zero.
_FEWEST: Final = 8

Node = Any  # torch types its graph's nodes as a protocol that lacks what is read here


@dataclass(slots=True)
class _Asked:
    """One call of `torch.autograd.grad`.

    Args:
        roots: Nodes that made what is differentiated.
        inputs: By what.
        parameters: The trained tensors that it depends on, by id.
        has_graph: Whether the result can be differentiated.
        made: Nodes of the results.
    """

    roots: set[Node]
    inputs: tuple[torch.Tensor, ...]
    parameters: set[int]
    has_graph: bool
    made: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class _Use:
    """A sum of a constant derivative and values with a graph."""

    node: Node
    others: list[Node]
    asked: _Asked
    is_number: bool


class AskedDerivatives:
    """The derivatives that one step asks for by `torch.autograd.grad` with respect to what is no parameter.

    What is made of a derivative without a graph is followed up to the first sum with values that have one, by a mode on
    torch's stack. Products are left out: weights of terms are often computed from such derivatives, and are meant to be
    constant; and so are networks that are given one, as in a search for adversarial inputs.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        self._asked: list[_Asked] = []
        self._tape = _UseTape(guard)
        self._pending: _Asked | None = None
        self._curvatures: list[tuple[Node, int, bool]] = []

    def asked(self, roots: Any, inputs: Any, *, has_graph: bool) -> None:
        """Note that these derivatives are about to be computed."""
        self._pending = None
        by = tuple(one for one in tensors_in(inputs) if not isinstance(one, torch.nn.Parameter))
        of = [one for one in tensors_in(roots) if one.grad_fn is not None]
        if not by or not of or len(self._asked) >= _MOST_ASKED:
            return
        reached = {id(leaf) for one in of for leaf in leaves_of(one) if isinstance(leaf, torch.nn.Parameter)}
        self._pending = _Asked({one.grad_fn for one in of}, by, reached, has_graph)

    def given(self, gradients: Any) -> None:
        """Take the derivatives that were asked for last."""
        asked, self._pending = self._pending, None
        if asked is None or not isinstance(gradients, tuple | list) or len(gradients) != len(asked.inputs):
            return
        if not asked.has_graph:
            self._tape.follow([one for one in gradients if isinstance(one, torch.Tensor)], asked)
        else:
            earlier = [one for one in self._asked if one.has_graph and _share(one.inputs, asked.inputs)]
            before = {node for one in earlier for node in one.made}
            is_second = bool(before) and _reach(asked.roots, before, _BETWEEN)
            asked.made = [one.grad_fn for one in gradients if one is not None and one.grad_fn is not None]
            if is_second:
                self._curvatures += [_curvature(one, by) for one, by in zip(gradients, asked.inputs, strict=True)]
        self._asked.append(asked)

    def results(self, root: torch.Tensor) -> Iterator[CheckResult]:
        """Yield what a loss tells whose backward pass begins."""
        self._tape.stop()
        with_graph = [one for one in self._asked if one.has_graph]
        if not self._asked or root.grad_fn is None:
            return
        wanted = {node for one in with_graph for node in one.made} | {use.node for use in self._tape.uses}
        reached = _visited([root.grad_fn], _FROM_THE_LOSS) & wanted
        uses = [use for use in self._tape.uses if use.node in reached]
        told = [result for use in uses if (result := self._of_a_constant(use, with_graph)) is not None]
        if told:
            yield min(told, key=lambda result: result.numbers["is_question"])
        elif not uses and any(not reached.isdisjoint(one.made) for one in with_graph):
            yield held(HAS_GRAPH, _GRAPH, derivatives=float(sum(len(one.made) for one in with_graph)))
        yield from self._of_zeros(reached)

    def is_differentiated_by(self, node: Node) -> bool:
        """Return whether the step has asked for derivatives by what this node made."""
        return any(one.grad_fn is node for asked in self._asked for one in asked.inputs)

    def stop(self) -> list[FunctionMode]:
        """Follow nothing any more; return the mode if it is still on torch's stack, below another."""
        self._tape.stop()
        self._tape.uses = []
        return [] if self._tape.leave() else [self._tape]

    def _of_a_constant(self, use: _Use, with_graph: Sequence[_Asked]) -> CheckResult | None:
        asked = use.asked
        of = f"a derivative with respect to an input of shape {tuple(asked.inputs[0].shape)}"
        siblings = [one for one in with_graph if one.parameters & asked.parameters]
        if any(_share(one.inputs, asked.inputs) and one.roots & asked.roots for one in siblings):
            return None  # asked for twice, so the constant is meant
        made = {node for one in siblings for node in one.made}
        if made and _reach(use.others, made, _NEAR):
            words = (
                f"the loss adds {of}, computed without create_graph=True, to one that was computed with it: the first "
                "is a constant for the optimizer"
            )
            return broken(HAS_GRAPH, _GRAPH, words, is_question=0.0)
        if use.is_number and asked.parameters:
            words = (
                f"a term of the loss is made of {of}, computed without create_graph=True: the term is a constant for "
                "the optimizer"
            )
            return broken(HAS_GRAPH, _GRAPH, words, is_question=0.0)
        roots = asked.roots.union(*(one.roots for one in siblings))
        if asked.parameters and _reach(use.others, roots, _NEAR):
            words = (
                f"the loss adds {of}, computed without create_graph=True, to the network's output: the derivative is "
                "a constant for the optimizer"
            )
            return broken(HAS_GRAPH, _GRAPH, words, is_question=1.0)
        return None

    def _of_zeros(self, reached: Collection[Node]) -> Iterator[CheckResult]:
        used = [(size, is_zero) for node, size, is_zero in self._curvatures if node is None or node in reached]
        elements = sum(size for size, _ in used)
        if elements < _FEWEST:
            return
        if not all(is_zero for _, is_zero in used):
            yield held(CURVED, _CURVED, elements=float(elements))
            return
        words = f"the second derivatives by inputs that the loss uses are exactly zero, all {elements} of them"
        yield broken(CURVED, _CURVED, words, elements=float(elements))


class _UseTape(FunctionMode):
    """Follows constants through the functions of a program, which it calls as they are.

    Attributes:
        uses: Where they are added to values with a graph.
    """

    def __init__(self, guard: Guard | None) -> None:
        super().__init__(guard)
        self.uses: list[_Use] = []
        self._followed: dict[int, tuple[torch.Tensor, _Asked]] = {}
        self._calls, self._thread = 0, get_ident()

    def follow(self, tensors: Iterable[torch.Tensor], asked: _Asked) -> None:
        """Follow these tensors from now on, unless another mode is active."""
        if self.begin():
            self._followed.update((id(tensor), (tensor, asked)) for tensor in tensors)

    def stop(self) -> None:
        """Follow nothing any more; `leave` takes the mode off torch's stack."""
        self._followed.clear()
        self.leave()

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Note what comes of a constant that is followed."""
        if self._followed and not is_aside() and get_ident() == self._thread:
            self._note(getattr(function, "__name__", ""), [*tensors_in(args), *tensors_in(dict(options))], result)

    def _note(self, name: str, given: Sequence[torch.Tensor], result: Any) -> None:
        followed = [self._followed[id(one)][1] for one in given if id(one) in self._followed]
        if not followed or self._calls >= _MOST_CALLS:
            return
        self._calls += 1
        others = [one for one in given if one.requires_grad and id(one) not in self._followed]
        is_scaled = name in _PRODUCTS and all(one.is_leaf and one.numel() <= _COEFFICIENT for one in others)
        for made in tensors_in(result):
            if not made.requires_grad or is_scaled or not others:
                self._followed[id(made)] = (made, followed[0])
            elif name in _SUMS and made.grad_fn is not None:
                nodes = [one.grad_fn for one in others if one.grad_fn is not None]
                is_number = made.numel() == 1 and all(one.numel() == 1 for one in given)
                self.uses.append(_Use(made.grad_fn, nodes, followed[0], is_number))


def _curvature(gradient: torch.Tensor | None, by: torch.Tensor) -> tuple[Node, int, bool]:
    if gradient is None:
        return None, by.numel(), True
    return gradient.grad_fn, gradient.numel(), not bool(gradient.detach().any())


def _share(first: Iterable[torch.Tensor], second: Iterable[torch.Tensor]) -> bool:
    return not {id(one) for one in first}.isdisjoint(id(one) for one in second)


def _reach(starts: Iterable[Node], ends: Collection[Node], most: int) -> bool:
    return not _visited(starts, most).isdisjoint(ends)


def _visited(starts: Iterable[Node], most: int) -> set[Node]:
    """Return the nodes from these back to the leaves, breadth first, up to so many."""
    waiting, seen = list(starts), set[Node]()
    for node in waiting:  # the list grows
        if node is None or node in seen:
            continue
        if len(seen) >= most:
            break
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
    return seen
