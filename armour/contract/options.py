"""Options of attacks, checked where they enter."""

import math

from ..errors import InvalidInput
from .attack import Attack


def at_least(attack: Attack, smallest: int, *names: str) -> None:
    """Raises `InvalidInput` unless each named option is an integer of `smallest` or more."""
    for name in names:
        value = getattr(attack, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
            raise InvalidInput(f"{type(attack).__name__} expects {name} of {smallest} or more, got {name}={value!r}")


def positive(attack: Attack, *names: str) -> None:
    """Raises `InvalidInput` unless each named option is a finite number above 0."""
    for name in names:
        value = getattr(attack, name)
        if isinstance(value, bool) or not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise InvalidInput(f"{type(attack).__name__} expects {name} above 0, got {name}={value!r}")


def fraction(attack: Attack, *names: str) -> None:
    """Raises `InvalidInput` unless each named option is a number from 0 to 1."""
    for name in names:
        value = getattr(attack, name)
        if isinstance(value, bool) or not (isinstance(value, int | float) and 0 <= value <= 1):
            raise InvalidInput(f"{type(attack).__name__} expects {name} from 0 to 1, got {name}={value!r}")
