"""What the arguments of every learning-rate schedule must satisfy."""

from math import isfinite


def check_rates(schedule: object, *rates: float) -> None:
    """Nothing; the rates are finite and not negative.

    Raises:
        ValueError: One is not.
    """
    for rate in rates:
        if not (isfinite(rate) and rate >= 0.0):
            raise ValueError(
                f"{type(schedule).__name__} expects finite rates and factors of zero or more, got {rate}; "
                f"check the arguments of {schedule!r}"
            )


def check_counts(schedule: object, least: int, **counts: int) -> None:
    """Nothing; the counts are `least` or more.

    Raises:
        ValueError: One is not.
    """
    for name, count in counts.items():
        if count < least:
            raise ValueError(f"{type(schedule).__name__} expects {name} of at least {least}, got {count}")
