"""Explanations against closed forms on linear and quadratic models, and slow independent versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.insight.saliency import (
    deletion,
    insertion,
    integrated_gradients,
    occlusion,
    plain_gradient,
    rise,
    smooth_gradient,
)
from mindscope.insight.saliency.attribution import grad_cam, resize
from mindscope.insight.saliency.attribution_quality import faithfulness, localisation, stability

RNG = np.random.default_rng(0)
SHAPE = (3, 8, 8)
W, X = RNG.standard_normal(SHAPE), RNG.standard_normal(SHAPE)


def linear(inputs):
    return (inputs * W).sum(axis=(1, 2, 3)) + 0.5


def linear_gradient(inputs):
    return np.broadcast_to(W, inputs.shape)


def cubic(inputs):
    return (W * inputs**3).sum(axis=(1, 2, 3))


def cubic_gradient(inputs):
    return 3 * W * inputs**2


def test_the_gradient_of_a_linear_model_is_its_weights():
    assert np.array_equal(plain_gradient(linear_gradient, X), W)
    assert smooth_gradient(linear_gradient, X) == pytest.approx(W)


def test_integrated_gradients_of_a_linear_model_are_weight_times_input():
    assert integrated_gradients(linear_gradient, X, points=1) == pytest.approx(W * X)
    assert integrated_gradients(linear_gradient, X, baseline=1.0, points=1) == pytest.approx(W * (X - 1.0))


@given(st.integers(0, 2**32 - 1), st.floats(-2.0, 2.0))
def test_integrated_gradients_sum_to_the_difference_of_the_scores(seed, baseline):
    x = np.random.default_rng(seed).standard_normal(SHAPE)
    found = integrated_gradients(cubic_gradient, x, baseline=baseline, points=2)  # exact for degree 3
    assert found.sum() == pytest.approx(float(cubic(x[None])[0] - cubic(np.full((1, *SHAPE), baseline))[0]), abs=1e-8)


def test_integrated_gradients_agree_with_a_fine_sum():
    def gradient(inputs):
        return W * np.cos(inputs)

    fine = sum(gradient(X * (k + 0.5) / 4000) for k in range(4000)) * X / 4000
    assert integrated_gradients(gradient, X) == pytest.approx(fine, abs=1e-6)


def test_smooth_gradients_of_a_cubic_gain_the_variance_of_the_noise():
    spread = 0.15 * (X.max() - X.min())
    found = smooth_gradient(cubic_gradient, X, samples=4000, seed=1)
    expected = 3 * W * (X**2 + spread**2)
    error = np.abs(found - expected) / (3 * np.abs(W) * np.sqrt((4 * X**2 * spread**2 + 2 * spread**4) / 4000))
    assert error.max() < 5.0  # standard errors, the largest of 192


def test_occluding_single_places_of_a_linear_model_gives_each_places_own_part():
    assert occlusion(linear, X, window=1, stride=1) == pytest.approx((W * X).sum(axis=0))
    assert occlusion(linear, X, window=1, stride=1, baseline=2.0) == pytest.approx((W * (X - 2.0)).sum(axis=0))


def test_occlusion_is_the_mean_over_the_windows_that_cover_a_place():
    part, slow = (W * X).sum(axis=0), np.zeros((8, 8))
    for row in range(8):
        for column in range(8):
            drops = [
                part[r : r + 3, c : c + 3].sum()
                for r in (0, 2, 4, 5)
                for c in (0, 2, 4, 5)
                if r <= row < r + 3 and c <= column < c + 3
            ]
            slow[row, column] = np.mean(drops)
    assert occlusion(linear, X, window=3, stride=2) == pytest.approx(slow)


def test_a_vector_is_explained_element_by_element():
    w, x = RNG.standard_normal(10), RNG.standard_normal(10)
    assert occlusion(lambda inputs: inputs @ w, x, window=1, stride=1) == pytest.approx(w * x)


def test_rise_finds_the_place_that_a_model_looks_at():
    x = np.ones((1, 16, 16))
    found = rise(lambda inputs: inputs[:, 0, 3, 12], x, masks=3000, cells=8, seed=2)
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert abs(row - 3) <= 1
    assert abs(column - 12) <= 1
    # far away a mask says nothing of that place: the mean of a mask's own value there is left
    assert found[12:, :6].mean() == pytest.approx(0.5, abs=0.05)


def test_masks_of_rise_are_seen_in_their_share_everywhere():
    x = np.ones((1, 12, 10))
    found = rise(lambda inputs: np.ones(len(inputs)), x, masks=4000, cells=4, keep=0.3, seed=0)
    assert found == pytest.approx(np.ones((12, 10)), abs=0.12)


def test_grad_cam_weighs_channels_by_their_mean_gradient_and_keeps_what_speaks_for_the_score():
    activation = np.zeros((2, 4, 4))
    activation[0, 1, 2], activation[1, 3, 0] = 2.0, 5.0
    gradient = np.stack([np.full((4, 4), 0.5), np.full((4, 4), -1.0)])
    expected = np.zeros((4, 4))
    expected[1, 2] = 1.0
    assert np.array_equal(grad_cam(activation, gradient, (4, 4)), expected)
    large = grad_cam(activation, gradient, (8, 8))
    assert large.shape == (8, 8)
    assert large.sum() == pytest.approx(4.0)  # each cell became four places


@pytest.mark.parametrize("size", [(4, 4), (9, 7), (3, 20)])
def test_resizing_agrees_with_torchs_bilinear_interpolation(size):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    field = RNG.standard_normal((4, 5))
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(field)[None, None], size, mode="bilinear", align_corners=False
    )
    assert resize(field, size) == pytest.approx(expected[0, 0].numpy())


def test_curves_of_a_linear_model_are_cumulative_sums_in_order_of_importance():
    parts = np.sort((W * X).sum(axis=0).ravel())[::-1]
    exact = integrated_gradients(linear_gradient, X, points=1)
    removed, added = deletion(linear, X, exact, steps=64), insertion(linear, X, exact, steps=64)
    total = np.concatenate([[0.0], np.cumsum(parts)])
    assert removed.scores == pytest.approx(0.5 + parts.sum() - total)
    assert added.scores == pytest.approx(0.5 + total)
    assert (removed.shares[0], removed.shares[-1]) == (0.0, 1.0)
    assert added.area == pytest.approx(np.trapezoid(0.5 + total, dx=1 / 64))
    assert removed.area < deletion(linear, X, -exact, steps=64).area


def test_an_exact_explanation_of_a_linear_model_is_perfectly_faithful():
    exact = (W * X).sum(axis=0)
    assert faithfulness(linear, X, exact) == pytest.approx(1.0)
    assert faithfulness(linear, X, -exact) == pytest.approx(-1.0)
    assert abs(faithfulness(linear, X, RNG.standard_normal((8, 8)))) < 0.5
    assert np.isnan(faithfulness(linear, X, np.ones((8, 8))))


def test_a_map_is_judged_by_where_its_largest_values_lie():
    region = np.zeros((4, 4), bool)
    region[1:3, 1:3] = True
    inside = localisation(np.where(region, 2.0, -1.0), region)
    assert (inside.is_hit, inside.energy, inside.rank_share, inside.chance) == (True, 1.0, 1.0, 0.25)
    field = np.where(region, 1.0, 0.0)
    field[0, 0] = 4.0
    beside = localisation(field, region)
    assert (beside.is_hit, beside.energy, beside.rank_share) == (False, 0.5, 0.75)


def test_a_constant_explanation_is_stable_and_one_that_follows_the_input_moves_with_it():
    assert stability(lambda x: W, X, radius=0.1).largest == 0.0
    moved = stability(lambda x: x, np.ones(100), radius=0.1, samples=50)
    assert 0.0 < moved.mean < moved.largest <= 0.1
    assert moved.mean == pytest.approx(0.1 / np.sqrt(3), rel=0.1)
    assert np.isnan(stability(np.zeros_like, X, radius=0.1).largest)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plain_gradient(lambda x: x[:, 0], X), "must have their shape"),
        (lambda: occlusion(lambda x: x, X), r"must have shape \(64,\)|must have shape"),
        (lambda: occlusion(linear, X, window=2, stride=3), "stride expects 1 to the window's 2"),
        (lambda: grad_cam(X, X[0], (4, 4)), "expect one shape"),
        (lambda: localisation(np.ones((2, 2)), np.zeros((2, 2), bool)), "at least one marked point"),
        (lambda: deletion(linear, X, np.ones((3, 3))), "importance of an input"),
    ],
)
def test_what_does_not_fit_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
