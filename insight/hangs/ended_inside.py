"""Ranks whose process was ended inside a collective, as gloo does when sizes differ, and those that were ended with it.

The last word of such a rank is half a second old; the note of its fatal signal tells the line, and what of torch ran.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...storage.last_words import CollectiveCall, LastWord
from .activity import Activity, place
from .order import BY_TORCH

__all__ = ["ended_inside", "ended_with_the_job", "has_crashed"]

_NOTE: Final = re.compile(r"^(?P<signal>.+?)(?: in (?P<operation>\w+))? at (?P<file>.+), line (?P<line>\d+)$")
#: Who ends a job sends this to all ranks that are left.
_ENDS_JOB: Final = "SIGTERM"
#: What a note says of a rank that was in a backward pass, where torch calls collectives itself.
_BACKWARD: Final = "backward"


@dataclass(frozen=True, slots=True)
class _End:
    """Where a signal has ended a rank.

    Args:
        operation: The collective, or `backward`; empty if it was in neither.
    """

    signal: str
    operation: str
    file: str
    line: int

    def is_inside(self, word: LastWord) -> bool:
        """Return whether the rank was in a collective."""
        return bool(self.operation) or (self.file, self.line) in {(site.file, site.line) for site in word.sites}


def _ends(words: Mapping[int, LastWord], notes: Mapping[int, str]) -> dict[int, _End]:
    found = {rank: match for rank, note in notes.items() if rank in words and (match := _NOTE.search(note))}
    return {
        rank: _End(match["signal"], match["operation"] or "", match["file"], int(match["line"]))
        for rank, match in found.items()
    }


def has_crashed(words: Mapping[int, LastWord], notes: Mapping[int, str]) -> bool:
    """Return whether a signal that nobody sent has ended a rank inside a collective."""
    return any(end.signal != _ENDS_JOB and end.is_inside(words[rank]) for rank, end in _ends(words, notes).items())


def ended_with_the_job(
    words: Mapping[int, LastWord], activities: dict[int, Activity], notes: Mapping[int, str]
) -> dict[int, Activity]:
    """Return the activities, where a backend has ended one rank inside a collective and its launcher all others then.

    Those others are no cause; the line that they were at tells how far they had come.
    """
    if not has_crashed(words, notes):
        return activities
    ended = {}
    for rank, end in _ends(words, notes).items():
        if end.signal == _ENDS_JOB and activities[rank].kind == "dead":
            said = f"was at {place(end.file, end.line)} when the job was ended ({_ENDS_JOB})"
            ended[rank] = Activity("ended", said, file=end.file, line=end.line)
    return {**activities, **ended}


def ended_inside(
    words: Mapping[int, LastWord],
    activities: Mapping[int, Activity],
    notes: Mapping[int, str],
    waits: Mapping[int, CollectiveCall],
) -> dict[int, CollectiveCall]:
    """Return the calls that have ended their process by a signal.

    What a rank said last of the line tells the operation and its tensors; else the note tells the operation. The number
    is that of the call which has failed in the others. Where all were ended, it is the one that comes after all that
    were told.
    """
    inside = {
        rank: end
        for rank, end in _ends(words, notes).items()
        if activities[rank].kind in ("dead", "ended") and end.is_inside(words[rank])
    }
    newest = max((call.number for word in words.values() for call in (*word.calls, *word.native)), default=0) + 1
    found = {}
    for rank, end in inside.items():
        sites = [site for site in words[rank].sites if (site.file, site.line) == (end.file, end.line)]
        partners = [call for call in waits.values() if not sites or any(call.group == site.group for site in sites)]
        if partners or len(inside) > 1 or "ended" in {activity.kind for activity in activities.values()}:
            at_end = CollectiveCall(newest, "", "world", "failed", began_at=words[rank].at, ended_at=words[rank].at)
            partner = max(partners, key=lambda call: call.number, default=at_end)
            found[rank] = _call(words[rank], end, replace(partner, state="failed"))
    return found


def _call(word: LastWord, end: _End, partner: CollectiveCall) -> CollectiveCall:
    """Return the call that has ended the rank, in the place of the partner's."""
    if end.operation == _BACKWARD:
        if partner.operation and partner.file in ("", BY_TORCH):  # the same call, as far as can be told
            return replace(partner, file=BY_TORCH, line=0)
        return replace(partner, file=BY_TORCH, line=0, operation="all_reduce", sizes=(), detail=BY_TORCH)
    site = next((site for site in word.sites if (site.file, site.line) == (end.file, end.line)), None)
    known = [call for call in word.calls if (call.file, call.line) == (end.file, end.line)]
    operation = end.operation if site is None else site.operation
    call = known[-1] if known else CollectiveCall(0, operation, partner.group, "failed")
    group = partner.group if partner.operation or site is None else site.group
    call = replace(call, file=end.file, line=end.line, number=partner.number, group=group, state="failed")
    return replace(call, began_at=partner.began_at, ended_at=partner.ended_at)
