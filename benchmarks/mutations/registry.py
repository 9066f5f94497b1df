"""The registry of mutation operators: each breaks any program that has a place for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from .program import Edit, Program

Family = Literal["data", "loss", "model", "optimizer", "reinforcement"]

OPERATORS: Final[dict[str, "Operator"]] = {}


@dataclass(frozen=True, slots=True)
class Change:
    """One way to make a mutant of one program.

    Args:
        edits: What changes in its source.
        line: The line of the original where it changes, 0 if nowhere in particular.
        what: What was there and what is there now, for a person.
        attribute: Attribute of a module that is at fault, `fc1` of `self.fc1(x)`, `mlp.2` of the third one in `mlp`;
            empty if no single one is.
    """

    edits: tuple[Edit, ...]
    line: int
    what: str
    attribute: str = ""


#: Yields every place of a program where an operator can work.
Find = Callable[[Program], Iterator[Change]]


@dataclass(frozen=True, slots=True)
class Operator:
    """One way to break a program.

    Args:
        cause: The word of the vocabulary of causes that a diagnosis should say; None where no word fits.
        source: The taxonomy that names this fault.
        promise: An exact promise of every sound training that the mutant breaks even where its result is no worse;
            empty if its harm must be measured.
        is_planted: It wraps a call of torch at run time, so it also works where the loop is another package's.
        summary: One sentence for a person.
    """

    name: str
    family: Family
    cause: str | None
    source: str
    promise: str
    is_planted: bool
    summary: str
    find: Find

    def changes(self, source: str) -> tuple[Change, ...]:
        """Return what it could do to a program of this source."""
        return tuple(self.find(_parsed(source)))

    def applies(self, source: str) -> bool:
        """Return whether a program of this source has a place for it."""
        return next(iter(self.find(_parsed(source))), None) is not None


def operator(
    name: str,
    family: Family,
    cause: str | None,
    source: str,
    *,
    promise: str = "",
    is_planted: bool = False,
) -> Callable[[Find], Find]:
    """Return the decorator that enters an operator; the docstring of what it decorates becomes the summary.

    Raises:
        ValueError: The name is taken.
    """

    def enter(find: Find) -> Find:
        if name in OPERATORS:
            raise ValueError(f"operator {name!r} is there twice; give one of them another name")
        summary = (find.__doc__ or "").strip()
        OPERATORS[name] = Operator(name, family, cause, source, promise, is_planted, summary, find)
        return find

    return enter


def plant(call: str) -> str:
    """Return the statements by which a mutant calls a function of `planted.py`, which lies beside it."""
    return f"import planted; planted.{call}"


def planted_change(program: Program, call: str) -> Iterator[Change]:
    """Yield the change that calls a function of `planted.py` before the program does anything."""
    yield Change((program.at_top(plant(call)),), 0, f"planted.{call}")


@lru_cache(maxsize=128)
def _parsed(source: str) -> Program:
    return Program(source)
