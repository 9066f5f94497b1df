"""What of a run cannot be read: collected while the rest is read, then told once."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from .errors import StoreDamaged
from .metric_series import display_site
from .plain_text import printable
from .run_info import rank_words

#: Most sites, and most pieces of damage, that one message names.
_MOST_SITES: Final = 3
_MOST_PIECES: Final = 5


@dataclass(frozen=True, slots=True)
class Damage:
    """One piece of a recording that is missing or is not what was written.

    Args:
        what: What it is: `activation/l2_norm`, `scalars`, `events`.
        sites: The sites or scalars concerned; none if it concerns the run.
        first: The first step concerned, and `last` the last one; None where the damage hides it.
        reason: What is wrong with it.
    """

    what: str
    reason: str
    sites: tuple[str, ...] = ()
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        words = self.what
        if self.sites:
            more = len(self.sites) - _MOST_SITES
            names = ", ".join(display_site(site) for site in self.sites[:_MOST_SITES])
            words += f" of {names}" + (f" and {more} more" if more > 0 else "")
        if self.first is not None and self.first == self.last:
            words += f", step {self.first}"
        elif self.first is not None:
            words += f", from step {self.first}" if self.last is None else f", steps {self.first} to {self.last}"
        elif self.last is not None:
            words += f", up to step {self.last}"
        return printable(f"{words}: {self.reason}")


_found: ContextVar[list[Damage] | None] = ContextVar("damage", default=None)


@contextmanager
def gathering() -> Iterator[list[Damage]]:
    """Collect the damage that is noted meanwhile instead of raising it."""
    found: list[Damage] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


def note_damage(damage: Damage) -> None:
    """Note damage, and go on with the rest where somebody gathers it.

    Raises:
        StoreDamaged: Nobody does.
    """
    found = _found.get()
    if found is None:
        raise StoreDamaged(str(damage))
    if damage not in found:
        found.append(damage)


def damage_text(run: str, rank: int, found: list[Damage]) -> str:
    """Return one sentence that names the run and what of it cannot be read."""
    more = len(found) - _MOST_PIECES
    pieces = "; ".join(map(str, found[:_MOST_PIECES])) + (f"; and {more} more" if more > 0 else "")
    return (
        f"run {run!r}, {rank_words(rank)} is damaged: {pieces}. The rest is intact; `mindscope verify` lists the "
        f"damage, and a copy of the store would restore it"
    )
