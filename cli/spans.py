"""Stretches of steps in words."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

__all__ = ["Span", "and_words", "merged", "spans_in_words", "steps_in_words"]

#: The first and the last step of a stretch without a gap.
Span = tuple[int, int]
#: Stretches that are named where there are more (our choice: half a line of a terminal).
_NAMED: Final = 4


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The fewest stretches that hold the same steps, oldest first."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def steps_in_words(spans: Sequence[Span]) -> str:
    """All steps of merged stretches, as `steps 0 to 3 and 20 to 25` or `every 10 steps from 0 to 900`; the first of
    many stretches, and where the last one ends."""
    gaps = {after[0] - before[0] for before, after in pairwise(spans)}
    if len(spans) > 2 and len(gaps) == 1 and all(first == last for first, last in spans):
        return f"every {gaps.pop()} steps from {spans[0][0]} to {spans[-1][0]}"
    if len(spans) <= _NAMED:
        return spans_in_words(spans)
    rest = len(spans) - _NAMED + 1
    return f"{spans_in_words(spans[: _NAMED - 1], last=', ')} and {rest} stretches more up to step {spans[-1][1]}"


def spans_in_words(spans: Sequence[Span], *, last: str = " and ") -> str:
    """Each stretch, as `step 5` or `steps 1, 2 and 100 to 110`."""
    words = [
        word
        for first, end in spans
        for word in ([f"{first} to {end}"] if end > first + 1 else map(str, range(first, end + 1)))
    ]
    is_one = len(words) == 1 and words[0].isdigit()
    return f"step{'' if is_one else 's'} {and_words(words, last=last)}"


def and_words(words: Sequence[str], *, last: str = " and ") -> str:
    """The words in a row, the last of them behind an `and`."""
    return last.join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])
