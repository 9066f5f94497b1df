"""Units that never fire, and units that sit at their ends: by hand, and in real trainings."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.framework import Key, Tensor, nn
from mindscope.probe import watch
from mindscope.probe.kernels import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from mindscope.probe.quantities.silent_units import LOOKS, Units, kind_of
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def looks(kind, *outputs):
    """What the last of these looks has shown."""
    units = Units(kind)
    return [units.look(output) for output in outputs][-1]


def activations(seed, shape=(100, 8)):
    return np.maximum(np.random.default_rng(seed).normal(size=shape), 0.0).astype(np.float32)


def test_a_unit_is_dead_after_three_looks_at_nothing_and_alive_after_one_value():
    outputs = [activations(seed) for seed in range(4)]
    for output in outputs:
        output[:, :2] = 0.0
    assert math.isnan(looks("rectified", *outputs[: LOOKS - 1])[0])
    assert looks("rectified", *outputs[:LOOKS])[0] == 2 / 8
    outputs[3][5, 1] = 0.1
    assert looks("rectified", *outputs)[0] == 1 / 8


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.6))
def test_dead_units_are_counted_as_by_hand(seed, share):
    rng = np.random.default_rng(seed)
    outputs = [activations(seed + look, (70, 20)) * (rng.random((70, 20)) < 0.05) for look in range(LOOKS)]
    for output in outputs:
        output[:, : int(20 * share)] = 0.0
    by_hand = np.mean([not any(output[:, unit].any() for output in outputs) for unit in range(20)])
    assert looks("rectified", *outputs)[0] == pytest.approx(by_hand)


SHAPES = [(100, 8), (64, 1), (70, 3, 5), (3, 7, 8, 9), (2, 5, 4, 6, 3), (400, 300), (63, 4), (0, 5), (500,)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_units_read_where_they_lie_are_those_of_an_array(dtype, shape):
    """Also after the number of units has changed, and with zeros of both signs and numbers that are none."""
    here, there = Units("rectified"), Units("rectified")
    of = {np.float32: FLOAT32, np.float64: FLOAT64, np.float16: FLOAT16}.get(dtype, BFLOAT16)
    rng = np.random.default_rng(len(shape))
    for turn in range(9):
        size = shape if turn != 4 else (80, 2)
        output = rng.choice([0.0, -0.0, 1e-7, -1.0, np.nan], size, p=[0.6, 0.399, 4e-4, 3e-4, 3e-4]).astype(dtype)
        found, expected = there.look_at(output.ctypes.data, of, size), here.look(output)
        assert repr(found) == repr(expected)


def test_channels_are_the_units_of_images():
    images = [activations(seed, (4, 3, 8, 8)) for seed in range(LOOKS)]
    for image in images:
        image[:, 1] = 0.0
    assert looks("rectified", *images) == pytest.approx((1 / 3, math.nan, 3.0), nan_ok=True)


def test_saturation_is_told_by_the_slope():
    x = np.linspace(-8.0, 8.0, 64)[:, None] * np.array([0.01, 1.0, 1000.0])
    assert looks("sigmoid", 1.0 / (1.0 + np.exp(-np.clip(x, -50, 50))))[1] == pytest.approx(1 / 3)
    assert looks("tanh", np.tanh(x))[1] == pytest.approx(1 / 3)
    rows = np.full((100, 4), 0.25)
    rows[:30] = (0.999, 0.0005, 0.0004, 0.0001)
    assert looks("softmax", rows)[1] == pytest.approx(0.3)


def test_few_samples_and_flat_outputs_say_nothing():
    assert looks("rectified", np.zeros((63, 4))) is None
    assert looks("tanh", np.zeros(500)) is None
    assert looks("tanh", np.zeros((0, 5))) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ReLU", "rectified"), ("Sigmoid", "sigmoid"), ("Tanh", "tanh"), ("Softmax", "softmax"), ("ReLU6", "rectified")],
)
def test_layers_are_known_by_their_class(name, kind):
    assert kind_of(getattr(torch.nn, name)()) == kind


@pytest.mark.parametrize("name", ["LeakyReLU", "PReLU", "GELU", "LogSigmoid", "LogSoftmax", "Tanhshrink", "Linear"])
def test_other_layers_are_left_alone(name):
    assert kind_of(torch.nn.Linear(1, 1) if name == "Linear" else getattr(torch.nn, name)()) is None


def pytorch(store, steps=16):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 4), torch.nn.Tanh())
    with torch.no_grad():
        net[0].bias[:3] = -100.0
        net[2].bias[:1] = 50.0
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)

    def step():
        optimizer.zero_grad()
        loss = net(torch.randn(80, 6)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item().hex()

    return trained(net, optimizer, step, store, steps)


def engine(store, steps=16):
    net = nn.SequentialCell(nn.Dense(6, 10, key=Key(0)), nn.ReLU(), nn.Dense(10, 4, key=Key(1)), nn.Tanh()).set_train()
    for cell, count, value in ((net[0], 3, -100.0), (net[2], 1, 50.0)):
        bias = cell.bias.numpy().copy()
        bias[:count] = value
        cell.bias.set_data(Tensor(bias))
    optimizer, rng = nn.SGD(net.trainable_params(), 1e-3), np.random.default_rng(0)

    def step():
        optimizer.zero_grad()
        loss = (net(Tensor(rng.normal(size=(80, 6)).astype(np.float32))) ** 2).mean()
        loss.backward()
        optimizer.step()
        return float(loss).hex()

    return trained(net, optimizer, step, store, steps)


def trained(net, optimizer, step, store, steps):
    if store is None:
        return [step() for _ in range(steps)]
    with watch(net, optimizer, store=store):
        return [step() for _ in range(steps)]


@pytest.mark.parametrize("training", [pytorch, engine])
def test_a_training_records_them_every_fifth_step_and_keeps_its_losses(training):
    with open_store("memory:") as store:
        assert training(store) == training(None)
        run = store.find_run("latest").id
        dead = store.series(run, "1", "activation/units/dead_share")
        saturated = store.series(run, "3", "activation/units/saturated_share")
    assert dead.steps.tolist() == [0, 1, 2, 4, 5, 7, 10, 15]  # more often at the start
    assert np.isnan(dead.values[:2]).all()
    assert dead.values[2:].tolist() == [0.3] * 6
    assert saturated.values.tolist() == [0.25] * 8
