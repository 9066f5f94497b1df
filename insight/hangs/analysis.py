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
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...storage.last_words import CollectiveCall, LastWord, longest_wait_s
from .activity import Activity, Observed, activity_of, place, user_frame
from .hang_report import ADVICE, HangReport, MissingRank, WaitingRank, group_words, several, stack_lines
from .order import Difference, Sequences, first_difference
from .rhythm import left_out

__all__ = ["analyse"]

#: Where all missing ranks work, a wait is too long after so many seconds (our choice; NCCL itself waits 600 s).
_WORKING_S: Final = 300.0
#: Activities that settle who is to blame, whatever is called.
_FACTS: Final = ("dead", "stopped", "exception", "finished", "paging", "silent")
#: Who is gone does not come: a wait for it is too long after so many seconds, by which others would have failed, too.
_GONE, _GONE_S = frozenset({"dead", "exception"}), 2.5
#: Frames in which the framework itself calls collectives that no wrapper sees.
_FRAMEWORK: Final = ("torch/autograd/graph.py", "torch/nn/parallel/distributed.py", "torch/distributed/")


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
        if len(running) == len(words) and not _crashes(words, notes):  # all were ended later, by whoever ended the job
            now, seen = max(word.at for word in words.values()), {}
    activities = {
        rank: activity_of(word, now, seen.get(rank, Observed()), notes.get(rank, "")) for rank, word in words.items()
    }
    activities = _ended_with_the_job(words, activities, notes)
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
        call, native = _waiting_call(word)
        if call is not None:
            waits[rank], is_native = call, is_native or native
    if is_native:  # the recorder and the wrappers count differently: all ranks are told from the recorder
        waits = {rank: _as_recorded(words[rank], call) for rank, call in waits.items()}
    members: dict[str, tuple[int, ...]] = {}
    calls: dict[str, dict[int, dict[int, CollectiveCall]]] = {}
    for rank, word in words.items():
        members.update(word.groups)
        for call in word.native if is_native else word.calls:
            calls.setdefault(call.group, {}).setdefault(rank, {})[call.number] = call
    for rank, call in waits.items():  # the recorder does not tell the line
        own = calls.get(call.group, {}).get(rank, {})
        if call.number in own and own[call.number].operation == call.operation:
            own[call.number] = replace(own[call.number], file=call.file, line=call.line)
    for rank, call in _ended_inside(words, activities, notes, waits).items():
        waits[rank] = call
        calls.setdefault(call.group, {}).setdefault(rank, {})[call.number] = call
    return _Scene(words, now, activities, waits, members, calls)


def _waiting_call(word: LastWord) -> tuple[CollectiveCall | None, bool]:
    """Return the call that the rank is in, or that has failed in it, and whether only the native recorder knows it."""
    if word.open_call is not None:
        return word.open_call, False
    if word.phase == "failed":
        return word.failed_call, bool(word.native) and word.failed_call not in (None, *word.calls[-1:])
    main = word.main_thread
    if not word.native:
        return None, False
    if any(call.state == "completed" for call in word.native):  # the recorder knows what has ended, as NCCL's does
        return next((call for call in word.native if call.state != "completed"), None), True
    is_inside = main is None or (bool(main.frames) and any(part in main.frames[0][0] for part in _FRAMEWORK))
    return (word.native[-1], True) if is_inside and word.processor < 0.5 else (None, False)


def _as_recorded(word: LastWord, call: CollectiveCall) -> CollectiveCall:
    """Return the entry of the native recorder for the call that the rank is in."""
    if not word.native or call in word.native:
        return call
    if call.state == "failed":
        last = word.native[-1]
        return replace(call, number=last.number) if last.operation == call.operation else call
    unfinished = [one for one in word.native if one.state != "completed"]
    knows_ends = len(unfinished) < len(word.native)
    entry = (unfinished[0] if knows_ends else word.native[-1]) if unfinished else word.native[-1]
    return replace(entry, file=call.file, line=call.line)


_NOTE: Final = re.compile(r"^(?P<signal>.+) at (?P<file>.+), line (?P<line>\d+)$")
#: Who ends a job sends this to all ranks that are left.
_ENDS_JOB: Final = "SIGTERM"


def _ended_with_the_job(
    words: Mapping[int, LastWord], activities: dict[int, Activity], notes: Mapping[int, str]
) -> dict[int, Activity]:
    """Return the activities, where a backend has ended one rank inside a collective and its launcher all others then.

    Those others are no cause; the line that they were at tells how far they had come.
    """
    if not _crashes(words, notes):
        return activities
    ended = {}
    for rank, (signal, file, line) in _places(words, notes).items():
        if signal == _ENDS_JOB and activities[rank].kind == "dead":
            said = f"was at {place(file, line)} when the job was ended ({_ENDS_JOB})"
            ended[rank] = Activity("ended", said, file=file, line=line)
    return {**activities, **ended}


def _places(words: Mapping[int, LastWord], notes: Mapping[int, str]) -> dict[int, tuple[str, str, int]]:
    """Return the signal that has ended each rank, and the line."""
    found = {rank: match for rank, note in notes.items() if rank in words and (match := _NOTE.search(note))}
    return {rank: (match["signal"], match["file"], int(match["line"])) for rank, match in found.items()}


def _crashes(words: Mapping[int, LastWord], notes: Mapping[int, str]) -> bool:
    """Return whether a signal that nobody sent has ended a rank inside a collective."""
    return any(
        signal != _ENDS_JOB and (file, line) in {(site.file, site.line) for site in words[rank].sites}
        for rank, (signal, file, line) in _places(words, notes).items()
    )


def _ended_inside(
    words: Mapping[int, LastWord],
    activities: Mapping[int, Activity],
    notes: Mapping[int, str],
    waits: Mapping[int, CollectiveCall],
) -> dict[int, CollectiveCall]:
    """Return the calls that have ended their process by a signal: those of the others, from the line of the note.

    The last word of such a rank is half a second old. What it said last of this line tells the operation and its
    tensors; the number is that of the call which has failed in the others. Where all were ended, it is the one that
    comes after all that were told.
    """
    found = {}
    newest = max((call.number for word in words.values() for call in word.calls), default=0) + 1
    for rank, (_, file, line) in _places(words, notes).items():
        if activities[rank].kind not in ("dead", "ended"):
            continue
        sites = [site for site in words[rank].sites if (site.file, site.line) == (file, line)]
        partners = [call for call in waits.values() if any(call.group == site.group for site in sites)]
        if not sites or not (partners or "ended" in {activity.kind for activity in activities.values()}):
            continue
        known = [call for call in words[rank].calls if (call.file, call.line) == (file, line)]
        call = known[-1] if known else CollectiveCall(0, sites[0].operation, sites[0].group, "failed", (), "")
        at_end = replace(call, number=newest, began_at=words[rank].at, ended_at=words[rank].at)
        ended = replace(
            max(partners, key=lambda call: call.number, default=at_end),
            file=file,
            line=line,
            operation=call.operation,
            state="failed",
        )
        found[rank] = replace(ended, sizes=call.sizes, dtype=call.dtype, detail=call.detail)
    return found


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
    groups = {call.group for call in scene.waits.values()}
    concerned = {*scene.waits, *(rank for name in groups for rank in scene.members.get(name, tuple(scene.words)))}
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
    return _absent(scene)


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
    steps = steps if call.step != difference.expected.step else ""
    return tuple(
        MissingRank(rank, difference.kind, f"{difference.words}{steps}{doubt}", call.file, call.line)
        for rank in difference.ranks
    )


def _absent(scene: _Scene) -> tuple[tuple[MissingRank, ...], str]:
    """Return the ranks that have not reached the calls that others wait in, at the end of every chain."""
    waited_for = {rank: _not_there(scene, call) for rank, call in scene.waits.items()}
    ends = sorted({one for missing in waited_for.values() for one in missing if not waited_for.get(one)})
    if ends:
        found = tuple(_missing(scene, rank) for rank in ends)
        idle = [one for one in found if not one.is_busy] or list(found)
        return found, idle[0].kind
    circle = sorted(rank for rank, missing in waited_for.items() if missing)
    if circle:
        new = [rank for rank in circle if _is_new(scene, rank)]
        found = tuple(_missing(scene, rank) for rank in new or circle)
        return tuple(replace(one, kind="deadlock") for one in found), "deadlock"
    ended = sorted(rank for rank in scene.waits if scene.activities[rank].kind == "dead")
    words = "was ended inside it, as gloo does when the sizes of tensors differ; the others call what they always call"
    return tuple(MissingRank(rank, "shape", words) for rank in ended), "shape" if ended else "backend"


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
    members = scene.members.get(call.group, tuple(scene.words))
    return [rank for rank in members if max(sequences.get(rank, {-1: None}), default=-1) < call.number]


def _missing(scene: _Scene, rank: int) -> MissingRank:
    activity = scene.activities[rank]
    return MissingRank(rank, activity.kind, activity.words, activity.file, activity.line, activity.is_busy)


def _waiting(scene: _Scene, rank: int) -> WaitingRank:
    call = scene.waits[rank]
    end = call.ended_at if call.state == "failed" else scene.now
    began = call.began_at or scene.now - scene.words[rank].stalled_s
    line = (call.file, call.line) if call.file else user_frame(scene.words[rank].main_thread)
    fields = (call.operation, _named(scene, call.group), call.number, call.sizes, call.dtype, *line)
    return WaitingRank(rank, *fields, waited_s=max(0.0, end - began))


def _stacks(scene: _Scene) -> dict[int, tuple[str, ...]]:
    found = {rank: word.main_thread for rank, word in scene.words.items()}
    return {rank: stack_lines(stack.frames) for rank, stack in found.items() if stack is not None}


def _in_words(scene: _Scene, report: HangReport) -> str:
    parts = []
    calls: dict[tuple[bool, str, str, str], list[WaitingRank]] = {}
    for one in report.waiting:
        has_failed = scene.waits[one.rank].state == "failed"
        where = f" at {place(one.file, one.line)}" if one.file else ""
        calls.setdefault((has_failed, one.operation, one.group, where), []).append(one)
    for (has_failed, operation, group, where), ranks in list(calls.items())[:3]:
        verb = ("wait in" if len(ranks) > 1 else "waits in") if not has_failed else "failed in"
        longest = max(one.waited_s for one in ranks)
        parts.append(f"{several([one.rank for one in ranks])} {verb} {operation} of {group}{where} ({longest:.0f} s)")
    if not report.missing:
        return f"{'; '.join(parts)}; no rank is missing"
    by_words: dict[str, list[int]] = {}
    for missing in report.missing:
        by_words.setdefault(missing.words, []).append(missing.rank)
    causes = [
        f"{several(ranks)}{': each' if len(ranks) > 1 else ''} {words}" for words, ranks in list(by_words.items())[:4]
    ]
    return f"{'; '.join(causes)}. {'; '.join(parts)}"
