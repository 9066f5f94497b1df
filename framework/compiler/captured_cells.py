"""Cells inside a capture: their sites, the marks on their outputs, their hooks, and the Python state they hold.

A hook is not run while a function is captured, when there are no values to show it: a forward hook becomes a call from
inside the graph, a backward hook one from inside its gradient (by the gates that eager code uses too).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import EngineError
from ..nn.cell import Cell
from ..ops.observe import mark
from ..tensor import Tensor, wrap
from .guards import Guard, attribute_guard, is_simple, same, version_guard
from .signature import ArgumentStructure, Leaf, flatten, unflatten
from .traced import CaptureError, TracedTensor

__all__ = ["CellState", "ForwardHooks", "RunningCells", "hooks_of"]


def hooks_of(cell: Cell) -> tuple[bool, bool]:
    """Return whether a cell has hooks on its way forward before `construct`, and after it; for guards and captures."""
    hooks = cell._cell_hooks
    return (False, False) if hooks is None else (bool(hooks.forward_pre), bool(hooks.forward))


def has_backward_hooks(cell: Cell) -> bool:
    """Return whether a cell has hooks on its way back."""
    hooks = cell._cell_hooks
    return hooks is not None and bool(hooks.backward or hooks.backward_pre)


def _parts_of(cell: Cell) -> tuple[str, ...]:
    """Return the names of its cells and parameters: a cell may go through all that it has."""
    return (*cell._cells, *cell._parameters)


#: What is asked of every cell that a capture meets.
_QUESTIONS: dict[str, Callable[[Cell], object]] = {
    "forward hooks": hooks_of,
    "backward hooks": has_backward_hooks,
    "parts": _parts_of,
}


class ForwardHooks:
    """The hooks of one kind of one cell, to be called from inside a graph with the arrays of what they are shown.

    Args:
        cell: Whose hooks.
        kind: "forward_pre" or "forward".
        structure: How the arrays are nested: the inputs, or `(inputs, output)`.
        site: Name of the cell.
    """

    __slots__ = ("_cell", "_kind", "_site", "_structure")

    def __init__(self, cell: Cell, kind: str, structure: ArgumentStructure, site: str) -> None:
        self._cell, self._kind, self._structure, self._site = cell, kind, structure, site

    def __call__(self, *arrays: Any) -> tuple[object, ...]:
        """Call every hook that is registered now."""
        shown = unflatten(self._structure, iter([wrap(x) if hasattr(x, "shape") else x for x in arrays]))
        hooks = getattr(self._cell._cell_hooks, self._kind)
        for number in tuple(hooks):
            hook = hooks.get(number)
            changed = hook(self._cell, *shown) if hook is not None else None
            if changed is not None:
                raise EngineError(
                    f"a {self._kind} hook of cell '{self._site}' returned {type(changed).__name__} inside a compiled "
                    f"function, where values cannot be exchanged; return None, change the value in the cell's "
                    f"construct(), or run the cell eagerly"
                )
        return ()

    def __repr__(self) -> str:
        return f"{self._kind} hooks of '{self._site}'"


class CellState:
    """What Python keeps in the attributes of the cells that a capture meets: guards, and a watch on what changes."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[str, Cell, dict[str, object]]] = {}

    def meet(self, site: str, cell: Cell) -> None:
        """Note the simple attributes of the cell when it is met first."""
        if id(cell) not in self._before:
            found = {name: value for name, value in vars(cell).items() if is_simple(value)}
            self._before[id(cell)] = (site, cell, found)

    def check(self) -> None:
        """Raise if an attribute changed meanwhile.

        Raises:
            CaptureError: One did; they all have their former values again.
        """
        changed = [
            (site, cell, name, value, vars(cell).get(name))
            for site, cell, found in self._before.values()
            for name, value in found.items()
            if not same(vars(cell).get(name), value)
        ]
        for _, cell, name, value, _ in changed:
            setattr(cell, name, value)
        if changed:
            site, cell, name, value, now = changed[0]
            raise CaptureError(
                f"attribute '{name}' of cell '{site or type(cell).__name__}' changed from {value!r} to {now!r} while "
                f"it was captured, and would change only once; keep it in a Parameter (set_data is part of the "
                f"graph), or count outside of the compiled function"
            )

    def guards(self) -> Iterator[Guard]:
        """Return one guard for every attribute, and for every cell some for its hooks and for which parts it has."""
        for site, cell, found in self._before.values():
            name = site or type(cell).__name__
            for key, value in found.items():
                yield attribute_guard(f"{name}.{key}", cell, key, value, by_cell=True)
            for key, value in vars(cell).items():
                if isinstance(value, Tensor):
                    yield attribute_guard(f"{name}.{key}", cell, key, value, by_cell=True)
                    yield from version_guard(f"{name}.{key}", value)
            for what, ask in _QUESTIONS.items():
                yield Guard(f"{what} of {name}", "call", _Asks(ask, cell), what, ask(cell), by_cell=True)
            for key, child in cell._cells.items():
                yield attribute_guard(f"{name}.{key}", cell, key, child, by_cell=True)


class _Asks:
    """A question about a cell."""

    __slots__ = ("_ask", "_cell")

    def __init__(self, ask: Callable[[Cell], object], cell: Cell) -> None:
        self._ask, self._cell = ask, cell

    def __call__(self) -> object:
        return self._ask(self._cell)


def shown_leaves(value: object) -> tuple[list[Leaf], ArgumentStructure]:
    """Return the tensors of what a hook is shown, and how they are nested."""
    leaves: list[Leaf] = []
    return leaves, flatten(value, leaves)


class RunningCells:
    """From the outermost cell to the one that runs now.

    Attributes:
        state: What the cells held when they were met.
        calls: How often each was called so far, by identity.
    """

    def __init__(self) -> None:
        self.state = CellState()
        self.calls: dict[int, int] = {}
        self._sites: dict[int, str] = {}
        self._running: list[str] = []
        self._kept: list[object] = []  # what is known by id stays alive

    @property
    def site(self) -> str:
        """Of the cell that runs; empty outside of all."""
        return self._running[-1] if self._running else ""

    @property
    def depth(self) -> int:
        """How many cells run, each inside the one before."""
        return len(self._running)

    def meet(self, cell: Cell) -> None:
        """Guard what the cell holds."""
        self.state.meet(self._sites.get(id(cell), type(cell).__name__), cell)

    def enter(self, cell: Cell) -> None:
        """Make the cell the running one."""
        if not self._running:
            for site, below in cell.cells_and_names():
                self._sites.setdefault(id(below), site)
        self._kept.append(cell)
        self._running.append(self._sites.get(id(cell), type(cell).__name__))

    def leave(self, depth: int) -> None:
        """Keep only so many running cells, the outermost ones."""
        del self._running[depth:]

    @contextmanager
    def inside(self, cell: Cell) -> Iterator[str]:
        """Open a block in which the cell is the one that runs, what it holds guarded; yields its site."""
        depth = self.depth
        self.enter(cell)
        self.meet(cell)
        try:
            yield self.site
        finally:
            self.leave(depth)

    def marked(self, cell: Cell, output: object) -> object:
        """Return the output of one more call of the cell, its tensors marked."""
        call = self.calls.get(id(cell), 0)
        self.calls[id(cell)] = call + 1
        if isinstance(output, TracedTensor):
            return mark(output, cell=cell, call=call, index=0)
        if not isinstance(output, tuple | list):
            return output
        parts = [
            mark(x, cell=cell, call=call, index=i) if isinstance(x, TracedTensor) else x for i, x in enumerate(output)
        ]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
