"""The errors of a store.

StoreError(RuntimeError)
├── StoreUnavailable         the store cannot be opened, read or written
│   └── StoreGone            the file was deleted or replaced; to try again is of no use
├── StoreTooNew              written by a newer mindscope
├── StoreDamaged             a run or a part of it is missing, or is not what was written
│   └── StoreUnfinished      the file is empty: its first transaction was not finished
├── RunNotFound(KeyError)    no run matches that reference
└── InvalidName(ValueError)   a site, metric or URL that does not follow the grammar
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from .plain_text import printable

#: Most files that one error names.
_MOST_NAMED = 3


class StoreError(RuntimeError):
    """The base of all errors of a store; the message can always be printed, whatever bytes a damaged file holds."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class StoreUnavailable(StoreError):
    """The store cannot be opened, read or written."""


class StoreGone(StoreUnavailable):
    """The file was deleted or replaced while it was written; it will not come back."""


class StoreTooNew(StoreError):
    """The schema is newer than this version of mindscope understands."""


class StoreDamaged(StoreError):
    """A run, or a part of it, is missing or is not what was written.

    Attributes:
        rest: What the call would have returned, without what is damaged; None where nothing could be read.
    """

    def __init__(self, message: str, rest: object = None) -> None:
        super().__init__(message)
        self.rest = rest


class StoreUnfinished(StoreDamaged):
    """The file exists and is empty: its writer is about to fill it, or ended before it could."""


class RunNotFound(StoreError, KeyError):
    """No run matches that reference."""

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidName(StoreError, ValueError):
    """A site, metric or URL that does not follow the grammar."""


def no_attachment(run: str, digest: str) -> StoreUnavailable:
    """Return the error that a run has no file with this digest."""
    return StoreUnavailable(
        f"run {run!r} has no image or sound {digest[:40]!r}; the events `media` of the run name those that it has"
    )


def combined_error(location: str, unreadable: Sequence[StoreDamaged | StoreTooNew]) -> StoreDamaged | StoreTooNew:
    """Return one error with the messages of the first few; a single error is returned as it is."""
    if len(unreadable) == 1:
        return unreadable[0]
    kind = StoreTooNew if all(isinstance(error, StoreTooNew) for error in unreadable) else StoreDamaged
    return kind(f"{location} has {len(unreadable)} files and none can be read: {combined_message(unreadable)}")


def combined_message(errors: Sequence[StoreError]) -> str:
    """Return the messages of the first few errors, and how many more there are."""
    rest = f"; and {len(errors) - _MOST_NAMED} more" if len(errors) > _MOST_NAMED else ""
    return "; ".join(map(str, errors[:_MOST_NAMED])) + rest


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name most like this one, else an empty string."""
    found = nearest_name(name, known)
    return "" if found is None else f"; did you mean {found!r}?"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like this one, None where none is like it."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


_OF_A_USER: Final = re.compile(r"(?<=://)([^/@\s:]*):\S*@")
#: A message broker takes one word before the host as a token.
_TOKEN: Final = re.compile(r"\b((?:nats|tls|kafka)://)[^/@\s:]+@")
_IN_A_QUERY: Final = re.compile(r"([?&]\w*passw\w*=)[^&\s'\"]*", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Return a URL, or a sentence with URLs in it, with `***` where they have a password, well formed or not."""
    return _IN_A_QUERY.sub(r"\1***", _TOKEN.sub(r"\1***@", _OF_A_USER.sub(r"\1:***@", text)))
