"""What a user logs: names and numbers, and a message for anything else."""

from collections.abc import Mapping
from typing import Any

__all__ = ["is_name", "numbers_in"]


def numbers_in(scalars: Mapping[Any, Any]) -> tuple[dict[str, float], list[str]]:
    """Return the numbers by their names, and a sentence for each entry that is left out."""
    values: dict[str, float] = {}
    mistakes: list[str] = []
    for name, value in scalars.items():
        if not is_name(name):
            mistakes.append(
                f"the name of a scalar must be a non-empty string that can be encoded, got {name!r}; it is left out"
            )
            continue
        try:
            values[name] = float(value.detach() if hasattr(value, "detach") else value)  # torch warns of a gradient
        except OverflowError:
            mistakes.append(
                f"scalar {name!r} must be one number that a float can hold, got a larger one; it is left out"
            )
        except (TypeError, ValueError, RuntimeError):
            mistakes.append(f"scalar {name!r} must be one number, got {type(value).__name__}; it is left out")
    return values, mistakes


def is_name(name: object) -> bool:
    """Return whether it is text that a store can hold: lone surrogates are not."""
    if not isinstance(name, str) or not name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
