"""From the last words of all ranks to a report: a pure function, for live words, stored ones and dumps of others.

1. Who waits: ranks that are inside a collective, or that a collective has failed in, be it with an exception or, as
   gloo does when sizes differ, by ending the process.
2. Who has called less in a step than in every other step (`rhythm.py`): a call that was left out is the cause, whatever
   came of it later.
3. The calls with one number must agree (`order.py`): where tensors or operations differ, that is the cause.
4. Facts: a rank that is dead, stopped, failed, finished, paging or silent is the culprit.
5. Then calls that only seem to agree, from lines that do not belong together.
6. Then who has not come: ranks that have not reached the call with this number, and what they do instead; those that
   themselves wait for a third are followed to the end of the chain, or to a circle.
7. Sends and receives have two ends alone (`transfers.py`): where one has not come, the rank that left its usual order
   is the culprit, unless whoever has not come works.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from ...storage.code_places import is_library
from ...storage.last_words import CollectiveCall, LastWord, longest_wait_s
from ...storage.transfers import transfer_of
from .activity import Activity, Observed, activity_of, place, user_frame
from .ended_inside import ended_inside, ended_with_the_job, has_crashed
from .hang_report import ADVICE, HangReport, MissingRank, WaitingRank, call_words, group_words, several, stack_lines
from .order import BY_TORCH, Difference, DifferenceKind, Sequences, first_difference
from .recorder_calls import as_recorded, entries, waiting_call
from .rhythm import left_out
from .skipped_step import skipped_step
from .transfers import WrongTransfer, near_misses, wrong_transfers

__all__ = ["analyse"]

#: Where all missing ranks work, a wait is too long after so many seconds (our choice; NCCL itself waits 600 s).
_WORKING_S: Final = 300.0
#: Activities that settle who is to blame, whatever is called.
_FACTS: Final = ("dead", "stopped", "exception", "finished", "paging", "silent")
#: Who is gone does not come: a wait for it is too long after so many seconds, by which others would have failed, too.
_GONE, _GONE_S = frozenset({"dead", "exception"}), 2.5
#: What a rank does, or how its call differs, where a step that it has left out may have led to it.
_PAIRED: Final = frozenset({"finished", "collective", "deadlock", "backend", *get_args(DifferenceKind)})


@dataclass(frozen=True, slots=True)
class _Scene:
    """What all ranks say, brought to one form.

    Args:
        waits: The call that each waiting rank is in.
        calls: Of each group, the calls of each rank by number.
    """

    words: Mapping[int, LastWord]
    now: float
    activities: Mapping[int, Activity]
    waits: Mapping[int, CollectiveCall]
    members: Mapping[str, tuple[int, ...]]
    calls: Mapping[str, Sequences]


def analyse(
    words: Mapping[int, LastWord],
    now: float,
    observed: Mapping[int, Observed] | None = None,
    end_notes: Mapping[int, str] | None = None,
) -> HangReport:
    """Return who waits for whom, and why.

    Args:
        words: The last words by rank.
        now: By the clock of the words.
        observed: What can be seen of the ranks' processes.
        end_notes: What fatal signals have left.
    """
    seen, notes = observed or {}, end_notes or {}
    if words and all((state := seen.get(rank)) and state.process and state.process.is_alive is False for rank in words):
        running = [word for word in words.values() if word.phase == "training"]
        if len(running) == len(words) and not has_crashed(words, notes):
            # all were ended later, by whoever ended the job
            now, seen = max(word.at for word in words.values()), {}
    activities = {
        rank: activity_of(word, now, seen.get(rank, Observed()), notes.get(rank, "")) for rank, word in words.items()
    }
    activities = ended_with_the_job(words, activities, notes)
    scene = _scene(words, now, activities, notes)
    if not scene.waits:
        return _nobody_waits(scene)
    return _explained(scene)


def _scene(
    words: Mapping[int, LastWord], now: float, activities: Mapping[int, Activity], notes: Mapping[int, str]
) -> _Scene:
    waits: dict[int, CollectiveCall] = {}
    is_native = False
    for rank, word in words.items():
        if activities[rank].kind in ("dead", "ended", "finished", "stopped", "silent", "paging"):
            continue  # its word is old
        call, native = waiting_call(word)
        if call is not None:
            waits[rank], is_native = call, is_native or native
    if is_native:  # the recorder and the wrappers count differently: all ranks are told from the recorder
        waits = {
            rank: call if transfer_of(call.group) else as_recorded(words[rank], call) for rank, call in waits.items()
        }
    members: dict[str, tuple[int, ...]] = {}
    calls: dict[str, dict[int, dict[int, CollectiveCall]]] = {}
    for rank, word in words.items():
        members.update(word.groups)
        for call in _told(word) if is_native else word.calls:
            calls.setdefault(call.group, {}).setdefault(rank, {})[call.number] = call
    for rank, call in waits.items():  # the recorder does not tell the line
        own = calls.get(call.group, {}).get(rank, {})
        if call.file and call.number in own and own[call.number].operation == call.operation:
            own[call.number] = replace(own[call.number], file=call.file, line=call.line)
    for rank, call in ended_inside(words, activities, notes, waits).items():
        waits[rank] = call
        calls.setdefault(call.group, {}).setdefault(rank, {})[call.number] = call
    return _Scene(words, now, activities, waits, members, calls)


def _told(word: LastWord) -> list[CollectiveCall]:
    """Return the calls as the native recorder counts them, and the sends and receives, of which it does not tell."""
    return [*entries(word), *(call for call in word.calls if transfer_of(call.group))]


def _nobody_waits(scene: _Scene) -> HangReport:
    stalled = [rank for rank, word in scene.words.items() if word.phase == "training" and _is_stalled(scene, rank)]
    if not stalled:
        return HangReport(step=max((word.step for word in scene.words.values()), default=0))
    missing = tuple(_missing(scene, rank) for rank in stalled)
    sentences = [f"rank {one.rank} {one.words}" for one in missing[:4]]
    return HangReport(
        "slow",
        f"no rank waits in a collective; {'; '.join(sentences)}",
        step=max(scene.words[rank].step for rank in stalled),
        missing=missing,
        stacks=_stacks(scene),
    )


def _is_stalled(scene: _Scene, rank: int) -> bool:
    word = scene.words[rank]
    is_gone = scene.activities[rank].kind in ("dead", "stopped", "paging", "silent")
    return is_gone or word.stalled_s > longest_wait_s(word.step_s)


def _explained(scene: _Scene) -> HangReport:
    first = min(scene.waits, key=lambda rank: (scene.waits[rank].began_at, rank))
    missing, kind = _culprits(scene)
    waiting = tuple(_waiting(scene, rank) for rank in sorted(scene.waits))
    waited_s = max(one.waited_s for one in waiting)
    culprits = tuple(one.rank for one in missing if one.kind == kind)
    is_failed = any(call.state == "failed" for call in scene.waits.values())
    is_long = any(one.waited_s > longest_wait_s(scene.words[one.rank].step_s) for one in waiting)
    is_long = is_long or (kind in _GONE and waited_s > _GONE_S)
    works = bool(missing) and all(one.is_busy for one in missing) and waited_s < _WORKING_S
    report = HangReport(
        state="failed" if is_failed else "hang" if is_long and not works else "slow" if is_long or missing else "none",
        kind=kind,
        culprits=culprits,
        step=scene.waits[first].step or scene.words[first].step,
        waited_s=waited_s,
        waiting=waiting,
        missing=missing,
        advice=ADVICE.get(kind, ""),
        stacks=_stacks(scene),
    )
    return replace(report, words=_in_words(scene, report))


def _culprits(scene: _Scene) -> tuple[tuple[MissingRank, ...], str]:
    """Return who is to be looked at, and the kind of those that are to blame."""
    missing, kind = _first_culprits(scene)
    skipped = skipped_step(scene.words) if kind in _PAIRED else None
    named = {one.rank: one for one in missing}
    if skipped is None or (kind == "finished" and skipped.rank not in named):
        return missing, kind
    now = named.get(skipped.rank) or _missing(scene, skipped.rank)
    return (replace(now, kind="skipped", words=f"{skipped.words}; it {now.words}"),), "skipped"


def _first_culprits(scene: _Scene) -> tuple[tuple[MissingRank, ...], str]:
    """Return who is to be looked at by the calls and by what the ranks do."""
    groups = {call.group for call in scene.waits.values()}
    concerned = {*scene.waits, *(rank for name in groups for rank in _members(scene, name))}
    if (skipped := left_out(scene.words, groups)) is not None:
        _, file, line = skipped.missing
        words = replace(skipped, group=_named(scene, skipped.group)).words
        return (MissingRank(skipped.rank, "skipped", words, file, line),), "skipped"
    if (hard := _first_difference(scene, is_hard=True)) is not None:
        return _differing(scene, hard), hard.kind
    facts = [
        _ended_early(scene, _missing(scene, rank))
        for kind in _FACTS
        for rank in sorted(concerned)
        if rank in scene.words and _is_fact(scene, rank, kind)
    ]
    if facts:  # the most certain first; one that was killed does not hide another that is stopped
        return tuple(facts), facts[0].kind
    unsaid = sorted(rank for rank in concerned if rank not in scene.words)
    if unsaid:
        words = "has not said a word: it has not begun to record, or it cannot reach the store"
        return tuple(MissingRank(rank, "silent", words) for rank in unsaid), "silent"
    if (soft := _first_difference(scene, is_hard=False)) is not None:
        return _differing(scene, soft), soft.kind
    return _not_come(scene)


def _first_difference(scene: _Scene, *, is_hard: bool) -> Difference | None:
    """Return the first difference in a group that somebody waits in."""
    for name in sorted({call.group for call in scene.waits.values()}):
        sequences = scene.calls.get(name, {})
        if len(sequences) > 1 and (found := first_difference(_named(scene, name), sequences, is_hard=is_hard)):
            return found
    return None


def _named(scene: _Scene, group: str) -> str:
    return group_words(group, scene.members.get(group, ()))


def _is_fact(scene: _Scene, rank: int, kind: str) -> bool:
    """Return whether this is what the rank does; one that failed in a collective is only a victim."""
    if scene.activities[rank].kind != kind:
        return False
    return kind not in ("exception", "dead") or rank not in scene.waits


def _ended_early(scene: _Scene, missing: MissingRank) -> MissingRank:
    """Return the rank with what it has left out, where it has ended with more steps than those that wait for it."""
    step = scene.words[missing.rank].step
    waiting = min(scene.words[rank].step for rank in scene.waits)
    if missing.kind != "finished" or step <= waiting:
        return missing
    words = f"has ended its training after {step} steps and calls no further collective, while others wait in their "
    return replace(missing, kind="skipped", words=f"{words}step {waiting}: it has skipped a collective before")


def _differing(scene: _Scene, difference: Difference) -> tuple[MissingRank, ...]:
    call = difference.actual
    doubt = "" if difference.is_decided else "; which of the ranks is wrong cannot be told"
    steps = f"; it is in step {call.step}, the others in {difference.expected.step}"
    steps = steps if call.step != difference.expected.step and call.step and difference.expected.step else ""
    words = f"{difference.words}{steps}{doubt}"
    return tuple(MissingRank(rank, difference.kind, words, *_line_of(scene, rank, call)) for rank in difference.ranks)


def _line_of(scene: _Scene, rank: int, call: CollectiveCall) -> tuple[str, int]:
    """Return the user's line of a call: of one of torch's own, where the rank is now."""
    return (call.file, call.line) if call.file != BY_TORCH else user_frame(scene.words[rank].main_thread)


def _not_come(scene: _Scene) -> tuple[tuple[MissingRank, ...], str]:
    """Return who has not come to the calls that others wait in, or whose send or receive is wrong."""
    absent, kind = _absent(scene)
    if absent and all(one.is_busy for one in absent):
        return absent, kind
    wrong = wrong_transfers(scene.words, scene.waits, scene.calls)
    if not wrong and kind == "deadlock":
        wrong = near_misses(scene.waits, scene.calls)
    return (tuple(_wrong(scene, one) for one in wrong), wrong[0].kind) if wrong else (absent, kind)


def _wrong(scene: _Scene, wrong: WrongTransfer) -> MissingRank:
    """Return the rank with what it does now, where that is another call than the one that is wrong."""
    now = scene.activities[wrong.rank]
    there = f"; it {now.words}" if (now.file, now.line) != (wrong.file, wrong.line) else ""
    return MissingRank(wrong.rank, wrong.kind, f"{wrong.words}{there}", wrong.file, wrong.line)


def _members(scene: _Scene, group: str) -> tuple[int, ...]:
    """Return the ranks that take part in calls of this name."""
    transfer = transfer_of(group)
    if transfer is not None and transfer.source >= 0:
        return transfer.ends
    return scene.members.get(group if transfer is None else transfer.group, tuple(scene.words))


def _absent(scene: _Scene) -> tuple[tuple[MissingRank, ...], str]:
    """Return the ranks that have not reached the calls that others wait in, at the end of every chain."""
    waited_for = {rank: _not_there(scene, call) for rank, call in scene.waits.items()}
    ends = sorted({one for missing in waited_for.values() for one in missing if not waited_for.get(one)})
    ended = sorted(rank for rank in scene.waits if scene.activities[rank].kind == "dead")
    if ended and all(_is_unplaced(scene, one) for one in ends):
        return _ended_by_backend(scene, ended)
    if ends:
        found = tuple(_missing(scene, rank) for rank in ends)
        idle = [one for one in found if not one.is_busy] or list(found)
        return found, idle[0].kind
    circle = sorted(rank for rank, missing in waited_for.items() if missing)
    if circle:
        new = [rank for rank in circle if _is_new(scene, rank)]
        found = tuple(_missing(scene, rank) for rank in new or circle)
        return tuple(replace(one, kind="deadlock") for one in found), "deadlock"
    return (), "backend"


def _is_unplaced(scene: _Scene, rank: int) -> bool:
    """Return whether the rank was ended with the job where no line of the user's tells what it did."""
    activity = scene.activities.get(rank)
    return activity is not None and activity.kind == "ended" and is_library(activity.file)


def _ended_by_backend(scene: _Scene, ended: Sequence[int]) -> tuple[tuple[MissingRank, ...], str]:
    """Return the ranks that a backend has ended in a call that nobody else is known to differ in."""
    others = [scene.waits[rank] for rank in scene.waits if rank not in ended]
    rest = "the others call what they always call" if others else "what the others called then is not known"
    found = []
    for rank in ended:
        call = scene.waits[rank]
        words = f"was ended inside {call.operation} at {place(call.file, call.line)}, as gloo does when the sizes of"
        found.append(MissingRank(rank, "shape", f"{words} tensors differ; {rest}", call.file, call.line))
    return tuple(found), "shape"


def _is_new(scene: _Scene, rank: int) -> bool:
    """Return whether the rank waits in a call from a line that it calls for the first time."""
    call = scene.waits[rank]
    here = (call.operation, call.group, call.file, call.line)
    uses = [
        site.calls for site in scene.words[rank].sites if (site.operation, site.group, site.file, site.line) == here
    ]
    return uses == [1]


def _not_there(scene: _Scene, call: CollectiveCall) -> list[int]:
    """Return the ranks of the group that have not begun the call of this number."""
    sequences = scene.calls.get(call.group, {})
    return [
        rank for rank in _members(scene, call.group) if max(sequences.get(rank, {-1: None}), default=-1) < call.number
    ]


def _missing(scene: _Scene, rank: int) -> MissingRank:
    activity = scene.activities[rank]
    return MissingRank(rank, activity.kind, activity.words, activity.file, activity.line, activity.is_busy)


def _waiting(scene: _Scene, rank: int) -> WaitingRank:
    call = scene.waits[rank]
    end = call.ended_at if call.state == "failed" else scene.now
    began = call.began_at or scene.now - scene.words[rank].stalled_s
    line = _line_of(scene, rank, call) if call.file else user_frame(scene.words[rank].main_thread)
    fields = (call.operation, _named(scene, call.group), call.number, call.sizes, call.dtype, *line)
    return WaitingRank(rank, *fields, waited_s=max(0.0, end - began))


def _stacks(scene: _Scene) -> dict[int, tuple[str, ...]]:
    found = {rank: word.main_thread for rank, word in scene.words.items()}
    return {rank: stack_lines(stack.frames) for rank, stack in found.items() if stack is not None}


def _in_words(scene: _Scene, report: HangReport) -> str:
    parts = []
    calls: dict[tuple[bool, int, str, str, str], list[WaitingRank]] = {}
    for one in report.waiting:
        has_failed = scene.waits[one.rank].state == "failed"
        where = f" at {place(one.file, one.line)}" if one.file else ""
        is_old = scene.activities[one.rank].kind in ("dead", "ended")  # the word of a rank that was ended is of before
        step = -1 if is_old else scene.words[one.rank].step
        calls.setdefault((has_failed, step, one.operation, one.group, where), []).append(one)
    for (has_failed, step, operation, group, where), ranks in list(calls.items())[:3]:
        verb = ("wait in" if len(ranks) > 1 else "waits in") if not has_failed else "failed in"
        longest = max(one.waited_s for one in ranks)
        who = several([one.rank for one in ranks])
        step_words = f"in step {step}, " if step >= 0 else ""
        parts.append(f"{step_words}{who} {verb} {call_words(operation, group)}{where} ({longest:.0f} s)")
    waits = "; ".join(parts)
    waits = f"In{waits.removeprefix('in')}" if waits.startswith("in step ") else waits
    if not report.missing:
        return f"{waits}; no rank is missing"
    by_words: dict[str, list[int]] = {}
    for missing in report.missing:
        by_words.setdefault(missing.words, []).append(missing.rank)
    causes = [
        f"{several(ranks)}{': each' if len(ranks) > 1 else ''} {words}" for words, ranks in list(by_words.items())[:4]
    ]
    return f"{'; '.join(causes)}. {waits}"
