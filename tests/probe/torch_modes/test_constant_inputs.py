"""Inputs that have one value for all samples: what is told, and what is left alone."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.probe.checks.constant_inputs import inputs_vary  # noqa: E402
from mindscope.probe.checks.model_call import ModelCall  # noqa: E402


def _broken(make, target=None):
    torch.manual_seed(0)
    before, now = ModelCall((), make()), ModelCall((), make())
    results = list(inputs_vary(now, before.tensors(), [] if target is None else [target]))
    return {result.subject: result.numbers for result in results if result.outcome == "broken"}


def _points(**more):
    return lambda: {"x": torch.randn(64, 8), **{name: make() for name, make in more.items()}}


def test_a_time_step_that_stays_zero_beside_noise_is_the_noise_level():
    torch.manual_seed(1)
    noise = torch.randn(64, 8)
    steps = _points(t=lambda: torch.zeros(64, dtype=torch.long))
    assert _broken(steps, noise)["t"]["noise"] == 1.0
    assert _broken(steps)["t"]["noise"] == 0.0
    assert _broken(steps, torch.rand(64, 8))["t"]["noise"] == 0.0
    assert _broken(_points(t=lambda: torch.randint(0, 9, (64,))), noise) == {}
    labelled = _points(t=lambda: torch.rand(64), label=lambda: torch.zeros(64, dtype=torch.long))
    assert _broken(labelled, noise)["label"]["noise"] == 0.0
    assert _broken(_points(t=lambda: torch.full((64,), float(torch.rand(())))), noise) == {}


def test_constants_that_are_usual_are_left_alone():
    lengths = _points(lengths=lambda: torch.full((64,), 8))
    weights, mask = _points(weight=lambda: torch.ones(64)), _points(mask=lambda: torch.zeros(64, dtype=torch.bool))
    graph = _points(edges=lambda: torch.randint(0, 64, (2, 90)), batch=lambda: torch.zeros(64, dtype=torch.long))
    state = _points(state=lambda: torch.zeros(2, 64, 5))
    assert [_broken(make) for make in (lengths, weights, mask, graph, state)] == [{}] * 5


def _images(channel):
    def make():
        x = torch.randn(8, 3, 9, 9)
        if channel is not None:
            x[:, channel] = -0.5
        return {"x": x}

    return make


def test_a_channel_that_is_constant_in_all_images():
    assert _broken(_images(1))["x"]["first"] == 1
    assert _broken(_images(None)) == {}


def _table(rows=32, columns=8, value=0.0, indicators=False):
    def make():
        x = torch.randn(rows, columns)
        x[:, 3] = value
        if indicators:
            x[:, 5] = (x[:, 5] > 0).float()
        return {"x": x}

    return make


def test_a_column_of_zeros_among_columns_that_vary():
    assert _broken(_table())["x"]["first"] == 3
    # a bias, few rows, a flattened picture, and one indicator of several
    left = (_table(value=1.0), _table(rows=8), _table(columns=64), _table(indicators=True))
    assert [_broken(make) for make in left] == [{}] * 4
