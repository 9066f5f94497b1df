"""What every rank is doing, in one word: as a hang's report has it, else as its own last word does."""

from dataclasses import replace

import pytest
from mindscope.insight.hangs.activity import Observed
from mindscope.insight.hangs.analysis import analyse
from mindscope.insight.hangs.hang_report import HangReport
from mindscope.insight.hangs.rank_states import STATES, rank_states
from mindscope.storage.last_words import LastWord
from mindscope.storage.process import ProcessState

from .words import NOW, call, calls, main_thread, word

GOES_ON = replace(word(0, calls()), stalled_s=0.1)


def test_who_waits_and_who_is_missing_are_told_from_the_report() -> None:
    sleep = main_thread(("/home/me/train.py", 50, "step"), code="time.sleep(60)")
    words = {0: word(0, [*calls(), call(9)], 3), 1: word(1, calls(), 3, threads=sleep), 2: word(2, calls(), 3)}
    report = analyse(words, NOW, {2: Observed(ProcessState(is_alive=False))})
    assert report.culprits == (2,)
    found = rank_states(range(4), words, report, NOW, is_over=False)
    assert [found[rank].state for rank in range(4)] == ["waiting", "stalled", "dead", "unknown"]
    assert found[0].words == "waits in all_reduce of world at train.py:10 for 12 s"
    assert found[1].words == "sleeps at train.py:50: time.sleep(60)"


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (GOES_ON, "running"),
        (replace(GOES_ON, at=NOW - 9), "stalled"),
        (replace(GOES_ON, stalled_s=60.0), "stalled"),
        (replace(GOES_ON, phase="failed", error="KeyError: 'x'"), "dead"),
        (replace(GOES_ON, phase="finished"), "ended"),
        (replace(word(0, [*calls(), call(9)]), stalled_s=3.0), "waiting"),
        (replace(word(0, [*calls(), call(9)]), stalled_s=0.1), "running"),
    ],
    ids=["goes on", "silent", "without progress", "failed", "finished", "in a collective", "in one for a moment"],
)
def test_a_rank_that_nobody_waits_for_is_told_by_itself(last: LastWord, state: str) -> None:
    assert rank_states([0], {0: last}, HangReport(), NOW, is_over=False)[0].state == state
    assert state in STATES


def test_ranks_of_a_run_that_is_over_have_ended() -> None:
    assert rank_states([0, 1], {0: GOES_ON}, HangReport(), NOW, is_over=True)[0].state == "ended"
    assert rank_states([0, 1], {0: GOES_ON}, HangReport(), NOW, is_over=True)[1].state == "ended"
