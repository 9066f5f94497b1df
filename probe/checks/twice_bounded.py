"""Is a value squeezed twice, as by a sigmoid of a sigmoid? Read from the graph between a loss and its networks."""

from collections.abc import Sequence
from typing import Final

from .check_result import CheckResult, broken, held
from .loss_graph import SAME_VALUES, Node

ONCE: Final = "bounded_functions_are_applied_once"
_CLAIM = "no sigmoid or tanh is applied to what one has made"
#: What a second one of them can still give.
_LEFT: Final = {"Sigmoid": "0.5 and 0.731", "Tanh": "-0.762 and 0.762"}
#: How nodes begin that take a part of the values, and steps between both. Our choice.
_PARTS: Final = (*SAME_VALUES, "Slice", "Select", "Index", "Split", "Unbind", "Clone", "Chunk", "Narrow")
_A_FEW: Final = 6


def bounded_functions_are_applied_once(nodes: Sequence[Node]) -> CheckResult | None:
    """Check each sigmoid and tanh of a loss, whose values must not come from the same function again.

    Returns:
        None where the loss has neither.
    """
    found = [(kind, node) for node in nodes for kind in _LEFT if node.name() == f"{kind}Backward0"]
    for kind, node in found:
        if _is_made_by(node, kind):
            words = (
                f"the {kind.lower()} is applied to what a {kind.lower()} has made: what comes out lies between "
                f"{_LEFT[kind]}, whatever the network answers"
            )
            return broken(ONCE, _CLAIM, words, subject=kind.lower())
    return held(ONCE, _CLAIM) if found else None


def _is_made_by(node: Node, kind: str) -> bool:
    """Return whether the values that a node is given were made by this function, parts of them taken."""
    before = node.next_functions[0][0]
    for _ in range(_A_FEW):
        if before is None or not before.name().startswith(_PARTS):
            break
        before = before.next_functions[0][0] if before.next_functions else None
    return before is not None and bool(before.name() == f"{kind}Backward0")
