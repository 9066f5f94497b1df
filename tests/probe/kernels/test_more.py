"""Statistics on request against slow independent versions."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mindscope.probe.kernels import MORE, STATISTICS, More, readable, table_of

ALL = More.of(tuple(MORE))
COLUMNS = (*STATISTICS, *ALL.columns)
QUANTILES = {"q01": 0.01, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95, "q99": 0.99}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]


def measured(array, more=ALL):
    """All statistics by their names."""
    data, code = readable(np.asarray(array))
    (row,) = table_of([(data.ctypes.data or 1, data.size, code)], [data]).statistics(more)
    return dict(zip((*STATISTICS, *more.columns), row.tolist(), strict=True))


def slow_checksum(array):
    """The same in Python's integers, one element at a time."""
    data, _ = readable(np.asarray(array))
    total, word = 0, (1 << 64) - 1
    for bits in data.ravel().view(f"u{data.itemsize}").tolist():
        mixed = (bits + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & word
        total += (mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15
    return float((total & word) >> 11)


def check(array):
    x = np.asarray(array).astype(np.float64).ravel()
    x = x[np.isfinite(x)]
    found = measured(array)
    assert found["checksum"] == slow_checksum(array)
    if not x.size:
        assert found["sum"] == 0.0
        assert all(np.isnan(found[name]) for name in ("abs_max", "kurtosis", *QUANTILES))
        return
    assert found["sum"] == pytest.approx(x.sum(), rel=1e-12, abs=1e-12 * np.abs(x).sum())
    assert found["abs_max"] == np.abs(x).max()
    if found["std"] > 0.0:
        away = (x - x.mean()) / x.std()
        assert found["kurtosis"] == pytest.approx((away**4).mean(), rel=1e-9)
    for name, share in QUANTILES.items():
        exact = float(np.quantile(x, share, method="lower"))
        assert abs(found[name] - exact) <= abs(exact) / 128 + 2e-40


@pytest.mark.parametrize("size", [0, 1, 2, 63, 4095, 4096, 4097, 20_001])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_they_agree_with_numpy_at_every_size_and_dtype(dtype, size):
    x = np.random.default_rng(size).normal(0.3, 2.0, size).astype(dtype)
    x[::7] = 0
    check(x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_integers_and_booleans_have_them_too(dtype):
    check(np.random.default_rng(1).integers(0, 2, 999).astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("share", [0.001, 1.0])
def test_values_that_are_not_finite_are_left_out_but_for_the_checksum(dtype, share):
    rng = np.random.default_rng(4)
    x = rng.normal(size=9_000).astype(dtype)
    for value in (np.nan, np.inf, -np.inf):
        x[rng.random(x.size) < share] = value
    check(x)


def test_a_scalar_a_transposed_array_and_one_with_gaps():
    x = np.random.default_rng(6).normal(size=(40, 50)).astype(np.float32)
    for view in (x[::3, ::2], x.T, x[::-1], x[3, 4]):
        check(view)


@settings(max_examples=80, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float16]),
        hnp.array_shapes(max_dims=2, max_side=70),
        elements=st.floats(width=16, allow_nan=True, allow_infinity=True),
    )
)
def test_any_array_agrees_with_the_slow_version(x):
    check(x)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_the_checksum_is_the_same_in_any_order_and_another_after_any_change(values, random):
    x = np.array(values)
    shuffled = values.copy()
    random.shuffle(shuffled)
    only = More.of(["checksum"])
    assert measured(x, only)["checksum"] == measured(np.array(shuffled), only)["checksum"]
    changed = x.copy()
    changed.view(np.uint64)[random.randrange(x.size)] ^= np.uint64(1 << random.randrange(64))
    assert measured(x, only)["checksum"] != measured(changed, only)["checksum"]
    assert measured(x, only)["checksum"] < 2**53


def test_two_changes_that_cancel_in_a_plain_sum_do_not_cancel_in_the_checksum():
    x = np.arange(1.0, 100.0, dtype=np.float32)
    y = x.copy()
    y.view(np.uint32)[3] += 1
    y.view(np.uint32)[7] -= 1
    assert measured(x)["checksum"] != measured(y)["checksum"]


def test_known_kurtoses():
    normal = np.random.default_rng(2).normal(size=200_000)
    assert measured(normal)["kurtosis"] == pytest.approx(3.0, abs=0.05)
    assert measured(np.array([-1.0, 1.0] * 50))["kurtosis"] == 1.0
    assert measured(1e8 + normal)["kurtosis"] == pytest.approx(3.0, abs=0.05)
    assert measured(np.array([1e308, -1e308] * 3))["kurtosis"] == pytest.approx(1.0)
    assert np.isnan(measured(np.full(9, 3.0))["kurtosis"])


def test_quantiles_of_a_constant_are_exact_and_float64_beyond_float32_stays_between_the_ends():
    assert measured(np.full(33, 0.3, np.float32))["q50"] == np.float32(0.3)
    row = measured(np.array([1e300, 2e300, 3e300]))
    assert row["min"] <= row["q50"] <= row["max"]


def test_only_what_is_asked_for_has_columns_in_the_order_of_the_catalogue():
    assert More.of(["checksum", "sum"]).columns == ("sum", "checksum")
    assert More.of([]).flags == 0
    x = np.arange(10.0)
    assert measured(x, More.of(["checksum", "sum"])) == {
        name: value for name, value in measured(x).items() if name in (*STATISTICS, "sum", "checksum")
    }
