"""Whether two batches are learned anew, each from the same height."""

import pytest
from mindscope.insight.indicators.relearned_batches import RelearnedBatches


def fed(*batches):
    """What comes of batches `(steps, first loss, last loss)`, each loss falling evenly by a factor."""
    relearned, step, found = RelearnedBatches(), 0, []
    for checksum, (steps, first, last) in enumerate(batches):
        for at in range(steps):
            loss = first * (last / first) ** (at / max(steps - 1, 1))
            found.append(relearned.add(step, float(checksum), loss))
            step += 1
    return [each for each in found if each is not None], relearned


def test_two_batches_that_begin_alike_and_are_learned_are_told_once():
    found, relearned = fed((40, 1.0, 0.01), (40, 0.9, 0.01), (40, 0.9, 0.01))
    assert len(found) == 1
    ended, newest = found[0]
    assert (ended.since, ended.batches, newest.since) == (0, 40, 40)
    assert ended.first == 1.0
    assert ended.last == pytest.approx(0.01)
    assert newest.first == 0.9
    assert relearned.is_over


def test_half_a_fall_that_is_taken_back_twice_is_told_at_the_third():
    found, _ = fed((40, 2.0, 1.0), (40, 1.5, 0.5), (40, 1.0, 0.1))
    assert [(ended.since, newest.since) for ended, newest in found] == [(40, 80)]


@pytest.mark.parametrize(
    "batches",
    [
        ((40, 1.0, 0.01), (40, 0.3, 0.01), (40, 0.1, 0.01)),  # little is taken back
        ((40, 1.0, 0.01), (40, 0.6, 0.01)),  # only once
        ((40, 1.0, 1.0), (40, 1.0, 0.01), (40, 0.2, 0.01)),  # nothing was learned of the first
        ((10, 1.0, 0.01), (40, 1.0, 0.01), (40, 1.0, 0.01)),  # a few steps on one batch
        ((40, 1.0, 0.01), *((1, 1.0, 1.0),) * 100),  # one batch as a test, then the data
        ((40, float("nan"), float("nan")), (40, 1.0, 0.01)),
        ((200, 1.0, 0.01),),
    ],
)
def test_other_courses_are_not(batches):
    assert fed(*batches)[0] == []


def test_nothing_is_kept_of_a_training_whose_batches_change():
    _, relearned = fed(*((1, 1.0, 1.0),) * 3)
    assert relearned.is_over
