"""The whole table of cases: importing this module fills it."""

from . import injected, odd, scripts  # noqa: F401  they fill the table
from .table import CASES, Case

__all__ = ["CASES", "chosen", "faults", "healthy_runs"]


def faults() -> list[Case]:
    """Every case in which something is wrong, by name."""
    return [CASES[name] for name in sorted(CASES) if not CASES[name].is_healthy]


def healthy_runs() -> list[Case]:
    """Every case in which nothing is, the plain scripts among them, by name."""
    return [CASES[name] for name in sorted(CASES) if CASES[name].is_healthy]


def chosen(words: list[str]) -> list[Case]:
    """Cases whose name or script contains one of the words; all of them without any."""
    found = [
        case
        for case in (*faults(), *healthy_runs())
        if not words or any(word in case.name or word == case.script for word in words)
    ]
    if not found:
        raise ValueError(f"no case is named like {', '.join(words)}; there are {', '.join(sorted(CASES))}")
    return found
