"""A record that the training holds is shown once it is held for long, and again when something is added to it."""

from dataclasses import replace

import pytest
from mindscope.storage import Event, MemoryStore, QueueWriter, StepRecord
from mindscope.storage.writing.queue_writer import _POLL_S
from mindscope.storage.writing.record_queue import PREVIEW_AFTER_S, PreviewPolicy

from tests.storage.samples import finding, layout, walk


class Holding:
    """A training that holds what it is told to, and a clock."""

    def __init__(self) -> None:
        self.record: StepRecord | None = None
        self.now = 0.0
        self.pause = PreviewPolicy(lambda: self.record, clock=lambda: self.now)

    def look(self, after: float) -> StepRecord | None:
        self.now += after
        return self.pause.poll()


@pytest.fixture
def holding() -> Holding:
    return Holding()


def test_what_is_held_for_long_is_shown_once(holding: Holding):
    holding.record = StepRecord(3, 0.0, scalars={"loss": 1.0})
    assert holding.look(100.0) is None
    assert holding.look(PREVIEW_AFTER_S / 2) is None
    assert holding.look(PREVIEW_AFTER_S / 2) is holding.record
    assert holding.look(100.0) is None


def test_a_pause_is_told_well_within_a_second():
    assert PREVIEW_AFTER_S + 2 * _POLL_S < 0.5


def test_a_training_that_goes_on_is_never_shown(holding: Holding):
    for step in range(50):
        holding.record = StepRecord(step, 0.0, scalars={"loss": 1.0})
        assert holding.look(PREVIEW_AFTER_S / 2) is None
        holding.record = None
        assert holding.look(PREVIEW_AFTER_S) is None


@pytest.mark.parametrize(
    "more", [{"scalars": {"loss": 1.0, "accuracy": 0.5}}, {"events": (Event("exception", 3),)}], ids=["scalar", "event"]
)
def test_what_is_added_is_shown_as_well_when_it_has_stood_as_long(holding: Holding, more):
    holding.record = StepRecord(3, 0.0, scalars={"loss": 1.0})
    holding.look(0.0)
    assert holding.look(PREVIEW_AFTER_S) is not None
    holding.record = replace(holding.record, **more)
    assert holding.look(PREVIEW_AFTER_S) is None
    assert holding.look(PREVIEW_AFTER_S) is holding.record


def test_a_record_of_which_a_part_is_known_is_the_same_at_every_look():
    whole, now = walk(1, layout(3))[0], [0.0]
    pause = PreviewPolicy(lambda: replace(whole, blocks=()), clock=lambda: now[0])
    assert pause.poll() is None
    now[0] = PREVIEW_AFTER_S
    shown = pause.poll()
    assert shown is not None
    assert (shown.step, shown.blocks) == (whole.step, ())
    now[0] = 100.0
    assert pause.poll() is None


class Listening:
    def __init__(self) -> None:
        self.seen: list[StepRecord] = []

    def begin(self, run, structure) -> None:
        pass

    def observe(self, record: StepRecord):
        self.seen.append(record)
        return [finding(record.step)]

    def end(self):
        return []


def test_a_step_without_a_record_is_shown_once_while_it_is_the_newest():
    step, now = [7], [0.0]
    pause = PreviewPolicy(lambda: StepRecord(step[0], now[0]), clock=lambda: now[0])
    shown = []
    for look in range(20):
        now[0] += PREVIEW_AFTER_S / 2
        step[0] += look == 10
        record = pause.poll()
        shown += [] if record is None else [record.step]
    assert shown == [7, 8]


def test_listeners_see_a_record_when_it_is_put_and_never_before(eventually):
    store, listening = MemoryStore(), Listening()
    first, second = walk(2, layout(3))
    held: list[StepRecord | None] = [None]
    queue = QueueWriter(store.begin_run("held"), [listening], pending=lambda: held[0])
    queue.put(first)
    held[0] = second
    eventually(lambda: store.find_run("held").last_step == 1)
    assert [one.step for one in listening.seen] == [0]
    assert len(store.findings(queue.run.id)) == 1
    held[0] = None
    final = replace(second, scalars={"late": 2.0})
    queue.put(final)
    assert queue.close()
    assert [dict(one.scalars) for one in listening.seen] == [dict(first.scalars), {"late": 2.0}]
    assert [dict(one.scalars) for one in store.replay(queue.run.id)] == [dict(first.scalars), {"late": 2.0}]


def test_a_store_that_cannot_show_a_record_loses_nothing(eventually):
    class Unwilling:
        asked = 0

        def __init__(self, writer) -> None:
            self._writer = writer

        def __getattr__(self, name: str):
            return getattr(self._writer, name)

        def preview(self, record: StepRecord) -> None:
            self.asked += 1
            raise OSError("no room")

    store, (record,) = MemoryStore(), walk(1, layout(3))
    writer = Unwilling(store.begin_run("unwilling"))
    queue = QueueWriter(writer, pending=lambda: record)
    eventually(lambda: writer.asked == 1)
    queue.put(record)
    assert queue.close()
    assert (queue.lost, queue.fault) == (0, None)
    assert store.find_run("unwilling").last_step == 0
