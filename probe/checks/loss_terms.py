"""Does every network that a loss asks have a say in what the loss trains?"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from .check_result import CheckResult, broken, held
from .reached_parameters import leaves_behind

SAY = "answers_in_a_loss_depend_on_what_it_trains"
CLAIM = "networks that a loss asks pass a gradient on to the one that it trains"
#: Terms that are told apart. Our choice.
_MOST_TERMS: Final = 64
#: Nodes through which a gradient passes without regard to the value.
_LINEAR: Final = frozenset(
    {"Mean", "Sum", "Neg", "Add", "Sub", "View", "Squeeze", "Unsqueeze", "Expand", "Stack", "Cat"}
)
#: Nodes that are linear if only one of their inputs has a gradient.
_SCALING: Final = frozenset({"Mul", "Div"})


class LossTerms:
    """What the terms of a step's losses reach: for each backward pass the optimizers behind each term."""

    def __init__(self) -> None:
        self._passes: list[list[frozenset[int]]] = []

    def read(self, root: torch.Tensor, groups: Mapping[int, int]) -> None:
        """Read a loss.

        Args:
            root: The loss.
            groups: Number of the optimizer of each parameter, by the parameter's id.
        """
        terms = [_groups_behind(node, groups) for node in _terms_of(root.grad_fn)]
        self._passes.append([term for term in terms if term])

    def step_ends(self, names: Mapping[int, str]) -> CheckResult | None:
        """Return what the passes of a step tell together; None where each loss reaches what one optimizer steps.

        A network that has a loss of its own in the step, and is a term by itself in another loss, does nothing there:
        its answers do not depend on what that loss trains.

        Args:
            names: Of the optimizers' networks, by number.
        """
        passes, self._passes = self._passes, []
        every = [frozenset[int]().union(*terms) for terms in passes]
        has_several = False
        for at, terms in enumerate(passes):
            others = frozenset[int]().union(*(reached for number, reached in enumerate(every) if number != at))
            trained = every[at] - others
            has_several |= bool(trained) and bool(every[at] & others)
            idle = [term for term in terms if term <= others and _has_own_loss(term, trained, every)]
            mixed = frozenset[int]().union(*(term for term in terms if term & trained))
            for term in idle:
                if trained and not term & mixed:
                    asked, taught = (_named(one, names) for one in (term, trained))
                    words = (
                        f"the loss that trains {taught} adds an answer of {asked}, which does not depend on {taught}: "
                        "no gradient comes through it"
                    )
                    return broken(SAY, CLAIM, words, subject=asked)
        return held(SAY, CLAIM) if has_several else None


def _has_own_loss(term: frozenset[int], trained: frozenset[int], every: list[frozenset[int]]) -> bool:
    return all(any(one in reached and not reached & trained for reached in every) for one in term)


def _named(groups: frozenset[int], names: Mapping[int, str]) -> str:
    return " and ".join(names.get(number, f"optimizer {number}") for number in sorted(groups))


def _kind(node: Any) -> str:
    return str(node.name()).rpartition("::")[2].partition("Backward")[0]


def _terms_of(root: Any) -> Iterator[Any]:
    """Yield the nodes whose values are added up to the loss."""
    waiting, found = [root], 0
    while waiting and found < _MOST_TERMS:
        node = waiting.pop()
        if node is None:
            continue
        before = [other for other, _ in node.next_functions if other is not None]
        kind = _kind(node)
        if kind in _LINEAR or (kind in _SCALING and len(before) == 1):
            waiting += before
        else:
            found += 1
            yield node


def _groups_behind(node: Any, groups: Mapping[int, int]) -> frozenset[int]:
    """Return the optimizers of the parameters behind a node."""
    return frozenset(groups[id(leaf)] for leaf in leaves_behind(node) if id(leaf) in groups)
