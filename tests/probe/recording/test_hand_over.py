"""Records go to the writer in bursts; of steps without anything only the newest goes."""

import numpy as np
from mindscope.probe.recording.hand_over import HandOver
from mindscope.storage import Block, Layout, StepRecord

BLOCK = Block(Layout("weight", ("a",), ("norm",), ("float32",)), np.ones((1, 1)))


def handed(records: list[StepRecord], *, capacity: int = 64) -> list[int]:
    """The steps that were handed over, at the end or before."""
    got: list[int] = []
    hand_over = HandOver(lambda record: got.append(record.step), capacity, clock=lambda: 0.0)
    for record in records:
        hand_over.add(record)
    hand_over.flush()
    return got


def test_of_steps_without_anything_only_the_newest_is_handed_over():
    assert handed([StepRecord(step, 0.0) for step in range(20)]) == [19]


def test_a_step_that_recorded_something_takes_the_place_of_empty_ones():
    records = [StepRecord(step, 0.0, blocks=(BLOCK,) if step % 10 == 0 else ()) for step in range(25)]
    assert handed(records) == [0, 10, 20, 24]


def test_a_skipped_step_and_a_scalar_are_something():
    records = [StepRecord(0, 0.0, skipped=True), StepRecord(1, 0.0, scalars={"loss": 1.0}), StepRecord(2, 0.0)]
    assert handed(records) == [0, 1, 2]


def test_half_of_the_capacity_is_kept_and_no_more():
    got: list[int] = []
    hand_over = HandOver(lambda record: got.append(record.step), 8, clock=lambda: 0.0)
    for step in range(4):
        assert got == []
        hand_over.add(StepRecord(step, 0.0, blocks=(BLOCK,)))
    assert got == [0, 1, 2, 3]
    assert hand_over.behind == 4


def test_what_was_recorded_waits_a_quarter_of_a_second_and_what_was_not_waits_a_second():
    got: list[tuple[float, int]] = []
    now = [0.0]
    hand_over = HandOver(lambda record: got.append((now[0], record.step)), 64, clock=lambda: now[0])
    for step in range(32):
        now[0] = step / 16
        hand_over.add(StepRecord(step, 0.0, blocks=(BLOCK,) if step >= 20 else ()))
    assert got[0] == (1.0, 16)
    waited = [at - step / 16 for at, step in got[1:]]
    assert [step for _, step in got[1:]] == list(range(20, 29))
    assert max(waited) <= 0.25
