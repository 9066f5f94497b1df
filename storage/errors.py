"""What can go wrong with a store.

StoreError(RuntimeError)
├── StoreUnavailable         the place cannot be opened, read or written
├── StoreTooNew              written by a newer mindscope
├── StoreDamaged             the file is there and is not (any more) a run
├── RunNotFound(KeyError)    no run answers to that reference
└── InvalidName(ValueError)   a site, metric or URL that does not follow the grammar
"""

from collections.abc import Iterable
from difflib import get_close_matches


class StoreError(RuntimeError):
    """Anything that stops a store from doing what was asked."""


class StoreUnavailable(StoreError):
    """The place cannot be opened, read or written."""


class StoreTooNew(StoreError):
    """The schema is newer than this version of mindscope understands."""


class StoreDamaged(StoreError):
    """The file exists and cannot be read as a run."""


class RunNotFound(StoreError, KeyError):
    """No run answers to that reference."""

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidName(StoreError, ValueError):
    """A site, metric or URL that does not follow the grammar."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known name most like this one, else an empty string."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""
