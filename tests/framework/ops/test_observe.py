"""The identity that shows what flows through it."""

import numpy as np
from mindscope.framework import Tensor, grad, ops


class _Notebook:
    def __init__(self):
        self.values, self.gradients = [], []

    def value(self, array):
        self.values.append(array.copy())

    def gradient(self, array):
        self.gradients.append(array.copy())


def test_the_tap_sees_value_and_gradient_and_changes_neither():
    hook = _Notebook()
    found = grad(lambda x: (ops.observe(x * 2.0, hook) ** 2).sum())(Tensor([1.0, 3.0]))
    assert found.tolist() == [8.0, 24.0]
    np.testing.assert_array_equal(hook.values, [[2.0, 6.0]])
    np.testing.assert_array_equal(hook.gradients, [[4.0, 12.0]])


def test_without_a_way_back_only_the_value_is_shown():
    hook = _Notebook()
    ops.observe(Tensor([1.0]), hook)
    assert len(hook.values) == 1
    assert hook.gradients == []
