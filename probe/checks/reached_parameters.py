"""Follows a loss back to every tensor that it would train, whichever module holds it, if any does."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from .check_result import CheckResult, broken, held

REACHED = "reached_parameters_are_stepped"
_CLAIM = "an optimizer holds every parameter that the loss reaches"
#: Nodes of a graph that are visited, and elements of a tensor that are compared. Our choice.
_MOST_NODES, _COMPARED = 20_000, 256
#: Elements of a plain tensor that may be a parameter, such as a temperature; larger ones may be data.
_MOST_PLAIN: Final = 16
_NAMED: Final = 3


def leaves_of(root: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the leaves that a backward pass from the root gives gradients to; parameters, and small plain tensors."""
    return leaves_behind(root.grad_fn)


def leaves_behind(node: Any) -> Iterator[torch.Tensor]:
    """Yield those behind a node of a graph."""
    for leaf in all_leaves([node]):
        if isinstance(leaf, torch.nn.Parameter) or leaf.numel() <= _MOST_PLAIN:
            yield leaf


def all_leaves(nodes: Iterable[Any], *, is_nearest_first: bool = False) -> Iterator[torch.Tensor]:
    """Yield every tensor that a backward pass through these nodes of a graph gives a gradient to."""
    waiting = deque(nodes)
    seen: set[object] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.popleft() if is_nearest_first else waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is None:
            waiting.extend(before for before, _ in node.next_functions)
        else:
            yield leaf


class ReachedLeaves:
    """Parameters that a loss reached at one step and no optimizer held, with what they were."""

    def __init__(self) -> None:
        self._earlier: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def keep(self, leaves: Mapping[int, torch.Tensor]) -> None:
        """Keep these leaves, and the values of their first elements."""
        self._earlier = {key: (leaf, _values(leaf)) for key, leaf in leaves.items() if _has_memory(leaf)}

    def resting(self, leaves: Collection[int]) -> list[torch.Tensor]:
        """Return those that are among these, by id, and have not moved since."""
        found = [item for key, item in self._earlier.items() if key in leaves and _has_memory(item[0])]
        return [leaf for leaf, values in found if torch.equal(values, _values(leaf))]

    def forget(self) -> None:
        """Keep nothing any more."""
        self._earlier = {}


def _has_memory(leaf: torch.Tensor) -> bool:
    """Return whether the values are there; those that FSDP has gathered are freed between the passes."""
    return leaf.numel() == 0 or bool(leaf.untyped_storage().nbytes())


def _values(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.detach().reshape(-1)[:_COMPARED].clone()


def stepped_result(owner: str, names: Sequence[str], values: int) -> CheckResult:
    """Return the result for parameters of one owner that nothing moves.

    Args:
        owner: Name of the network or variable.
        names: Of its parameters.
        values: Elements of all of them.
    """
    listed = ", ".join(names[:_NAMED]) + ", ..." * (len(names) > _NAMED)
    words = f"gradients reach {len(names)} tensors of {owner} ({listed}), no optimizer holds them, and none has moved"
    return broken(REACHED, _CLAIM, words, subject=owner, parameters=len(names), values=values)


def all_are_stepped(count: int) -> CheckResult:
    """Return the result where an optimizer holds all leaves."""
    return held(REACHED, _CLAIM, parameters=count)
