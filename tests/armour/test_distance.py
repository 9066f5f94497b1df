import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.armour import DISTANCES, UnknownAttack
from mindscope.armour.distance import distance_named


def test_measures_are_those_of_numpy_in_double_precision():
    generator = np.random.default_rng(0)
    a, b = generator.uniform(0, 1, (2, 5, 3, 4)).astype(np.float32)
    change = (b.astype(float) - a.astype(float)).reshape(5, -1)
    np.testing.assert_allclose(DISTANCES["linf"].measure(a, b), np.abs(change).max(axis=1))
    np.testing.assert_allclose(DISTANCES["l2"].measure(a, b), np.linalg.norm(change, axis=1))


@pytest.mark.parametrize("norm", DISTANCES)
@given(scale=st.sampled_from([1e-30, 1e-20, 1.0, 1e20, 1e30]), seed=st.integers(0, 1000))
def test_a_steepest_step_has_length_one_at_any_scale_of_the_gradient(norm, scale, seed):
    gradient = (np.random.default_rng(seed).standard_normal((4, 7)) * scale).astype(np.float32)
    step = DISTANCES[norm].steepest(gradient)
    order = {"linf": np.inf, "l2": 2}[norm]
    np.testing.assert_allclose(np.linalg.norm(step, order, axis=1), 1.0, rtol=1e-5)
    dual = {"linf": 1, "l2": 2}[norm]
    gained = np.sum(step.astype(float) * gradient / scale, axis=1)
    np.testing.assert_allclose(gained, np.linalg.norm(gradient / scale, dual, axis=1), rtol=1e-5)


@pytest.mark.parametrize("norm", DISTANCES)
def test_a_zero_gradient_gives_a_zero_step(norm):
    assert not DISTANCES[norm].steepest(np.zeros((2, 3), np.float32)).any()


@pytest.mark.parametrize("norm", DISTANCES)
def test_samples_fill_the_unit_ball_evenly(norm):
    points = DISTANCES[norm].sample(np.random.default_rng(0), (20_000, 2))
    radius = np.linalg.norm(points, {"linf": np.inf, "l2": 2}[norm], axis=1)
    assert radius.max() <= 1
    np.testing.assert_allclose((radius < 0.5).mean(), 0.25, atol=0.015)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=0.02)


@pytest.mark.parametrize("norm", DISTANCES)
@given(
    epsilon=st.floats(1e-12, 10),
    low=st.sampled_from([-2.1179, 0.0, -1.0, 0.1]),
    seed=st.integers(0, 1000),
    reach=st.sampled_from([1e-7, 1.0, 1e6]),
)
def test_clipped_candidates_are_inside_the_budget_and_the_box_exactly(norm, epsilon, low, seed, reach):
    generator = np.random.default_rng(seed)
    bounds = (low, low + 1.7)
    inside = np.clip(generator.uniform(*bounds, (6, 9)).astype(np.float32), np.float32(low), np.float32(bounds[1]))
    candidates = inside + reach * generator.standard_normal((6, 9)).astype(np.float32)
    distance = DISTANCES[norm]
    region = distance.region(inside, epsilon, bounds)
    clipped = region.clip(candidates)
    assert (distance.measure(inside, clipped) <= epsilon).all()
    assert (clipped >= np.float32(bounds[0])).all()
    assert (clipped <= np.float32(bounds[1])).all()
    np.testing.assert_array_equal(region.clip(inside), inside)


def test_the_l2_region_is_used_to_its_edge():
    x = np.full((3, 10), 0.5, np.float32)
    far = x + np.random.default_rng(0).standard_normal((3, 10)).astype(np.float32) * 0.05
    clipped = DISTANCES["l2"].region(x, 0.05, (0, 1)).clip(far)
    np.testing.assert_allclose(DISTANCES["l2"].measure(x, clipped), 0.05, rtol=2e-5)


def test_an_unknown_norm_names_the_known_ones():
    with pytest.raises(UnknownAttack, match="no norm 'linff'; norms are l2, linf; did you mean 'linf'"):
        distance_named("linff")
