"""Waiting items are taken in batches by the clock; of records without content only the newest is taken."""

import numpy as np
import pytest
from mindscope.storage import Block, Layout, StepRecord
from mindscope.storage.run_info import Structure
from mindscope.storage.writing.record_queue import BATCH_WAIT_S, BatchingPolicy, RecordQueue, without_quiet

BLOCK = Block(Layout("weight", ("a",), ("norm",), ("float32",)), np.ones((1, 1)))


def steps_of(items: list[StepRecord]) -> list[int]:
    return [item.step for item in without_quiet(items) if isinstance(item, StepRecord)]


def queue_of(capacity: int = 64) -> RecordQueue:
    return RecordQueue(capacity, lambda: False)


def test_of_steps_without_anything_only_the_newest_is_taken():
    assert steps_of([StepRecord(step, 0.0) for step in range(20)]) == [19]


def test_a_step_that_recorded_something_takes_the_place_of_empty_ones():
    records = [StepRecord(step, 0.0, blocks=(BLOCK,) if step % 10 == 0 else ()) for step in range(25)]
    assert steps_of(records) == [0, 10, 20, 24]


def test_a_skipped_step_and_a_scalar_are_something():
    records = [StepRecord(0, 0.0, skipped=True), StepRecord(1, 0.0, scalars={"loss": 1.0}), StepRecord(2, 0.0)]
    assert steps_of(records) == [0, 1, 2]


def test_structures_stay_where_they_are():
    first, second = Structure(), Structure()
    quiet, full = StepRecord(0, 0.0), StepRecord(1, 0.0, blocks=(BLOCK,))
    assert without_quiet([first, quiet, full, second]) == [first, full, second]
    assert without_quiet([quiet, first]) == [quiet, first]


@pytest.mark.parametrize("capacity", [1, 2, 8, 64])
def test_half_of_the_capacity_wakes_the_writer_and_no_less(capacity: int):
    queue = queue_of(capacity)
    half = max(capacity // 2, 1)
    for step in range(half):
        assert not queue.wake.is_set()
        queue.put(StepRecord(step, 0.0, blocks=(BLOCK,)))
    assert queue.wake.is_set()


def test_what_comes_after_a_pause_is_taken_at_once_and_what_comes_soon_waits():
    now = [0.0]
    queue = queue_of()
    policy = BatchingPolicy(queue, clock=lambda: now[0])
    now[0] = 100.0
    assert not policy.is_over()
    queue.put(StepRecord(0, 0.0, blocks=(BLOCK,)))
    assert policy.is_over()
    assert policy.take()[0][0].step == 0
    queue.put(StepRecord(1, 0.0, blocks=(BLOCK,)))
    now[0] += BATCH_WAIT_S / 2
    assert not policy.is_over()
    queue.put(StepRecord(2, 0.0, blocks=(BLOCK,)))
    now[0] += 0.51 * BATCH_WAIT_S
    assert policy.is_over()
    assert [item.step for item in policy.take()[0]] == [1, 2]
    assert not policy.is_over()


def test_steps_that_say_nothing_wait_longer_and_are_counted():
    now = [0.0]
    queue = queue_of()
    policy = BatchingPolicy(queue, clock=lambda: now[0])
    for step in range(3):
        queue.put(StepRecord(step, 0.0))
    now[0] += 1.1 * BATCH_WAIT_S
    assert not policy.is_over()
    now[0] += 1.1 * BATCH_WAIT_S
    assert policy.is_over()
    taken, quiet = policy.take()
    assert ([item.step for item in taken], quiet) == ([2], 2)


def test_after_a_long_transaction_the_writer_rests_as_long():
    now = [100.0]
    queue = queue_of()
    policy = BatchingPolicy(queue, clock=lambda: now[0])
    queue.put(StepRecord(0, 0.0, blocks=(BLOCK,)))
    policy.take()
    now[0] += 2.0
    policy.have_handled()
    queue.put(StepRecord(1, 0.0, blocks=(BLOCK,)))
    now[0] += 1.9
    assert not policy.is_over()
    now[0] += 0.2
    assert policy.is_over()
