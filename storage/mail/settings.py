"""What persons have set while a training runs: one change after the other, as each of them was asked for.

    changes:
    - modules: [encoder.*]
    - every: 7

Each stands for itself, so that the training can refuse one and make those behind it. `{}` in place of a value takes
back what was set for that key and below it. A document without `changes` is one change.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..errors import StoreUnavailable
from .mailbox import Mailbox

__all__ = ["SETTINGS", "changes_of", "laid_over", "leave", "together"]

#: The topic of a run's mailbox where they lie.
SETTINGS: Final = "set"
_CHANGES: Final = "changes"

Fields = Mapping[str, Any]  # Any: plain values, as JSON and YAML know them; who reads them checks them


def changes_of(mailbox: Mailbox) -> tuple[Fields, ...]:
    """All that was asked of the run, earliest first.

    Raises:
        StoreUnavailable: The mailbox cannot be read, or holds something else.
    """
    document = mailbox.read(SETTINGS)
    if document is None:
        return ()
    changes = document.get(_CHANGES, [document])
    if not isinstance(changes, list) or not all(isinstance(one, Mapping) for one in changes):
        raise StoreUnavailable(f"the settings of the run must be a list of keys with their values, got {changes!r}")
    return tuple(changes)


def leave(mailbox: Mailbox, fields: Fields) -> None:
    """Asks for one change behind all the others.

    Raises:
        StoreUnavailable: The mailbox cannot be read or written.
    """
    mailbox.post(SETTINGS, {_CHANGES: [*map(dict, changes_of(mailbox)), dict(fields)]})


def together(changes: Iterable[Fields]) -> dict[str, Any]:
    """What they set in the end."""
    fields: dict[str, Any] = {}
    for change in changes:
        fields = laid_over(fields, change)
    return fields


def laid_over(below: Fields, above: Fields) -> dict[str, Any]:
    """The fields of both; where both have keys below a key these are laid over each other, and `{}` takes back."""
    merged = dict(below)
    for name, value in above.items():
        inner = merged.get(name)
        if value == {}:
            merged.pop(name, None)
        elif not isinstance(value, Mapping):
            merged[name] = value
        elif both := laid_over(inner if isinstance(inner, Mapping) else {}, value):
            merged[name] = both
        elif isinstance(inner, Mapping):
            merged.pop(name)
    return merged
