"""Finds the rank whose send or receive is wrong, where ranks wait for each other in pairs.

Only one rank waits for a send that was left out, went to another rank or has another tag, while the rank that is to
blame waits elsewhere; so all of them wait in a circle. Two things tell who began it: what each rank usually calls at
this point of its step, and, without steps to compare with, calls of both ends that nearly meet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...storage.last_words import CollectiveCall, LastWord
from ...storage.transfers import TRANSFERS, Transfer, is_send, transfer_of
from .activity import place
from .hang_report import call_words
from .order import Sequences
from .rhythm import usual_pattern

__all__ = ["TransferKind", "WrongTransfer", "near_misses", "wrong_transfers"]

#: `peer`, `tag`: to or from another rank, or with another tag, than is due.
TransferKind = Literal["skipped", "extra", "reordered", "peer", "tag"]
#: Operation, group, file and line.
_Place = tuple[str, str, str, int]
_Waits = Mapping[int, CollectiveCall]


@dataclass(frozen=True, slots=True)
class WrongTransfer:
    """A send or receive that leaves another rank waiting.

    Args:
        words: What the rank calls: a sentence that follows `rank 1`.
    """

    rank: int
    kind: TransferKind
    words: str
    step: int
    file: str
    line: int


def wrong_transfers(
    words: Mapping[int, LastWord], waits: _Waits, calls: Mapping[str, Sequences]
) -> list[WrongTransfer]:
    """Return what ranks call otherwise than in their other steps, in the first step where that leaves one waiting."""
    found: dict[int, WrongTransfer] = {}
    for rank, call, peer in _unanswered(waits, calls):
        for who in (peer, rank):
            if who in words and (wrong := _unusual(words[who], call, is_peer=who == peer)):
                found.setdefault(who, wrong)
    first = min((wrong.step for wrong in found.values()), default=0)
    return [wrong for _, wrong in sorted(found.items()) if wrong.step == first]


def near_misses(waits: _Waits, calls: Mapping[str, Sequences]) -> list[WrongTransfer]:
    """Return both ends of a send and a receive that would meet but for their tags, else sends to the wrong rank."""
    unanswered = {rank: (call, peer) for rank, call, peer in _unanswered(waits, calls)}
    by_ends: dict[tuple[str, int, int], list[str]] = {}
    for group in calls:
        if (ends := transfer_of(group)) is not None:
            by_ends.setdefault((ends.group, ends.source, ends.target), []).append(group)
    found: dict[int, WrongTransfer] = {}
    for rank, (call, peer) in unanswered.items():
        if (theirs := _last_unmet(rank, peer, call, by_ends, calls)) is not None:
            found[rank] = _near_miss(rank, call, theirs)
            found.setdefault(peer, _near_miss(peer, theirs, call))
    if found:
        return [found[rank] for rank in sorted(found)]
    astray = {peer: call for rank, (call, peer) in unanswered.items() if _is_astray(rank, call, peer, unanswered)}
    return [_astray(rank, unanswered[rank][0], astray[rank]) for rank in sorted(astray)]


def _unanswered(waits: _Waits, calls: Mapping[str, Sequences]) -> Iterator[tuple[int, CollectiveCall, int]]:
    """Yield each rank that waits in a send or receive whose other end has not come, the call, and the other end."""
    for rank, call in waits.items():
        ends = transfer_of(call.group)
        if ends is None or ends.source < 0:
            continue
        peer = ends.target if is_send(call.operation) else ends.source
        if max(calls.get(call.group, {}).get(peer, ()), default=-1) < call.number:
            yield rank, call, peer


def _unusual(word: LastWord, waited: CollectiveCall, *, is_peer: bool) -> WrongTransfer | None:
    """Return where the rank has left its usual order so that the other end of a call did not come.

    Args:
        waited: The call that a rank waits in.
        is_peer: Whether the rank is the one that is waited for; else it is the one that waits.
    """
    steps = _steps(word)
    usual = usual_pattern([tuple(map(_place, made)) for step, made in steps.items() if step < word.step])
    for step, made in steps.items() if usual else ():
        places = [_place(call) for call in made]
        at = next((at for at, (one, due) in enumerate(zip(places, usual, strict=False)) if one != due), len(places))
        if at >= len(usual) or (at == len(places) and step >= word.step):
            continue  # it does as usual, and may call the rest yet
        actual = made[at] if at < len(made) else None
        is_meant = usual[at][1] == waited.group if is_peer else actual == waited
        if is_meant:
            is_open = actual is not None and actual.is_open
            return _deviation(word, step, usual, places, at, is_open=is_open)
    return None


def _steps(word: LastWord) -> dict[int, list[CollectiveCall]]:
    """Return what was called in each step since the oldest that is whole."""
    oldest = min((call.step for call in word.calls), default=0) + 1
    made: dict[int, list[CollectiveCall]] = {}
    for call in word.calls:
        if call.step >= oldest:
            made.setdefault(call.step, []).append(call)
    return made


def _deviation(
    word: LastWord, step: int, usual: Sequence[_Place], places: Sequence[_Place], at: int, *, is_open: bool
) -> WrongTransfer:
    due = usual[at]
    actual = places[at] if at < len(places) else None
    in_step, always = f"in step {step}", "in every other step"
    if actual is None or (actual in usual[at:] and due not in places[at:]):
        words = f"has skipped {_at(due)} {in_step}, which it calls {always}"
        words += _or_too_early(due, actual) if is_open else ""
        return WrongTransfer(word.rank, "skipped", words, step, *due[2:])
    kind, ends = _changed(due, actual)
    if kind is not None and ends is not None:
        usually = f"with tag {ends.tag}" if kind == "tag" else ends.peer_words(sends=is_send(due[0]))
        words = f"calls {_at(actual)} {in_step}, not {usually} as {always}"
        return WrongTransfer(word.rank, kind, words, step, *actual[2:])
    if actual in usual[at:]:
        words = f"calls {_at(actual)} before {_at(due)} {in_step}, and after it {always}"
        return WrongTransfer(word.rank, "reordered", words, step, *actual[2:])
    words = f"calls {_at(actual)} {in_step}, which it calls in no other step, where {_at(due)} is due"
    return WrongTransfer(word.rank, "extra", words, step, *actual[2:])


def _or_too_early(due: _Place, actual: _Place | None) -> str:
    """Return what else a send may be that is missing where the rank receives from the one that is to get it."""
    ours, usual = transfer_of("" if actual is None else actual[1]), transfer_of(due[1])
    is_answer = ours is not None and usual is not None and ours.source == usual.target and ours.target == usual.source
    return ", or each of the two ranks receives before it sends" if is_answer and is_send(due[0]) else ""


def _changed(due: _Place, actual: _Place) -> tuple[TransferKind | None, Transfer | None]:
    """Return whether a send or receive from one line has another peer or another tag, and the usual one."""
    ours, usual = transfer_of(actual[1]), transfer_of(due[1])
    is_one_kind = {due[0], actual[0]} <= TRANSFERS and is_send(due[0]) == is_send(actual[0])
    if ours is None or usual is None or not is_one_kind:
        return None, None
    return ("peer" if (ours.source, ours.target) != (usual.source, usual.target) else "tag"), usual


def _last_unmet(
    rank: int,
    peer: int,
    waited: CollectiveCall,
    by_ends: Mapping[tuple[str, int, int], Sequence[str]],
    calls: Mapping[str, Sequences],
) -> CollectiveCall | None:
    """Return the newest call of the peer with the same ends as this one, but another tag, that the rank has not met."""
    ends = transfer_of(waited.group)
    for group in by_ends.get((ends.group, ends.source, ends.target), ()) if ends is not None else ():
        own = calls[group].get(peer, {})
        if group != waited.group and own and max(calls[group].get(rank, ()), default=-1) < max(own):
            return own[max(own)]
    return None


def _is_astray(
    rank: int, waited: CollectiveCall, peer: int, unanswered: Mapping[int, tuple[CollectiveCall, int]]
) -> bool:
    """Return whether the peer that a rank receives from sends to a third one, which does not wait for it."""
    sent, third = unanswered.get(peer, (waited, rank))
    is_to_third = third != rank and is_send(sent.operation) and not is_send(waited.operation)
    return is_to_third and unanswered.get(third, (sent, -1))[1] != peer


def _near_miss(rank: int, ours: CollectiveCall, theirs: CollectiveCall) -> WrongTransfer:
    words = f"calls {_at(_place(ours))}, while the other end calls {_at(_place(theirs))}"
    return WrongTransfer(rank, "tag", words, ours.step, ours.file, ours.line)


def _astray(rank: int, sent: CollectiveCall, waited: CollectiveCall) -> WrongTransfer:
    words = f"calls {_at(_place(sent))}, which does not receive it, while another waits in {_at(_place(waited))}"
    return WrongTransfer(rank, "peer", words, sent.step, sent.file, sent.line)


def _place(call: CollectiveCall) -> _Place:
    return call.operation, call.group, call.file, call.line


def _at(where: _Place) -> str:
    """Return a call as people name it: `send to rank 1 at train.py:12`."""
    operation, group, file, line = where
    words = call_words(operation, group) if transfer_of(group) else operation
    return f"{words} at {place(file, line)}"
