"""One step of training against the same thing by hand."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor
from mindscope.framework.nn import Cell, Dense, SequentialCell
from mindscope.framework.optim import SGD, Adam, DynamicLossScaler, clip_by_global_norm
from mindscope.framework.train import TrainStep


def _net():
    return SequentialCell(Dense(3, 4, key=Key(0)), Dense(4, 2, key=Key(1)))


def _squared(prediction, target):
    difference = prediction - target
    return (difference * difference).mean()


def _batch():
    generator = np.random.default_rng(0)
    return generator.standard_normal((8, 3)).astype(np.float32), generator.standard_normal((8, 2)).astype(np.float32)


def _weights(net):
    return [p.numpy() for p in net.get_parameters()]


@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_a_step_is_forward_backward_clip_update(clip_norm):
    by_hand, network = _net(), _net()
    x, y = _batch()
    manual, automatic = SGD(by_hand.trainable_params(), 0.1), SGD(network.trainable_params(), 0.1)
    step = TrainStep(network, _squared, automatic, clip_norm=clip_norm)
    for _ in range(3):
        manual.zero_grad()
        loss = _squared(by_hand(Tensor(x)), Tensor(y))
        loss.backward()
        norm = None if clip_norm is None else clip_by_global_norm(manual.parameters, clip_norm)
        manual.step()
        assert float(step(x, y)) == float(loss)
        assert step.gradient_norm == norm
    for a, b in zip(_weights(by_hand), _weights(network), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_power_of_two_as_loss_scale_changes_no_bit():
    plain, scaled = _net(), _net()
    first = TrainStep(plain, _squared, SGD(plain.trainable_params(), 0.1), clip_norm=1.0)
    scaler = DynamicLossScaler(scale_value=1024.0)
    second = TrainStep(scaled, _squared, SGD(scaled.trainable_params(), 0.1), scaler, clip_norm=1.0)
    losses = [[float(step(*_batch())) for _ in range(3)] for step in (first, second)]
    assert losses[0] == losses[1]
    assert first.gradient_norm == second.gradient_norm


def test_an_overflowing_batch_is_skipped_and_the_next_one_counts():
    network = _net()
    scaler = DynamicLossScaler(scale_value=2.0)
    step = TrainStep(network, _squared, Adam(network.trainable_params()), scaler, clip_norm=1.0)
    x, y = _batch()
    before = [w.copy() for w in _weights(network)]
    step(x * np.inf, y)
    assert all(np.array_equal(a, b) for a, b in zip(before, _weights(network), strict=True))
    assert scaler.loss_scale == 1.0
    step(x, y)
    assert not all(np.array_equal(a, b) for a, b in zip(before, _weights(network), strict=True))


def test_the_network_is_put_into_training_mode_and_the_loss_leaves_the_graph():
    network = _net()
    loss = TrainStep(network, _squared, SGD(network.trainable_params(), 0.1))(*_batch())
    assert all(cell.training for _, cell in network.cells_and_names())
    assert not loss.requires_grad
    assert loss.is_leaf


def test_an_error_in_the_loss_leaves_the_network_as_it_was():
    class Broken(Cell):
        def construct(self, x, y):
            raise KeyError("labels")

    network = _net()
    before = [w.copy() for w in _weights(network)]
    with pytest.raises(KeyError, match="labels"):
        TrainStep(network, Broken(), SGD(network.trainable_params(), 0.1))(*_batch())
    assert all(np.array_equal(a, b) for a, b in zip(before, _weights(network), strict=True))


def test_a_clip_norm_must_be_above_zero():
    with pytest.raises(ValueError, match="clip_norm above 0, or None, got 0"):
        TrainStep(_net(), _squared, SGD(_net().trainable_params(), 0.1), clip_norm=0)
