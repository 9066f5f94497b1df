"""What an event says, read as plain values: events come back from a store as JSON, whoever wrote them."""

from collections.abc import Mapping

from ..storage import Event, Json

NAN = float("nan")


def as_number(value: Json, default: float = NAN) -> float:
    """The value where it is a number."""
    return float(value) if isinstance(value, int | float) else default


def number(event: Event, name: str) -> float:
    """The number of that name; NaN where there is none."""
    return as_number(event.data.get(name))


def numbers(event: Event, name: str) -> list[float]:
    """The numbers of a list, NaN for those that are missing; empty where there is no list."""
    return [as_number(item) for item in _items(event.data.get(name))]


def ranks(event: Event, name: str) -> list[int]:
    """The ranks of a list."""
    return [int(value) for value in numbers(event, name) if value == value]


def words(event: Event, name: str) -> list[str]:
    """The items of a list as text."""
    return [str(item) for item in _items(event.data.get(name)) if item is not None]


def texts(event: Event, name: str) -> dict[str, str]:
    """A mapping of names to text; empty where there is none."""
    value = event.data.get(name)
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, Mapping) else {}


def items(event: Event, name: str) -> list[Mapping[str, Json]]:
    """The mappings of a list."""
    return [item for item in _items(event.data.get(name)) if isinstance(item, Mapping)]


def _items(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else []
