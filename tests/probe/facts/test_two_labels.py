"""Labels that are given as real zeros and ones."""

from math import log

import numpy as np
import pytest
from mindscope.probe.facts.loss_facts import TwoLabels


def test_real_zeros_and_ones_are_counted_as_labels():
    labels = TwoLabels()
    first = labels.look(np.zeros(8, np.float32))
    assert (first["target/own_entropy"], first["target/binary_entropy"], first["target/own_top"]) == (0.0, 0.0, 0.0)
    second = labels.look(np.ones((8, 1), np.float32))
    assert second["target/binary_entropy"] == pytest.approx(log(2))
    assert (second["target/own_entropy"], second["target/own_top"], second["target/own_counted"]) == (0.0, 1.0, 8.0)


@pytest.mark.parametrize(
    "target", [np.array(1.0), np.zeros((4, 3)), np.array([0.0, 0.5]), np.zeros(0), np.ones(4, np.int64)]
)
def test_other_targets_are_no_labels_of_two_classes(target):
    assert TwoLabels().look(target) == {}
