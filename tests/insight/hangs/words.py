"""Last words as ranks of a small training say them."""

from collections.abc import Sequence
from dataclasses import replace

from mindscope.storage.last_words import CollectiveCall, LastWord, SiteUse, ThreadStack

NOW = 1000.0
#: What each rank calls in a step: operation, line, size.
STEP = (("all_reduce", 10, 4), ("all_reduce", 11, 8), ("broadcast", 12, 2))


def calls(steps: int = 3, *, step: Sequence[tuple[str, int, int]] = STEP) -> list[CollectiveCall]:
    """Completed calls of whole steps."""
    found: list[CollectiveCall] = []
    for number in range(steps):
        for operation, line, size in step:
            found.append(call(len(found), operation, line, size, step=number, ended_at=NOW - 20))
    return found


def call(number: int, operation: str = "all_reduce", line: int = 10, size: int = 4, **more: object) -> CollectiveCall:
    state = "completed" if more.get("ended_at") else "called"
    fields = {"began_at": NOW - 12.0, "sizes": ((size,),), "dtype": "float32", "group": "world", **more}
    return CollectiveCall(number, operation, file="/home/me/train.py", line=line, state=state, **fields)  # type: ignore[arg-type]


def word(rank: int, made: Sequence[CollectiveCall], size: int = 2, **more: object) -> LastWord:
    lines = {(one.operation, one.group, one.file, one.line) for one in made}
    uses = [SiteUse(*line, sum((c.operation, c.group, c.file, c.line) == line for c in made), 0, 3) for line in lines]
    base = LastWord(rank, size, at=NOW, step=3, step_s=0.1, stalled_s=12.0, groups={"world": tuple(range(size))})
    return replace(base, calls=tuple(made), sites=tuple(uses), **more)  # type: ignore[arg-type]


def main_thread(*frames: tuple[str, int, str], code: str = "", system_call: str = "") -> tuple[ThreadStack, ...]:
    return (ThreadStack("MainThread", True, frames, system_call, code),)
