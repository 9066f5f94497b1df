"""What is new since the browser last asked."""

import math
from dataclasses import replace

import pytest
from mindscope.dashboard.pages.live_run.live_run_page import Cursor, cursor_now, from_json, poll, to_json
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import StepRecord, open_store

from .recorded import findings


class Writing:
    """A run that is being written, and the reader of its page."""

    def __init__(self, store):
        self.writer = store.begin_run("live")
        self.run = self.writer.run.id
        self.reader = Reader(store)
        self.next = 0

    def write(self, *losses, findings=()):
        records = [StepRecord(self.next + index, 0.0, scalars={"loss": loss}) for index, loss in enumerate(losses)]
        self.next += len(losses)
        self.writer.write(records, findings)

    def seen(self):
        return cursor_now(self.reader, self.reader.find(self.run))

    def poll(self, seen, *, log=False, state="running"):
        run = replace(self.reader.find(self.run), state=state)
        return poll(self.reader, run, "loss", seen, log=log)


@pytest.fixture
def writing():
    with open_store("memory:") as store:
        yield Writing(store)


def test_nothing_new_is_nothing(writing):
    writing.write(3.0)
    assert writing.poll(writing.seen()) is None


def test_a_run_whose_process_is_gone_is_news_although_nothing_was_written(writing):
    writing.write(3.0)
    news = writing.poll(writing.seen(), state="crashed")
    assert (news.cursor.state, news.is_slow_due) == ("crashed", True)
    assert writing.poll(news.cursor, state="crashed") is None


def test_new_points_are_appended_and_none_twice(writing):
    writing.write(3.0, 2.0)
    seen = writing.seen()
    writing.write(1.0, 0.5)
    news = writing.poll(seen)
    assert news.tail.x == (2, 3)
    assert not news.redraw
    writing.write(0.25)
    assert writing.poll(news.cursor).tail.x == (4,)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_needs_a_mark_has_the_curve_drawn_anew(writing, value):
    seen = writing.seen()
    writing.write(1.0, value)
    news = writing.poll(seen)
    assert news.redraw
    assert news.tail is None


def test_what_is_off_a_log_axis_has_the_curve_drawn_anew(writing):
    seen = writing.seen()
    writing.write(1.0, -1.0)
    assert not writing.poll(seen).redraw
    assert writing.poll(seen, log=True).redraw


def test_a_new_finding_has_the_curve_drawn_anew(writing):
    writing.write(1.0)
    seen = writing.seen()
    writing.write(0.9, findings=findings()[:1])
    assert writing.poll(seen).redraw


def test_a_curve_of_many_appended_points_is_thinned(writing):
    seen = Cursor(appended=1490)
    writing.write(*[1.0] * 20)
    news = writing.poll(seen)
    assert news.redraw
    assert news.cursor.appended == 0


def test_slow_pictures_are_due_every_third_time_and_at_the_end(writing):
    seen, due = writing.seen(), []
    for _ in range(6):
        writing.write(1.0)
        news = writing.poll(seen)
        seen = news.cursor
        due.append(news.is_slow_due)
    assert due == [True, False, False, True, False, False]
    writing.write(1.0)
    assert writing.poll(seen, state="finished").is_slow_due


def test_a_cursor_survives_the_browser_and_nonsense_makes_a_fresh_one():
    cursor = Cursor("v", "running", 3, 1, 2, 4)
    assert from_json(to_json(cursor)) == cursor
    for nonsense in (None, [], {}, {"version": 1}, {**to_json(cursor), "step": "x"}):
        assert from_json(nonsense) == Cursor()
