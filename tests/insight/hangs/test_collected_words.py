"""Hangs that the collector of a stream tells from the last words that it stores."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mindscope.insight.hangs.collected_words import CollectedWords
from mindscope.insight.hangs.observation import hang_of_run
from mindscope.storage import Store, open_store
from mindscope.storage.last_words import LastWord

from .words import NOW, call, calls, main_thread, word

SLEEP = main_thread(("/home/me/train.py", 50, "step"), code="time.sleep(60)", system_call="clock_nanosleep")
WAITS, SLEEPS = word(0, [*calls(), call(9)]), word(1, calls(), threads=SLEEP)


class Clock:
    """Seconds that pass with each look."""

    now = 0.0

    def __call__(self) -> float:
        Clock.now += 3.0
        return Clock.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as opened:
        for rank in range(2):
            opened.begin_run("run", rank=rank, run_id="run").close("finished")
        yield opened


def hear(collected: CollectedWords, *words: LastWord) -> None:
    for one in words:
        collected.take("run", one.rank, one.encode())


def hangs(store: Store) -> list[tuple[str, int]]:
    return [(finding.severity, finding.rank) for finding in store.findings("run") if finding.rule == "hang"]


def test_a_hang_is_told_once_two_looks_agree_and_withdrawn_when_the_rank_goes_on(store: Store) -> None:
    collected = CollectedWords(store, Clock())
    hear(collected, SLEEPS, WAITS)
    assert hangs(store) == []
    hear(collected, WAITS, SLEEPS, WAITS, WAITS)
    assert hangs(store) == [("error", 1)]
    report, words = hang_of_run(store, "run", now=NOW)
    assert (report.culprits, report.kind, set(words)) == ((1,), "sleep", {0, 1})
    hear(collected, replace(WAITS, stalled_s=0.1, calls=tuple(calls())))
    assert hangs(store) == [("info", 1)]


def test_words_of_a_collector_that_is_behind_are_judged_as_of_the_newest(store: Store) -> None:
    waits = word(0, [*calls(), call(9, began_at=NOW - 912)], at=NOW - 900)
    old = waits, replace(SLEEPS, at=NOW - 900)
    collected = CollectedWords(store, Clock())
    hear(collected, *old, *old, *old, *old)
    assert [rank for _, rank in hangs(store)] == [1]


def test_ranks_that_go_on_are_not_looked_at(store: Store) -> None:
    collected = CollectedWords(store, Clock())
    going = [word(rank, calls(), stalled_s=0.2) for rank in range(2)]
    hear(collected, *going, *going, *going)
    assert hangs(store) == []
