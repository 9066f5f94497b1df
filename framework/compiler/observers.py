"""Observers of compiled functions: a pass that shows the outputs of chosen cells, and their gradients, to hooks.

Captured graphs mark every output of every cell. `observe_cells` asks that the marks it selects become `observe`
operations; all others are dropped by the optimiser. Nothing else in the graph changes, so losses keep their bits.

    handle = observe_cells(lambda site, cell: site.startswith("blocks."), make_hook)
    step(x, y)            # compiled anew, once; the hooks are called while the compiled graph runs
    handle.remove()       # and the functions run as they were compiled before

This interface is frozen: monitors are built on it.
"""

from collections.abc import Callable

from ..hooks import Handle
from ..ir import Apply, Graph, Node
from ..nn.cell import Cell
from ..ops.observe import ObservationHook
from ..primitive import PRIMITIVES
from .rewrite import rebuild

__all__ = ["insert_observers", "observe_cells", "observer_set"]

#: Whether a cell is watched: `select(site, cell)`, its site counted from the outermost cell that runs.
Select = Callable[[str, Cell], bool]
#: The hook for one output: `make_hook(site, cell, call, index)`; None watches nothing there.
MakeHook = Callable[[str, Cell, int, int], "ObservationHook | None"]

#: `(select, make_hook)` of those attached now, by number.
OBSERVERS: dict[int, Callable[[str, Cell, int, int], "ObservationHook | None"]] = {}


def observe_cells(select: Select, make_hook: MakeHook) -> Handle:
    """Return a handle on hooks that watch, in every compiled function, the outputs of the cells that `select` chooses.

    Args:
        select: Called with the site and the cell when a function is compiled.
        make_hook: Called once for each watched output when a function is compiled: with site, cell, the number of the
            call (cells that are called several times in one run) and the index of the output. The hook's `value(array)`
            is called with the output whenever the function runs, `gradient(array)` with its gradient if one is taken.

    Returns:
        A handle whose `remove()` ends it. Functions compiled with other sets of observers stay as they are and are
        used again.
    """

    def expand(site: str, cell: Cell, call: int, index: int) -> "ObservationHook | None":
        return make_hook(site, cell, call, index) if select(site, cell) else None

    return Handle(OBSERVERS, expand)


def observer_set() -> tuple[int, ...]:
    """Return which observers are attached: compiled functions keep one program for each set."""
    return tuple(OBSERVERS)


def insert_observers(graph: Graph) -> Graph:
    """Let every selected mark of a captured graph show its value to a hook; return the graph itself if none is
    selected."""
    if not OBSERVERS:
        return graph
    hooks: dict[tuple[int, int, int], list[ObservationHook]] = {}

    def hooks_of(node: Apply) -> list[ObservationHook]:
        place = node.attributes
        key = (id(place["cell"]), place["call"], place["index"])
        if key not in hooks:
            found = [make(node.where.site, place["cell"], place["call"], place["index"]) for make in OBSERVERS.values()]
            hooks[key] = [hook for hook in found if hook is not None]
        return hooks[key]

    def watched(node: Apply, inputs: list[Node], home: Graph) -> Node | None:
        twin = {"mark": "observe", "mark_gradient": "observe_gradient"}.get(getattr(_applied(node), "name", ""))
        if twin is None:
            return None
        result = inputs[1]
        for hook in hooks_of(node):
            result = home.apply(PRIMITIVES[twin], result, where=node.where, hook=hook)
        return result

    return rebuild(graph, watched)


def _applied(node: Apply) -> object:
    return getattr(node.function, "value", None)
