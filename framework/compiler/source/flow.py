"""How a piece of interpreted code ends: on the next line, by break, continue, return or raise, or in several ways.

A condition on a traced value splits the program: each branch is a graph of its own, and may end differently. A `Split`
holds the open ends. Whoever encloses the piece closes them: ends that go on to the next line are joined; those that
return wait for the end of the function; those that break or continue for their loop.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from ...ir import Graph, Node, Where
from .heap import Changes

__all__ = ["AGAIN", "BREAK", "CONTINUE", "NEXT", "Dead", "End", "Flow", "Jump", "Raise", "Return", "Split"]


Dead: TypeAlias = tuple[dict[Any, Any] | None, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Plain:
    """A way to end that carries nothing."""

    name: str


NEXT = Plain("next")
BREAK = Plain("break")
CONTINUE = Plain("continue")
#: The next round of the innermost loop that is being captured.
AGAIN = Plain("again")


@dataclass(frozen=True, slots=True, eq=False)
class Return:
    """The function ends with this value, which may be anything of the user's program."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Raise:
    """The run ends with this exception; None where a branch only waits to learn what a recursion returns."""

    error: BaseException | None


@dataclass(slots=True, eq=False)
class Jump:
    """A graph that ends by calling another one; written into it when the type of the result is known.

    Attributes:
        graph: The one that calls.
        condition: Chooses between the two targets; None if there is one.
        targets: The graphs called.
        arguments: What they are called with.
        where: The line.
    """

    graph: Graph
    condition: Node | None
    targets: tuple[Graph, ...]
    arguments: tuple[Node, ...]
    where: Where


@dataclass(slots=True, eq=False)
class End:
    """One open end.

    Attributes:
        flow: What it wants to do.
        graph: The graph that it stands in, still without output.
        changes: What this path has changed since the split.
    """

    flow: "Plain | Return | Raise"
    graph: Graph
    changes: Changes


@dataclass(slots=True, eq=False)
class Split:
    """Code that ends in several ways.

    Attributes:
        start: The call by which it all begins, in the graph where the split happened.
        jumps: Calls between the graphs inside.
        ends: The open ends.
        dead: Variables, and those names of them that nobody asks for afterwards.
    """

    start: Jump
    jumps: list[Jump]
    ends: list[End]
    dead: Dead = (None, frozenset())


Flow: TypeAlias = Plain | Return | Raise | Split
