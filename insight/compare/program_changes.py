"""Finds the lines of the program in which two runs differ, in the texts that they have recorded."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final

from ...storage import Run, Store
from .changed_program import named_change, named_evaluation
from .setting_differences import Difference

#: How programs name the generators, and libraries that draw from them.
_LIBRARIES: Final = r"sklearn|datasets|transformers|gym\w*|albumentations|imgaug|torch_geometric|pytorch_lightning"
#: Generators of their own, which leave that of the library alone.
_OWN: Final = "RandomState|default_rng|Generator|SeedSequence|PCG64"
_NAMES: Final = {
    "python": re.compile(rf"(?<![\w.])random\b|\b(?:{_LIBRARIES})\b"),
    "numpy": re.compile(rf"\b(?:np|numpy)\.random\b(?!\.(?:{_OWN})\b)|\bfrom numpy import\b|\b(?:{_LIBRARIES})\b"),
}
#: Changed places that are listed, and lines shown of one. Our choice: more of them are another program.
_MOST, _SHOWN = 40, 3


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """The texts that a run has recorded of its program.

    Args:
        script: The name of its script.
        files: The texts by the name of the file; empty is the script's. Without any, nothing was recorded.
    """

    script: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def recorded_program(store: Store, run: Run, rank: int) -> RecordedProgram:
    """Return the texts that one rank of a run has recorded."""
    for event in store.events(run.id, rank=rank, kind="program_text", limit=1):
        files, script = event.data.get("files"), event.data.get("script")
        if isinstance(files, dict):
            texts = {"" if name == script else name: str(text) for name, text in files.items()}
            return RecordedProgram(str(script), texts)
    return RecordedProgram()


def program_changes(program: RecordedProgram, other: RecordedProgram) -> tuple[Difference, ...]:
    """Return the places in which two programs differ; empty if no text of one of them was recorded.

    Lines that are empty or hold a comment alone are no difference.
    """
    first, second = program.files, other.files
    if not first or not second:
        return ()
    found = [
        change
        for name in _names(first, second)
        for change in _changes(name or program.script, first.get(name), second.get(name))
    ]
    return tuple(found[:_MOST])


def changed_cause(program: RecordedProgram, good: RecordedProgram, *, is_trained_alike: bool = False) -> str:
    """Return the cause that the changes of a program speak of, beside a good one; empty for none.

    Args:
        is_trained_alike: Both trained alike, to the bit, so that only the evaluation can differ.
    """
    return (named_evaluation if is_trained_alike else named_change)(good.files, program.files)


def unused_generators(*programs: RecordedProgram) -> frozenset[str]:
    """Return the generators of Python and NumPy that no program names, nor a library that is known to use them.

    Empty if no text of one of them was recorded.
    """
    if not all(program.files for program in programs):
        return frozenset()
    every = "\n".join(text for program in programs for text in program.files.values())
    return frozenset(name for name, words in _NAMES.items() if not words.search(every))


def _names(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the files of both, in order; those that one run alone has loaded are told as well."""
    return [*first, *(name for name in second if name not in first)]


def _changes(name: str, first: str | None, second: str | None) -> Iterator[Difference]:
    if first is None or second is None:
        known = "imported"
        yield Difference("program", name, known if first is not None else None, known if second is not None else None)
        return
    numbers, lines = _code(first)
    _, others = _code(second)
    for kind, begin, end, other_begin, other_end in SequenceMatcher(None, lines, others, autojunk=False).get_opcodes():
        if kind != "equal":
            at = numbers[min(begin, len(numbers) - 1)] if numbers else 1
            yield Difference(
                "program", f"{name}:{at}", _joined(lines[begin:end]), _joined(others[other_begin:other_end])
            )


def _code(text: str) -> tuple[list[int], list[str]]:
    """Return the lines that may do something, with their numbers from 1."""
    kept = [(number, line.rstrip()) for number, line in enumerate(text.splitlines(), 1)]
    kept = [(number, line) for number, line in kept if line and not line.lstrip().startswith("#")]
    return [number for number, _ in kept], [line for _, line in kept]


def _joined(lines: list[str]) -> str | None:
    shown = "; ".join(line.strip() for line in lines[:_SHOWN])
    return f"{shown}; ..." if len(lines) > _SHOWN else shown or None
