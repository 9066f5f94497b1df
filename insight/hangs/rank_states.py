"""What every rank of a run is doing, in one word and in a sentence, from its last word and the report of its hang."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ...storage.last_words import LastWord, longest_wait_s
from .activity import SILENT_S, Observed, activity_of, place
from .hang_report import HangReport, call_words

__all__ = ["STATES", "RankState", "State", "rank_states"]

#: The worst last. `unknown`: the rank has left no word.
State = Literal["unknown", "ended", "running", "waiting", "stalled", "dead"]
STATES: Final[tuple[State, ...]] = get_args(State)
#: From so many seconds on a rank in a collective counts as waiting (our choice: a heartbeat calls it a stall then).
_WAITS_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class RankState:
    """What a rank is doing.

    Args:
        words: In a sentence that follows `rank 1`; empty where nothing is known.
    """

    state: State
    words: str = ""


def rank_states(
    ranks: Iterable[int], words: Mapping[int, LastWord], report: HangReport, now: float, *, is_over: bool
) -> dict[int, RankState]:
    """Return what each rank is doing.

    Args:
        words: The last words by rank.
        report: Of the hang, if there is one.
        now: In seconds since 1970.
        is_over: Whether the run has ended.
    """
    found = {}
    waiting = {one.rank: one for one in report.waiting}
    missing = {one.rank: one for one in report.missing}
    for rank in ranks:
        if (absent := missing.get(rank)) is not None:
            found[rank] = RankState("dead" if absent.kind in ("dead", "exception") else "stalled", absent.words)
        elif (one := waiting.get(rank)) is not None:
            where = f"{call_words(one.operation, one.group)} at {place(one.file, one.line)}"
            found[rank] = RankState("waiting", f"waits in {where} for {one.waited_s:.0f} s")
        else:
            found[rank] = _by_itself(words.get(rank), now, is_over=is_over)
    return found


def _by_itself(word: LastWord | None, now: float, *, is_over: bool) -> RankState:
    """Return what a rank is doing that nobody waits for."""
    if word is None:
        return RankState("ended" if is_over else "unknown")
    if word.phase == "failed":
        return RankState("dead", f"failed in step {word.step}: {word.error}")
    if word.phase == "finished" or is_over:
        return RankState("ended", f"ended in step {word.step}")
    if now - word.at > SILENT_S or word.stalled_s > longest_wait_s(word.step_s):
        return RankState("stalled", activity_of(word, now, Observed()).words)
    if word.open_call is not None and word.stalled_s >= _WAITS_S:
        return RankState("waiting", activity_of(word, now, Observed()).words)
    return RankState("running", f"is in step {word.step}")
