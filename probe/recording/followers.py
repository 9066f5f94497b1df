"""Who is told when other things are due than before."""

from collections.abc import Callable


class Followers:
    """Functions, each about some collectors, or about whether steps are idle."""

    def __init__(self) -> None:
        self._told: list[tuple[Callable[[], object], frozenset[str] | None]] = []

    def add(self, told: Callable[[], object], of: frozenset[str] | None) -> None:
        """Nothing; it is called now, and whenever something changes for one of these collectors; None for all."""
        self._told.append((told, of))
        told()

    def tell(self, changed: frozenset[str] | None = None) -> None:
        """Nothing; those who are about one of these collectors have been called; None for everybody."""
        for told, of in self._told:
            if changed is None or of is None or not changed.isdisjoint(of):
                told()
