"""What a detector catches and what a defence against queries costs, where both can be counted by hand."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput
from mindscope.armour.attacks import Square
from mindscope.armour.detectors import Alarm
from mindscope.armour.metrics import ask_both, detector_quality

from tests.armour.networks import data, linear, model


class FirstPixel:
    def scores(self, x):
        return np.asarray(x, np.float64)[:, 0]


class Constant:
    def __init__(self, value):
        self.value = value

    def scores(self, x):
        return np.full(len(x), self.value)


def column(*values):
    return np.array(values, np.float32)[:, None]


def test_the_numbers_of_a_detector_are_counted():
    clean, adversarial = column(0.1, 0.2, 0.3, 0.9), column(0.2, 0.5, 0.8)
    found = detector_quality(Alarm(FirstPixel(), 0.4), clean, adversarial)
    assert (found.detection_rate, found.false_positive_rate) == (pytest.approx(2 / 3), 0.25)
    wins = [sum((a > c) + (a == c) / 2 for c in clean[:, 0]) for a in adversarial[:, 0]]
    assert found.auc == pytest.approx(sum(wins) / 12)


def test_the_intervals_hold_the_true_rates_as_often_as_they_say():
    generator = np.random.default_rng(0)
    missed = np.zeros(3)
    for _ in range(200):
        clean, adversarial = generator.normal(0, 1, 60), generator.normal(1, 1, 40)
        found = detector_quality(Alarm(FirstPixel(), 1.0), column(*clean), column(*adversarial))
        ends = (found.detection_interval, found.false_positive_interval, found.auc_interval)
        missed += [not low <= true <= high for (low, high), true in zip(ends, (0.5, 0.158655, 0.760250), strict=True)]
    assert found.clean == 60
    assert (missed <= 0.09 * 200).all()  # 5 %, and three deviations of 200 trials
    assert (missed > 0).all()


def test_scores_that_say_nothing_are_guessing():
    assert detector_quality(Alarm(Constant(1.0), 0.0), column(1, 2), column(3, 4, 5)).auc == 0.5


def test_nothing_that_fools_is_nothing_to_detect():
    with pytest.raises(InvalidInput, match="attacks of a larger epsilon"):
        detector_quality(Alarm(FirstPixel(), 0.4), column(0.1), np.zeros((0, 1)))


@pytest.fixture
def attacked():
    network = linear()
    x, y = data(network, 12, low=0.4, high=0.6)
    return model(network), x, y


def test_an_alarm_that_always_rings_lets_no_attack_succeed_and_no_answer_through(attacked):
    wrapped, x, y = attacked
    found, left = ask_both(wrapped, wrapped, x, y, attack=Square(queries=50), epsilon=0.5, alarm=Alarm(Constant(1), 0))
    bare = Square(queries=50)(wrapped, x, y, epsilons=[0.5])
    assert bare.success.any()
    assert found.success_variance == pytest.approx(bare.success.mean())
    assert (found.false_positive_rate, left) == (1.0, 1.0)
    assert found.query_count_variance == 0.0


def test_a_defence_that_does_nothing_changes_nothing(attacked):
    wrapped, x, y = attacked
    found, left = ask_both(wrapped, wrapped, x, y, attack=Square(queries=50), epsilon=0.5)
    assert (found.success_variance, found.query_count_variance, found.false_positive_rate) == (0.0, 0.0, 0.0)
    assert left == Square(queries=50)(wrapped, x, y, epsilons=[0.5]).robust_accuracy[0]
