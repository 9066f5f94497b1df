"""Two views of a batch that are one: a network is called twice with the same input, and the answers are compared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from .check_result import CheckResult, broken
from .loss_graph import is_packed
from .model_call import ModelCall
from .module_calls import shapes_of

SAME: Final = "views_differ"
_CLAIM: Final = "a network whose answers are compared with each other gets another input at each call of a step"
#: Nodes of a graph that are visited, and tensors of a call. Our choice.
_MOST_NODES, _MOST_TENSORS = 20_000, 4
#: Operations that compare what they are given, element by element.
_COMPARING: Final = ("MulBackward", "SubBackward", "MseLoss", "SmoothL1Loss", "HuberLoss", "KlDiv")
#: Products of all rows with all rows, as contrastive losses have them; distances are those of kernels as well.
_PRODUCTS: Final = ("MmBackward", "BmmBackward")
_FIRST, _SECOND = 1, 2


@dataclass(frozen=True, slots=True)
class Answer:
    """A call of a network with what it answered.

    Args:
        inputs: The tensors of its arguments by name, and the versions that they had.
        outputs: What it returned, without graphs, and the versions.
        nodes: Of the graph, that made them.
        state: Ids and versions of the parameters.
    """

    inputs: Mapping[str, tuple[torch.Tensor, int]]
    outputs: Sequence[tuple[torch.Tensor, int]]
    nodes: frozenset[Any]
    state: tuple[tuple[int, int], ...]

    def is_like(self, other: "Answer") -> bool:
        """Return whether the other call has the same inputs and outputs to the bit, and weights that nobody changed."""
        if self.state != other.state or self.inputs.keys() != other.inputs.keys():
            return False
        pairs = [*zip(self.outputs, other.outputs, strict=False)]
        pairs += [(tensor, other.inputs[name]) for name, tensor in self.inputs.items()]
        return len(self.outputs) == len(other.outputs) and all(_is_same(one, two) for one, two in pairs)


def answer_of(
    module: torch.nn.Module, call: ModelCall, outputs: Sequence[torch.Tensor], most_bytes: int
) -> Answer | None:
    """Return the call of a network; None if it tells nothing, or its tensors are too large to be kept for the step."""
    given, made = call.tensors(), list(outputs)[:_MOST_TENSORS]
    first = next(iter(given.values()), None)
    if first is None or first.dim() < 2 or first.shape[0] < 2 or len(given) > _MOST_TENSORS or not made:
        return None
    if sum(tensor.numel() * tensor.element_size() for tensor in (*given.values(), *made)) > most_bytes:
        return None
    nodes = frozenset(tensor.grad_fn for tensor in made if tensor.grad_fn is not None)
    state = tuple((id(parameter), parameter._version) for parameter in module.parameters())
    inputs = {name: (tensor.detach(), tensor._version) for name, tensor in given.items()}
    return Answer(inputs, [(tensor.detach(), tensor._version) for tensor in made], nodes, state)


@dataclass(slots=True)
class Pair:
    """Two calls of one network that are alike.

    Args:
        is_taught: Whether gradients flow from both.
        is_apart: Whether what called the network was given two inputs itself, and did not use one of its own twice.
        has_caller: Whether it is a module that called the network.
        is_compared: Whether a loss compares the two answers.
    """

    module: torch.nn.Module
    first: Answer
    second: Answer
    is_taught: bool
    is_apart: bool = True
    has_caller: bool = False
    is_compared: bool = False

    def called_inside(self, call: ModelCall) -> None:
        """Note the call of a module that the network is a part of: it must have been given the input twice."""
        given = next(iter(self.first.inputs.values()))
        equal = [tensor for tensor in call.tensors().values() if _is_same((tensor, tensor._version), given)]
        self.is_apart &= len(equal) > 1
        self.has_caller = True

    def read(self, root: torch.Tensor) -> None:
        """Look in the graph of a loss for an operation that compares the answers."""
        sides = _sides(root.grad_fn, self.first.nodes, self.second.nodes)
        outputs = [tensor for tensor, _ in self.first.outputs]
        self.is_compared |= any(_compares(node, sides, outputs) for node, side in sides.items() if side)


def same_views(pairs: Sequence[Pair], sites: Mapping[int, str]) -> Iterator[tuple[str, CheckResult]]:
    """Yield site and result of networks that got one view twice.

    The number `compared` says whether the answers are compared. It is 1 where the graph of a loss does so, or where
    another network of the same kind is given the two inputs without gradients, as the target of a momentum encoder is.
    It is 0.5 if that is so, but the script calls both itself: two losses that call a student and its teacher each for
    themselves look the same.
    """
    quiet = [pair for pair in pairs if not pair.is_taught]
    told: set[int] = set()
    for pair in pairs:
        if not (pair.is_taught and pair.is_apart) or id(pair.module) in told:
            continue
        told.add(id(pair.module))
        site = sites.get(id(pair.module), "")
        name, given = next(iter(pair.first.inputs.items()))
        has_target = any(_follows(other, pair) for other in quiet)
        words = (
            f"two calls of {site or 'the network'} in one step are given the same values, {name} "
            f"{tuple(given[0].shape)}, to the last bit, and answer the same"
        )
        compared = 1.0 if pair.is_compared or (has_target and pair.has_caller) else 0.5 * has_target
        yield site, broken(SAME, _CLAIM, words, compared=compared, samples=given[0].shape[0])


def _follows(other: Pair, pair: Pair) -> bool:
    if other.module is pair.module or type(other.module) is not type(pair.module):
        return False
    one, two = next(iter(other.first.inputs.values())), next(iter(pair.first.inputs.values()))
    return shapes_of(other.module) == shapes_of(pair.module) and _is_same(one, two)


def _is_same(one: tuple[torch.Tensor, int], two: tuple[torch.Tensor, int]) -> bool:
    """Return whether two tensors are equal, and neither was changed since its version was noted."""
    (first, before), (second, earlier) = one, two
    if first._version != before or second._version != earlier:
        return False
    return first.shape == second.shape and first.dtype is second.dtype and torch.equal(first, second)


def _sides(root: Any, first: Iterable[Any], second: Iterable[Any]) -> dict[Any, int]:
    """Return for each node of a graph which of the two answers are behind it: none 0, the first 1, the second 2."""
    sides: dict[Any, int] = {node: _FIRST for node in first}
    sides.update((node, sides.get(node, 0) | _SECOND) for node in second)
    ends = set(sides)
    waiting = [(root, False)]
    while waiting and len(sides) < _MOST_NODES:
        node, is_done = waiting.pop()
        before = [] if node is None or node in ends else [each for each, _ in node.next_functions if each is not None]
        if is_done:
            sides[node] = 0
            for each in before:
                sides[node] |= sides.get(each, 0)
        elif node is not None and node not in sides:
            waiting.append((node, True))
            waiting += [(each, False) for each in before if each not in sides]
    return sides


def _compares(node: Any, sides: Mapping[Any, int], outputs: Sequence[torch.Tensor]) -> bool:
    """Return whether the node sets one answer against the other, row by row, or against the other's values alone."""
    if not node.name().startswith((*_COMPARING, *_PRODUCTS)):
        return False
    given = list(node.next_functions)[:2]
    found = [0 if each is None else sides.get(each, 0) for each, _ in given]
    if node.name().startswith(_PRODUCTS):
        is_of_both = all(found) and found[0] | found[1] == _FIRST | _SECOND
        return is_of_both and outputs[0].dim() > 0 and _is_of_all_pairs(given, len(outputs[0]))
    if sorted(found) == [_FIRST, _SECOND]:
        shapes = [tuple(each._input_metadata[at].shape) for each, at in given]
        return shapes[0] == shapes[1] and len(shapes[0]) > 1
    if sorted(map(bool, found)) != [False, True] or is_packed(node):
        return False
    names = ("_saved_self", "_saved_other") if "Mul" in node.name() else ("_saved_target",)
    saved = [getattr(node, name, None) for name in names]
    return any(_holds(value, output) for value in saved if isinstance(value, torch.Tensor) for output in outputs)


def _is_of_all_pairs(given: Sequence[tuple[Any, int]], samples: int) -> bool:
    """Return whether a product has one row and one column for each sample of one answer, or of both."""
    shapes = [tuple(each._input_metadata[at].shape)[-2:] for each, at in given]
    if any(len(shape) < 2 for shape in shapes):
        return False
    rows = [max(set(shape) & {samples, 2 * samples}, default=0) for shape in shapes]
    return rows[0] == rows[1] > 0


def _holds(value: torch.Tensor, output: torch.Tensor) -> bool:
    """Return whether these are the answers themselves, or their rows scaled to a length of one, without a gradient."""
    if value.requires_grad or value.shape != output.shape or value.dim() < 2:
        return False
    if torch.equal(value, output):
        return True
    return bool(torch.allclose(value.float(), torch.nn.functional.normalize(output.float(), dim=-1), rtol=1e-4))
