"""The kernels against NumPy, which reads the array once for every statistic."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mindscope.probe.kernels import (
    STATISTICS,
    are_same,
    measure_many,
    measure_updates,
    readable,
    statistics_of,
    table_of,
)

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]


def slow(array):
    """The ten statistics, one reduction each, in float64."""
    x = np.asarray(array).astype(np.float64).ravel()
    finite = x[np.isfinite(x)]
    some = finite.size > 0
    return np.array(
        [
            np.sqrt((finite**2).sum()) if some else np.nan,
            finite.mean() if some else np.nan,
            finite.std() if some else np.nan,
            finite.min() if some else np.nan,
            finite.max() if some else np.nan,
            (x == 0).sum(),
            np.isnan(x).sum(),
            (x == np.inf).sum(),
            (x == -np.inf).sum(),
            x.size,
        ]
    )


def agree(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-15)


@pytest.mark.parametrize("size", [0, 1, 2, 63, 4095, 4096, 4097, 50_001])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_statistics_equal_numpy_at_every_size_and_dtype(dtype, size):
    x = np.random.default_rng(size).normal(0.3, 2.0, size).astype(dtype)
    x[::7] = 0
    agree(statistics_of(x), slow(x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_integers_and_booleans_are_measured_too(dtype):
    x = np.random.default_rng(1).integers(0, 2, 999).astype(dtype)
    agree(statistics_of(x), slow(x))


@pytest.mark.parametrize(("mean", "deviation"), [(1e4, 1e-3), (-1e6, 1.0), (1e8, 1.0)])
def test_a_large_mean_costs_the_deviation_no_digits(mean, deviation):
    x = (mean + np.random.default_rng(2).normal(0, deviation, 200_003)).astype(
        np.float32 if mean == 1e4 else np.float64
    )
    agree(statistics_of(x), slow(x))


def test_an_outlier_in_front_costs_no_digits():
    x = np.r_[1e6, 1 + np.random.default_rng(3).normal(0, 1e-3, 99_999)]
    agree(statistics_of(x), slow(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("share", [0.0001, 0.5, 1.0])
def test_values_that_are_not_finite_are_counted_and_left_out(dtype, share):
    rng = np.random.default_rng(4)
    x = rng.normal(size=20_000).astype(dtype)
    for value in (np.nan, np.inf, -np.inf):
        x[rng.random(x.size) < share] = value
    x[5], x[6], x[7] = np.nan, np.inf, -np.inf
    agree(statistics_of(x), slow(x))


@pytest.mark.parametrize("value", [1e200, 1e-200, 9e307, 1e-300])
def test_squares_beyond_float64_do_not_spoil_norm_and_deviation(value):
    row = dict(zip(STATISTICS, statistics_of(np.array([value, -value, 0.0, value])), strict=True))
    assert row["max"] == value
    assert row["min"] == -value
    assert row["zeros"] == 1
    assert row["l2_norm"] / value == pytest.approx(3**0.5, rel=1e-12)
    assert row["std"] / value == pytest.approx((3 / 4 - 1 / 16) ** 0.5, rel=1e-12)


def test_subnormal_halves_keep_their_values():
    x = (np.random.default_rng(5).normal(size=999) * 1e-6).astype(np.float16)
    agree(statistics_of(x), slow(x))


def test_an_array_with_gaps_a_scalar_and_a_reversed_one_are_read_right():
    x = np.random.default_rng(6).normal(size=(40, 50)).astype(np.float32)
    for view in (x[::3, ::2], x.T, x[::-1], x[3, 4]):
        agree(statistics_of(view), slow(view))


def test_what_is_no_real_number_is_refused():
    with pytest.raises(TypeError, match="need real numbers"):
        statistics_of(np.ones(3, np.complex64))


@settings(max_examples=150, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float16]),
        hnp.array_shapes(max_dims=2, max_side=70),
        elements=st.floats(width=16, allow_nan=True, allow_infinity=True),
    )
)
def test_any_array_agrees_with_numpy(x):
    agree(statistics_of(x), slow(x), 1e-9)


def test_many_arrays_are_measured_in_one_call_and_absent_ones_left_alone():
    rng = np.random.default_rng(7)
    arrays = [rng.normal(size=n).astype(dtype) for n in (3, 5000) for dtype in FLOATS]
    held = [readable(x) for x in arrays]
    places = [(x.ctypes.data, x.size, code) for x, code in held] + [(0, 0, 0)]
    table = table_of(places, held)
    out = np.full((len(places), 11), 7.0)
    measure_many(table.addresses, table.sizes, table.codes, out)
    agree(out[:-1, :10], [slow(x) for x in arrays])
    assert (out[-1] == 7.0).all()
    assert (out[:, 10] == 7.0).all()
    assert list(table.present) == [True] * len(arrays) + [False]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("spoiled", [(), (np.nan,), (np.inf, -np.inf), (0.0, -0.0)], ids=str)
def test_an_update_is_measured_against_the_copy_which_it_refreshes(dtype, spoiled):
    rng = np.random.default_rng(8)
    before = rng.normal(size=9001).astype(dtype)
    after = (before.astype(np.float64) + rng.normal(size=9001) * 0.1).astype(dtype)
    after[::7] = before[::7]  # which did not move
    for place, value in enumerate(spoiled):
        after[4000 + place :: 911], before[place::1009] = value, value
    copy, norms = before.copy(), slow(before)[:1].copy()
    (now, code), (held, _) = readable(after), readable(copy)
    one = lambda value: np.array([value], np.int64)  # noqa: E731
    weights, moved = np.empty((1, 10)), np.empty((1, 11))
    measure_updates(one(now.ctypes.data), one(now.size), one(code), one(held.ctypes.data), norms, weights, moved)
    wide = np.float64 if dtype == np.float64 else np.float32
    with np.errstate(invalid="ignore"):  # infinity less infinity is NaN
        change = after.astype(wide) - before.astype(wide)
    agree(weights[0], slow(after))
    agree(moved[0, :10], slow(change))
    assert moved[0, 10] == pytest.approx(slow(change)[0] / slow(before)[0], rel=1e-12)
    assert norms[0] == weights[0, 0]
    assert copy.tobytes() == after.tobytes()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("place", [0, 4095, 4096, 9000])
def test_an_array_is_the_same_as_its_copy_until_one_bit_of_it_differs(dtype, place):
    x = np.random.default_rng(9).normal(size=9001).astype(dtype)
    x[5] = np.nan
    copy, (held, code) = x.copy(), readable(x)
    columns = np.array([[held.ctypes.data, 0], [x.size, 0], [code, 0], [copy.ctypes.data, 0]], np.int64)
    assert are_same(*columns)
    copy.view(np.uint8)[place * x.itemsize] ^= 1
    assert not are_same(*columns)
