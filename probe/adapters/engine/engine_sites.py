"""The cells of an engine model by site, and how changes of them are noticed."""

from collections.abc import Mapping

from ....framework.hooks import CHANGES
from ....framework.nn.cell import Cell


class CellSites:
    """The cells of a model by site.

    Attributes:
        modules: The cells themselves.
    """

    def __init__(self, model: Cell) -> None:
        self._model = model
        self.modules: dict[str, Cell] = {}
        self._count, self._parts = 0, self._parts_now()
        self.look()

    def has_changed(self) -> bool:
        """Return whether a cell has gained, lost or replaced a part since the last look; cheap when no part was set."""
        if self._count == CHANGES[0]:
            return False
        self._count = CHANGES[0]
        now = self._parts_now()
        return len(now) != len(self._parts) or any(
            part is not previous for part, previous in zip(now, self._parts, strict=True)
        )

    def look(self) -> frozenset[str]:
        """Update `modules`; return the sites whose cell is new, gone or replaced."""
        before = dict(self.modules)
        self.modules.clear()
        self.modules.update(self._model.cells_and_names())
        self._count, self._parts = CHANGES[0], self._parts_now()
        sites = {*before, *self.modules}
        return frozenset(site for site in sites if before.get(site) is not self.modules.get(site))

    def _parts_now(self) -> list[object]:  # kept alive so that no new one reuses the memory of an old one
        return [part for cell in self.modules.values() for part in (*cell._cells.values(), *cell._parameters.values())]


def owners_of(cells: Mapping[str, Cell]) -> list[tuple[str, Cell, str]]:
    """Return site, cell and attribute of every parameter; a shared one is listed under each of its sites."""
    return [
        (f"{site}.{name}" if site else name, cell, name) for site, cell in cells.items() for name in cell._parameters
    ]
