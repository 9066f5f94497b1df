"""The kernels for devices against NumPy, by the contract of the kernel for the processor.

Triton's are run by its interpreter, in a process that has `TRITON_INTERPRET=1`: `make test-triton`.
"""

import importlib.util
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mindscope.probe.kernels import Bins, table_of
from mindscope.probe.kernels.device import measure_on_device, measure_plainly
from mindscope.probe.kernels.device.device_queue import DeviceCopies
from mindscope.probe.kernels.device.device_statistics import counts_on_device

from tests.probe.kernels.test_cpu import slow

#: Triton's interpreter sums with NumPy, which warns of infinities that the kernel expects.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
HAS_TRITON = importlib.util.find_spec("triton") is not None
RUNS = HAS_TRITON and (os.environ.get("TRITON_INTERPRET") == "1" or torch.cuda.is_available())
#: Where Triton's kernels run: they are compiled for a device, or interpreted.
PLACE = "cuda" if torch.cuda.is_available() else "cpu"


def fused(tensors):
    from mindscope.probe.kernels.device.triton_statistics import measure_fused

    return measure_fused([one.to(PLACE) for one in tensors]).cpu()


def counted_by_triton(tensors, rows, bins):
    from mindscope.probe.kernels.device.triton_histograms import count_fused

    return count_fused([one.to(PLACE) for one in tensors], rows.to(PLACE), bins).cpu()


needs_triton = pytest.mark.skipif(not RUNS, reason="needs Triton, and a GPU or its interpreter: `make test-triton`")
KERNELS = pytest.mark.parametrize(
    "kernel", [pytest.param(measure_plainly, id="torch"), pytest.param(fused, id="triton", marks=needs_triton)]
)

COUNTED = pytest.mark.parametrize(
    "counted",
    [pytest.param(counts_on_device, id="torch"), pytest.param(counted_by_triton, id="triton", marks=needs_triton)],
)


def agree(rows: torch.Tensor, arrays: list[torch.Tensor], tolerance: float = 1e-12) -> None:
    expected = [slow(one.to(torch.float64).numpy()) for one in arrays]
    np.testing.assert_allclose(rows.numpy(), expected, rtol=tolerance, atol=1e-15)


def made(size: int, dtype: torch.dtype, seed: int = 0, mean: float = 0.3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(mean, 2.0, size)).to(dtype)


@KERNELS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_size_are_measured_in_one_call(kernel, dtype) -> None:
    several = [made(size, dtype, size) for size in (0, 1, 2, 63, 2047, 2048, 2049)]
    several[4][::7] = 0
    agree(kernel(several), several)


@KERNELS
def test_a_tensor_of_several_stretches_is_joined(kernel) -> None:
    several = [made(3, torch.float32), made(140_001, torch.float32), made(65_536, torch.bfloat16)]
    agree(kernel(several), several)


@KERNELS
def test_dtypes_may_be_mixed(kernel) -> None:
    several = [made(3000, dtype, 1) for dtype in DTYPES]
    agree(kernel(several), several)


@KERNELS
@pytest.mark.parametrize("share", [0.001, 0.5, 1.0])
def test_values_that_are_not_finite_are_counted_apart_and_left_out(kernel, share: float) -> None:
    rng = np.random.default_rng(4)
    x = made(5000, torch.float32, 4)
    for value in (float("nan"), float("inf"), float("-inf")):
        x[torch.from_numpy(rng.random(x.numel()) < share)] = value
    x[1333], x[2000], x[2500] = float("nan"), float("inf"), float("-inf")
    agree(kernel([x, torch.full((5,), float("nan"))]), [x, torch.full((5,), float("nan"))])


@KERNELS
@pytest.mark.parametrize(("mean", "deviation"), [(1e4, 1e-3), (-1e6, 1.0), (1e8, 1.0)])
def test_a_large_mean_costs_the_deviation_no_digits(kernel, mean: float, deviation: float) -> None:
    x = torch.from_numpy(mean + np.random.default_rng(2).normal(0, deviation, 70_003))
    agree(kernel([x]), [x], 1e-9 if mean == 1e8 else 1e-10)


@KERNELS
def test_scalars_and_empty_tensors_are_tensors(kernel) -> None:
    several = [torch.tensor(-2.5), torch.empty(0), torch.zeros(3)]
    agree(kernel(several), several)


def test_gaps_integers_and_small_floats_are_brought_into_form() -> None:
    x = made(2000, torch.float32).reshape(40, 50)
    several = [x[::3, ::2], x.T, x[1:].T, torch.arange(-3, 9), torch.tensor([True, False])]
    several.append(x[0].to(torch.float8_e4m3fn))
    agree(measure_on_device(several), several)


def counted_by_processor(x: torch.Tensor, row: torch.Tensor, bins: Bins) -> list[int]:
    wide = x.to(torch.float64).contiguous()
    table = table_of([(wide.data_ptr() or 1, wide.numel(), 1)], [wide])
    return bins.count((table.addresses[0], wide.numel(), 1), *row[3:5].tolist())[1].tolist()


@COUNTED
@pytest.mark.parametrize("bins", [Bins(1), Bins(7), Bins(64), Bins(24, is_logarithmic=True)], ids=repr)
@pytest.mark.parametrize("kind", ["spread", "constant", "not finite", "nothing finite", "empty"])
def test_counts_on_a_device_are_those_of_the_processor(counted, bins: Bins, kind: str) -> None:
    x = made(0 if kind == "empty" else 3001, torch.float32, 5)
    if kind == "constant":
        x[:] = -3.0
    elif kind != "spread":
        x[:: 1 if kind == "nothing finite" else 5] = float("inf")
    row = measure_plainly([x])[0]
    assert counted([x], row[None], bins)[0].tolist() == counted_by_processor(x, row, bins)


@COUNTED
@pytest.mark.parametrize("is_logarithmic", [False, True])
def test_tensors_of_every_size_and_dtype_are_counted_in_one_call(counted, is_logarithmic: bool) -> None:
    several = [made(size, dtype, size) for size in (0, 1, 511, 70_001) for dtype in DTYPES]
    several += [made(4097, torch.float32)[1:], torch.tensor([0.0, -0.0, 1e-310, -2.0, 4.0], dtype=torch.float64)]
    several[4][::7] = float("nan")
    rows, bins = measure_plainly(several), Bins(64, is_logarithmic)
    for x, row, found in zip(several, rows, counted(several, rows, bins), strict=True):
        assert found.tolist() == counted_by_processor(x, row, bins)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_tell_how_far_tensors_have_moved_since(dtype) -> None:
    tensors, copies = [made(50, dtype, seed) for seed in range(3)], DeviceCopies()
    copies.take(tensors)
    before = [one.double().clone() for one in tensors]
    for one in tensors:
        one += 1.5
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    for change, old, now in zip(copies.changes(tensors), before, tensors, strict=True):
        assert torch.equal(change.to(wide), now.to(wide) - old.to(wide))
    assert all(not change.any() for change in copies.changes(tensors))
    assert copies.fit(tensors)
    assert not copies.fit([*tensors, torch.ones(1)])
    assert not copies.fit([tensors[0].reshape(5, 10), *tensors[1:]])


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float16]),
        hnp.array_shapes(max_dims=2, max_side=40),
        elements=st.floats(width=16, allow_nan=True, allow_infinity=True),
    )
)
def test_any_tensor_agrees_with_numpy(x) -> None:
    agree(measure_on_device([torch.from_numpy(x)]), [torch.from_numpy(x)], 1e-9)


def test_copies_are_of_the_memory_that_was_copied_until_something_else_is_written_there() -> None:
    tensors, copies = [made(50, torch.float32, seed) for seed in range(3)], DeviceCopies()
    copies.take(tensors)
    assert copies.are_of(tensors)
    tensors[0] += 2.0
    assert not copies.are_of(tensors)
    assert [one.sum().item() for one in copies.changes(tensors)] == [pytest.approx(100.0), 0.0, 0.0]
    assert copies.are_of(tensors)
    others = [tensors[0].clone(), *tensors[1:]]
    assert copies.fit(others)
    assert not copies.are_of(others)


@needs_triton
def test_a_stretch_that_begins_without_a_finite_value_keeps_its_digits():
    generator = np.random.default_rng(0)
    x = 1e3 + 1e-3 * generator.standard_normal(5000)
    x[:1500] = np.nan
    row = fused([torch.from_numpy(x)])[0]
    held = x[1500:]
    assert row[1].item() == pytest.approx(held.mean(), rel=1e-12)
    assert row[2].item() == pytest.approx(held.std(), rel=1e-9)
    assert row[6].item() == 1500
