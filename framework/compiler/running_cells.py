"""The cells that run while code is captured: where each stands, how often it was called, what it holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ops.observe import mark
from .cells import CellState
from .traced import TracedTensor

__all__ = ["RunningCells"]


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
        self._kept: list[Any] = []  # what is known by id stays alive

    @property
    def site(self) -> str:
        """Of the cell that runs; empty outside of all."""
        return self._running[-1] if self._running else ""

    @property
    def depth(self) -> int:
        """How many cells run, each inside the one before."""
        return len(self._running)

    def meet(self, cell: Any) -> None:
        """Nothing; what the cell holds is guarded."""
        self.state.meet(self._sites.get(id(cell), type(cell).__name__), cell)

    def enter(self, cell: Any) -> None:
        """Nothing; the cell is the one that runs."""
        if not self._running:
            for site, below in cell.cells_and_names():
                self._sites.setdefault(id(below), site)
        self._kept.append(cell)
        self._running.append(self._sites.get(id(cell), type(cell).__name__))

    def leave(self, depth: int) -> None:
        """Nothing; only so many cells run, the outermost ones."""
        del self._running[depth:]

    @contextmanager
    def inside(self, cell: Any) -> Iterator[str]:
        """A block in which the cell is the one that runs, what it holds guarded; yields its site."""
        depth = self.depth
        self.enter(cell)
        self.meet(cell)
        try:
            yield self.site
        finally:
            self.leave(depth)

    def marked(self, cell: Any, output: Any) -> Any:
        """The output of one more call of the cell, its tensors marked."""
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
