"""Rounding, less precision, one wrong element, NaN and overflow are told apart."""

import ml_dtypes
import numpy as np
import pytest
from mindscope.probe.replay.judge import judge, unit_roundoff

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]


def matmul(x, w):
    return x.astype(np.float64) @ w.astype(np.float64)


def operands(dtype, terms=300):
    rng = np.random.default_rng(3)
    return rng.normal(size=(40, terms)).astype(dtype), rng.normal(size=(terms, 30)).astype(dtype)


def moved(x, w, dtype, count=8):
    rng = np.random.default_rng(1)
    unit = unit_roundoff(np.dtype(dtype))

    def move(one):
        return one.astype(np.float64) * (1.0 + unit * rng.uniform(-1.0, 1.0, one.shape))

    return [move(x) @ move(w) for _ in range(count)]


def one_after_the_other(x, w):
    """A product summed term by term in the operands' own precision: the worst of the right kernels."""
    total = np.zeros((x.shape[0], w.shape[1]), x.dtype)
    for term in range(x.shape[1]):
        total = (total + x[:, term : term + 1] * w[term]).astype(x.dtype)
    return total


def judged(recorded, x, w, **options):
    return judge(recorded, matmul(x, w), moved(x, w, recorded.dtype), None, **options)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64], ids=lambda one: one.__name__
)
def test_a_result_rounded_once_is_rounding(dtype):
    x, w = operands(dtype)
    found = judged(matmul(x, w).astype(dtype), x, w)
    assert (found.verdict, found.wrong) == ("rounding", 0)
    assert found.max_ulps <= 0.5 + 1e-6
    assert found.max_noise <= 1.0


@pytest.mark.parametrize("terms", [300, 8192])
def test_sums_in_any_order_are_rounding(terms):
    x, w = operands(np.float32, terms)
    assert judged(one_after_the_other(x, w), x, w).verdict == "rounding"
    assert judged((x @ w).astype(np.float32), x, w).verdict == "rounding"


def test_operands_of_ten_bits_are_a_kernel_of_less_precision():
    x, w = operands(np.float32)

    def ten_bits(one):
        return ((one.view(np.int32) + 0x1000) & ~0x1FFF).view(np.float32)

    found = judged(matmul(ten_bits(x), ten_bits(w)).astype(np.float32), x, w)
    assert found.verdict == "wrong_kernel"
    assert found.wrong > 0.8 * found.shape[0] * found.shape[1]
    assert 8.0 < found.lost_bits < 14.0


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=lambda one: one.__name__)
def test_a_single_wrong_element_is_found_where_it_is(dtype):
    x, w = operands(dtype)
    recorded = matmul(x, w).astype(dtype)
    place = np.unravel_index(int(np.argmax(np.abs(matmul(x, w)))), recorded.shape)
    recorded[place] = recorded[place] * dtype(0.5)  # half of its terms, as it were
    found = judged(recorded, x, w)
    assert (found.verdict, found.wrong, found.worst) == ("wrong_kernel", 1, place)
    assert found.exact == pytest.approx(matmul(x, w)[place])


def test_a_kernel_at_hand_that_errs_as_well_excuses_nothing_gross():
    x, w = operands(np.float32)
    recorded = matmul(x, w).astype(np.float32)
    recorded[0, 0] += np.float32(0.5)
    found = judge(recorded, matmul(x, w), moved(x, w, np.float32), recorded)
    assert found.verdict == "wrong_kernel"


def test_what_is_not_finite_is_blamed_on_what_went_in():
    x, w = operands(np.float32)
    x[3, 3] = np.nan
    assert judged(matmul(x, w).astype(np.float32), x, w).verdict == "bad_input"
    assert judged(matmul(x, w).astype(np.float32), x, w, weights_are_finite=False).verdict == "bad_weights"


def test_what_is_not_finite_of_finite_operands_is_the_kernels_doing():
    x, w = operands(np.float32)
    recorded = matmul(x, w).astype(np.float32)
    recorded[5, 6] = np.nan
    found = judged(recorded, x, w)
    assert (found.verdict, found.worst, found.not_finite) == ("wrong_kernel", (5, 6), 0)
    hidden = matmul(x, w).astype(np.float32)
    x[3, 3] = np.nan  # a kernel that makes a number of NaN is no better
    assert judged(hidden, x, w).verdict == "wrong_kernel"


def test_what_the_dtype_cannot_hold_has_overflown():
    x, w = operands(np.float16)
    x[2] = np.float16(30000.0)
    with np.errstate(over="ignore"):
        found = judged(matmul(x, w).astype(np.float16), x, w)
    assert found.verdict == "overflow"
    assert found.overflown > 0
    assert abs(found.exact) > 65504.0


def test_outputs_of_other_shapes_cannot_be_judged():
    with pytest.raises(ValueError, match="was recorded"):
        judge(np.zeros(3, np.float32), np.zeros(4), [], None)


def test_an_empty_output_is_right():
    assert judge(np.zeros((0, 3), np.float32), np.zeros((0, 3)), [np.zeros((0, 3))], None).verdict == "rounding"
