"""Reads the fields of an event as plain values; an event from a store is JSON, whoever wrote it."""

from collections.abc import Mapping

from ..storage import Event, Json

NAN = float("nan")


def as_number(value: Json, default: float = NAN) -> float:
    """Return the value if it is a number, else the default."""
    return float(value) if isinstance(value, int | float) else default


def number(event: Event, name: str) -> float:
    """Return the number of that name; NaN if there is none."""
    return as_number(event.data.get(name))


def numbers(event: Event, name: str) -> list[float]:
    """Return the numbers of a list, NaN for missing ones; empty if there is no list."""
    return [as_number(item) for item in _items(event.data.get(name))]


def ranks(event: Event, name: str) -> list[int]:
    """Return the ranks of a list."""
    return [int(value) for value in numbers(event, name) if value == value]


def words(event: Event, name: str) -> list[str]:
    """Return the items of a list as text."""
    return [str(item) for item in _items(event.data.get(name)) if item is not None]


def texts(event: Event, name: str) -> dict[str, str]:
    """Return a mapping of names to text; empty if there is none."""
    value = event.data.get(name)
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, Mapping) else {}


def items(event: Event, name: str) -> list[Mapping[str, Json]]:
    """Return the mappings of a list."""
    return [item for item in _items(event.data.get(name)) if isinstance(item, Mapping)]


def _items(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else []
