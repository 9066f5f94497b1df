import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.armour import Misclassification, Targeted
from mindscope.armour.problem.objective import (
    cross_entropy,
    logits_ratio,
    margin,
    sharpened_cross_entropy,
    targeted_logits_ratio,
)

OBJECTIVES = {
    "cross-entropy": cross_entropy,
    "margin": margin,
    "ratio": logits_ratio,
    "targeted ratio": targeted_logits_ratio(np.array([1, 0, 1, 0, 1])),
}


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@given(seed=st.integers(0, 1000), classes=st.integers(2, 12))
def test_the_direction_is_the_gradient_of_the_value(objective, seed, classes):
    generator = np.random.default_rng(seed)
    logits, labels = generator.standard_normal((5, classes)), generator.integers(0, classes, 5)
    step = generator.standard_normal((5, classes)) * 1e-7
    criterion = Misclassification(labels)
    ahead, behind = (objective(logits + sign * step, criterion)[0] for sign in (1, -1))
    gained = (objective(logits, criterion)[1] * step).sum(axis=1) * 2
    np.testing.assert_allclose(ahead - behind, gained, rtol=1e-4, atol=2e-12)


@given(seed=st.integers(0, 1000), classes=st.integers(2, 12))
def test_the_log_odds_order_inputs_as_the_cross_entropy_does(seed, classes):
    generator = np.random.default_rng(seed)
    logits, labels = generator.standard_normal((5, classes)), generator.integers(0, classes, 5)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    own = shares[np.arange(5), labels]
    value, direction = cross_entropy(logits, Misclassification(labels))
    np.testing.assert_allclose(value, np.log((1 - own) / own), atol=1e-12)
    np.testing.assert_allclose(direction * (1 - own)[:, None], shares - np.eye(classes)[labels], atol=1e-12)
    targeted = cross_entropy(logits, Targeted(labels))
    np.testing.assert_allclose(targeted[0], -value)
    np.testing.assert_allclose(targeted[1], -direction)


def test_small_logits_have_the_direction_of_larger_ones_and_large_ones_their_own():
    logits, criterion = np.array([[5.0, 4.0, 1.0, -3.0]]), Misclassification(np.array([0]))  # 4 leads its mean by 10/3
    stretched = np.exp((logits[:, 1:] - 4.0) * 1.2)
    for scale in (1.0, 0.1, 1e-4, 1e-30):
        _, direction = sharpened_cross_entropy(scale * logits, criterion)
        np.testing.assert_allclose(direction, [[-1.0, *(stretched / stretched.sum())[0]]], rtol=1e-9)
    own = zip(sharpened_cross_entropy(2 * logits, criterion), cross_entropy(2 * logits, criterion), strict=True)
    for sharpened, plain in own:
        np.testing.assert_array_equal(sharpened, plain)
    tied = sharpened_cross_entropy(np.zeros((1, 3)), criterion)[1]
    np.testing.assert_array_equal(tied, [[-1.0, 0.5, 0.5]])


def test_logits_far_apart_still_have_a_direction():
    logits = np.array([[1e5, 0.0, -10.0]], np.float32)
    value, direction = cross_entropy(logits, Misclassification(np.array([0])))
    np.testing.assert_allclose(value, -1e5, rtol=1e-4)
    np.testing.assert_allclose(direction, [[-1, 1, np.exp(-10)]], rtol=1e-3)
    assert direction.dtype == np.float32


def test_the_ratios_are_those_of_the_paper_whatever_the_scale():
    logits, label = np.array([[4.0, 3.0, 1.0, 0.0]]), Misclassification(np.array([0]))
    for scale in (1.0, 1e3):
        assert logits_ratio(logits * scale, label)[0] == pytest.approx(-(4 - 3) / (4 - 1))
        reached = targeted_logits_ratio(np.array([2]))(logits * scale, label)[0]
        assert reached == pytest.approx(-(4 - 1) / (4 - (1 + 0) / 2))
