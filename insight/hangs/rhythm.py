"""Finds the rank that has left a collective out, by what each rank usually calls in a step.

The numbers of calls tell nothing here: after a call was left out, the next ones pair up wrongly, and the rank that a
backend ends or that raises is any of them. But steps repeat. A step in which a rank has called less than in every other
step, and less than the other ranks ever do, is where it has left something out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ...storage.last_words import LastWord
from ...storage.transfers import TRANSFERS
from .activity import place

__all__ = ["LeftOut", "left_out", "usual_pattern"]

_Calls = TypeVar("_Calls", bound=tuple[Any, ...])  # Any: whatever tells one call from another

#: Whole steps that must be known of a rank, and the share of them that must be alike (our choice).
_KNOWN, _ALIKE = 5, 0.8
#: Steps before the present in which a call is missed that no other rank's word reaches, which may be half a second old.
_RECENT: Final = 2
#: Operation, file and line of each call, in order.
_Pattern = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a rank has left out.

    Args:
        step: In which it is missing.
        missing: The first of the calls that are missing, as (operation, file, line).
        times: How often the rank usually makes it in a step.
        made: How often it has in this step.
    """

    rank: int
    group: str
    step: int
    missing: tuple[str, str, int]
    times: int
    made: int

    @property
    def words(self) -> str:
        """What the rank has left out: a sentence that follows `rank 1`."""
        operation, file, line = self.missing
        often = "once" if self.times == 1 else f"{self.times} times"
        made = f" {self.times - self.made} of its {self.times} calls of" if self.made else ""
        usual = f"which it calls {often} in every other step" if not self.made else "as in every other step"
        return f"has skipped{made} {operation} of {self.group} at {place(file, line)} in step {self.step}, {usual}"


def left_out(words: Mapping[int, LastWord], groups: Iterable[str]) -> LeftOut | None:
    """Return what the one rank that did so has left out; None where all keep to their steps, or several do not."""
    found = [one for group in groups for one in _of_group(words, group)]
    return min(found, key=lambda one: one.step) if len({one.rank for one in found}) == 1 else None


def _of_group(words: Mapping[int, LastWord], group: str) -> list[LeftOut]:
    steps = {rank: _patterns(word, group) for rank, word in words.items()}
    whole = {rank: {step: made for step, made in own.items() if step < words[rank].step} for rank, own in steps.items()}
    found = []
    for rank, own in steps.items():
        usual = usual_pattern(list(whole[rank].values()))
        others = {other: theirs for other, theirs in whole.items() if other != rank}
        if not usual or not any(others.values()):
            continue
        at = next((at for at in own if _lacks(at, own, usual, others, words[rank].step)), None)
        if at is not None:
            missing = _first_missing(own[at], usual)
            found.append(LeftOut(rank, group, at, missing, usual.count(missing), own[at].count(missing)))
    return found


def usual_pattern(whole: Sequence[_Calls]) -> _Calls | tuple[()]:
    """Return what a rank calls in nearly all of its whole steps; nothing where these are too few or too unlike."""
    if len(whole) < _KNOWN:
        return ()
    pattern, count = Counter(whole).most_common(1)[0]
    return pattern if count >= _ALIKE * len(whole) else ()


def _lacks(
    step: int, own: Mapping[int, _Pattern], usual: _Pattern, others: Mapping[int, Mapping[int, _Pattern]], present: int
) -> bool:
    """Return whether the rank has left something out in this step that the others call in it."""
    made = own[step]
    if not _is_part(made, usual) or (step >= present and made == usual[: len(made)]):  # it may call the rest yet
        return False
    if any(len(own.get(near, ())) > len(usual) for near in (step - 1, step + 1)):  # called a little later, by a thread
        return False
    if any(made in theirs.values() for theirs in others.values()):
        return False
    seen = [theirs[step] for theirs in others.values() if step in theirs]
    return usual in seen if seen else step >= present - _RECENT


def _patterns(word: LastWord, group: str) -> dict[int, _Pattern]:
    """Return what was called in each step since the oldest that is whole, also in those in which nothing was."""
    made: dict[int, list[tuple[str, str, int]]] = {}
    for call in word.calls:
        if call.group == group and call.operation not in TRANSFERS:
            made.setdefault(call.step, []).append((call.operation, call.file, call.line))
    if not made:
        return {}
    oldest = min(call.step for call in word.calls) + 1  # of the oldest step some calls may be forgotten
    first = max(oldest, min(made))
    return {step: tuple(made.get(step, ())) for step in range(first, max(word.step, max(made)) + 1)}


def _is_part(made: _Pattern, usual: _Pattern) -> bool:
    """Return whether the calls are the usual ones in their order, with some missing."""
    rest: Iterator[tuple[str, str, int]] = iter(usual)
    return len(made) < len(usual) and all(call in rest for call in made)


def _first_missing(made: _Pattern, usual: _Pattern) -> tuple[str, str, int]:
    """Return the first usual call that was not made."""
    at = next((at for at, (call, due) in enumerate(zip(made, usual, strict=False)) if call != due), len(made))
    return usual[at]
