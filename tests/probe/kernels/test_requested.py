"""Statistics on request where a tensor lies, against the kernels of the processor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mindscope.probe.kernels import MORE, STATISTICS, More, table_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.adapters.torch.torch_tensors import place_of  # noqa: E402  after it is known that torch is there
from mindscope.probe.kernels.device import device_statistics as requested  # noqa: E402
from mindscope.probe.kernels.device import measure_plainly  # noqa: E402
from mindscope.probe.kernels.device.measuring import readable  # noqa: E402

ALL = More.of(tuple(MORE))
EXACT = ("abs_max", "checksum", *(name for name in ALL.columns if name.startswith("q")))


def both(tensor, more=ALL):
    """What the device finds and what the processor finds, by name."""
    held = readable(tensor)
    found = requested.requested_on_device(held, measure_plainly([held])[0], more).tolist()
    assert len(found) == len(more.columns), f"requested_on_device must compute {more.columns}, in this order"
    place, owner = place_of(tensor)
    expected = table_of([place], [owner]).statistics(more)[0, len(STATISTICS) :].tolist()
    return dict(zip(more.columns, found, strict=True)), dict(zip(more.columns, expected, strict=True))


def check(tensor):
    found, expected = both(tensor)
    for name, value in expected.items():
        near = value if name in EXACT else pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True)
        assert found[name] == near or (found[name] != found[name] and value != value), name


@pytest.mark.parametrize("size", [0, 1, 2, 7, 1000, 70_003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_every_size_and_dtype_has_the_numbers_of_the_processor(size, dtype):
    check(torch.from_numpy(np.random.default_rng(size).normal(0.3, 2.0, size)).to(dtype))


def test_integers_booleans_views_and_scalars_have_them_too():
    x = torch.arange(-60.0, 60.0).reshape(10, 12)
    for one in (
        torch.arange(-3, 9),
        torch.tensor([True, False]),
        x.T,
        x[::3, ::2],
        torch.tensor(-2.5),
        x.expand(3, 10, 12),
    ):
        check(one)


def test_values_that_are_not_finite_are_left_out_but_for_the_checksum():
    x = torch.from_numpy(np.random.default_rng(3).normal(0, 1, 999))
    x[::5], x[1::7], x[2::11] = float("nan"), float("inf"), float("-inf")
    check(x)
    check(x.float())
    check(torch.full((5,), float("nan")))


def test_values_beyond_single_precision_stay_between_the_ends():
    check(torch.tensor([1e140, -2e139, 1e-300, 0.0, -0.0, 1e38, 5e-324], dtype=torch.float64))


def test_several_pieces_are_added_up(monkeypatch):
    monkeypatch.setattr(requested, "_PIECE", 100)
    check(torch.from_numpy(np.random.default_rng(8).normal(0, 3, 1234)).float())


@pytest.mark.parametrize("name", MORE)
def test_only_what_is_asked_for_is_there(name):
    found, expected = both(torch.arange(50.0), More.of((name,)))
    assert found == pytest.approx(expected, rel=1e-12)
    assert set(found) == set(MORE[name])


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, max_side=30), elements=st.floats(width=32)))
def test_any_tensor_has_the_numbers_of_the_processor(array):
    check(torch.from_numpy(array))
