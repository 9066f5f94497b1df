"""Reads what ended a run from its event: which kind of failure it is, where, and in which words it is told."""

import re
from pathlib import Path
from typing import Final

from ..storage import Event, Json, Run, display_site
from ..storage.last_words import is_of_backend
from ..storage.plain_text import one_line
from .event_fields import number, words

__all__ = [
    "LOST_CONNECTION",
    "detail",
    "is_misfit",
    "is_of_a_person",
    "is_of_communication",
    "is_out_of_memory",
    "killed",
    "place",
    "said",
]

#: Ends that a person or a scheduler asked for, or a script chose.
_ASKED_FOR: Final = frozenset({"KeyboardInterrupt", "SystemExit", "TrainingStopped", "GeneratorExit", "Stopped"})
_MEMORY: Final = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|unable to allocate", re.IGNORECASE
)
#: How torch, numpy and our engine say that an operand does not fit: shapes, element types, devices, indices.
_MISFIT: Final = re.compile(
    r"shapes? cannot be multiplied|size mismatch|sizes? of tensors? must match|must match the size|same number of dim"
    r"|expected .*channels|expected (?:\d+|input).*(?:dim|size|batch|got)|given groups=|normalized_shape"
    r"|shape '.*' is invalid|cannot be broadcast|could not be broadcast|not broadcastable|equal size, but got"
    r"|mismatch|expects input|expected .*scalar type|same dtype|expected .*(?:dtype|type)|not implemented for '"
    r"|result type .* can't be cast|input type .* and (?:weight|bias) type|same device|index out of range"
    r"|indices? .*out of (?:range|bounds)|out of bounds|must be the same|inconsistent|dimension out of range"
    r"|incompatible (?:shapes|dimensions)|doesn't match the broadcast|must have the same",
    re.IGNORECASE,
)
_TYPES: Final = frozenset({"RuntimeError", "IndexError", "ValueError", "TypeError", "ShapeError", "DtypeError"})
_KILLED: Final = re.compile(r"(?P<signal>.+?)(?: at (?P<file>.+), line (?P<line>\d+))?")
#: What the evidence of a finding counts where an error only says that another rank did not answer.
LOST_CONNECTION: Final = "lost_connection"
#: Characters of an error's message in a finding (our choice: two lines of a terminal).
_LONGEST: Final = 240


def said(event: Event) -> str:
    """Return type and message of the error."""
    message = one_line(str(event.data.get("message", "")), _LONGEST)
    kind = str(event.data.get("type", "an error"))
    return f"{kind}: {message}" if message else kind


def is_of_a_person(event: Event) -> bool:
    """Return whether the end was asked for."""
    return event.data.get("type") in _ASKED_FOR


def is_of_communication(event: Event) -> bool:
    """Return whether the communication with other ranks failed: what went wrong did so in one of those."""
    return is_of_backend(str(event.data.get("message", ""))) or str(event.data.get("type", "")).startswith("Dist")


def is_out_of_memory(event: Event) -> bool:
    """Return whether memory ran out."""
    kind = str(event.data.get("type", ""))
    return kind == "MemoryError" or "OutOfMemory" in kind or bool(_MEMORY.search(str(event.data.get("message", ""))))


def is_misfit(event: Event) -> bool:
    """Return whether an operand did not fit: its shape, element type, device or range."""
    return event.data.get("type") in _TYPES and bool(_MISFIT.search(str(event.data.get("message", ""))))


def killed(run: Run, step: int) -> Event:
    """Return the event of a process that is gone, from the run's error: `SIGTERM at train.py, line 7`, or empty."""
    found = _KILLED.fullmatch(run.error)
    data: dict[str, Json] = {"signal": run.error if found is None else found["signal"]}
    if (memory := run.host.get("memory_bytes")) is not None:
        data["memory_bytes"] = memory
    if found is not None and found["file"]:
        data |= {"file": found["file"], "line": int(found["line"])}
    return Event("process_killed", step, data=data)


def place(event: Event) -> str:
    """Return the user's line, ` at train.py:11: loss = ...`; empty where none is known."""
    if not event.data.get("file"):
        return ""
    code = one_line(str(event.data.get("code", "")), _LONGEST)
    where = f" at {Path(str(event.data['file'])).name}:{number(event, 'line'):.0f}"
    return f"{where}: `{code}`" if code else where


def detail(event: Event) -> str:
    """Return what ran: the module, its input, what it expects, and the tensors of the user's line."""
    parts = []
    if module := event.data.get("module"):
        name = f"{module} {display_site(event.site)!r}" if event.site else str(module)
        expects = str(event.data.get("expects", ""))
        holds = ", ".join(words(event, "parameters"))
        parts.append(f"{name} got {', '.join(words(event, 'inputs')) or 'no tensor'}")
        if expects:
            parts.append(f"it expects {expects}")
        if holds:
            parts.append(f"it has {holds}")
    if operands := words(event, "operands"):
        parts.append(f"the line names {', '.join(operands)}")
    return "; ".join(parts)
