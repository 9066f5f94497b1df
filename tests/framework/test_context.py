"""What holds for the running code holds for it alone."""

import threading

import numpy as np
from mindscope.framework import Tensor, is_recording, no_grad, recording


def test_another_thread_records_while_this_one_does_not():
    x, seen = Tensor(np.ones(2), requires_grad=True), []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * x).requires_grad))
        thread.start()
        thread.join()
        assert not (x * x).requires_grad
    assert seen == [True]


def test_recording_can_be_taken_up_inside_no_grad():
    with no_grad():
        with recording():
            assert is_recording()
        assert not is_recording()


def test_graphs_of_many_thousand_nodes_are_walked_and_dropped_without_recursion():
    x = Tensor(np.ones(1, np.float32), requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    y.backward()
    assert x.grad.tolist() == [1.0]
    y = x
    for _ in range(20_000):
        y = y + 1.0
    del y
