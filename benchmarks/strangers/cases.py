"""The cases: healthy programs as they are, and faulty or odd ones made of them by exchanging pieces of their text."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from .switched import switched

_FOLDER = Path(__file__).parent
PROGRAMS = _FOLDER / "programs"
VARIANTS = _FOLDER / "variants.json"

#: `odd`: unusual, and meant.
Role = Literal["healthy", "fault", "odd"]


@dataclass(frozen=True, slots=True)
class StrangersCase:
    """One program, and what is known of it.

    Args:
        program: Its file's name; `name` that of the variant, empty for the program as it is.
        is_silent: The loss falls and nothing stops or becomes NaN.
        what: What is wrong, or odd, in a sentence.
        cause: The word of docs/causes.md that fits best; None where none does.
        site: The module that is concerned, as the program spells it; None where no single one is.
        edits: Pieces of the program's text, each of which it has once, with what takes their place.
        switch: How the switch stands behind which the program has this variant; empty where it has none.
    """

    program: str
    name: str = ""
    role: Role = "healthy"
    is_silent: bool = False
    what: str = ""
    cause: str | None = None
    site: str | None = None
    edits: tuple[tuple[str, str], ...] = ()
    switch: Literal["", "on", "off"] = ""

    @property
    def title(self) -> str:
        """Program and variant, and how its switch stands."""
        title = f"{self.program}/{self.name}" if self.name else self.program
        return f"{title}, {self.switch}" if self.switch else title

    @property
    def text(self) -> str:
        """The program's text, with all edits or with a switch for them.

        Raises:
            ValueError: The program does not have a piece exactly once.
        """
        return switched(self._original, self._edited, self.name) if self.switch else self._edited

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the program is given on its command line."""
        return ("--variant", self.name) if self.switch == "on" else ()

    @property
    def _original(self) -> str:
        return (PROGRAMS / f"{self.program}.py").read_text(encoding="utf-8")

    @property
    def _edited(self) -> str:
        """The program's text with all edits.

        Raises:
            ValueError: The program does not have a piece exactly once.
        """
        original = self._original
        pieces: list[str] = []
        at = 0
        for place, old, new in sorted((original.find(old), old, new) for old, new in self.edits):
            if original.count(old) != 1 or place < at:
                raise ValueError(f"{self.title}: expected {old!r} once in {self.program}.py, outside of other edits")
            pieces += [original[at:place], new]
            at = place + len(old)
        return "".join([*pieces, original[at:]])


def all_cases() -> Iterator[StrangersCase]:
    """Yield all programs, and their variants behind them."""
    variants: list[dict[str, Any]] = json.loads(VARIANTS.read_text(encoding="utf-8"))
    for path in sorted(PROGRAMS.glob("*.py")):
        yield StrangersCase(path.stem)
        for variant in variants:
            if variant["program"] == path.stem:
                yield StrangersCase(**{**variant, "edits": tuple(map(tuple, variant["edits"]))})


def switched_cases() -> Iterator[StrangersCase]:
    """Yield every fault twice, behind a switch that is on, and behind one that is off: that run is healthy."""
    for case in all_cases():
        if case.role == "fault":
            yield replace(case, switch="on")
            yield replace(case, switch="off", role="healthy")
