import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.armour import DISTANCES, UnknownAttack
from mindscope.armour.distances import distance_named

ORDERS = {"linf": np.inf, "l2": 2, "l1": 1, "l0": 0}


def test_measures_are_those_of_numpy_in_double_precision():
    generator = np.random.default_rng(0)
    a, b = generator.uniform(0, 1, (2, 5, 3, 4)).astype(np.float32)
    change = (b.astype(float) - a.astype(float)).reshape(5, -1)
    np.testing.assert_allclose(DISTANCES["linf"].measure(a, b), np.abs(change).max(axis=1))
    np.testing.assert_allclose(DISTANCES["l2"].measure(a, b), np.linalg.norm(change, axis=1))
    np.testing.assert_allclose(DISTANCES["l1"].measure(a, b), np.abs(change).sum(axis=1))
    b.reshape(5, -1)[:, :7] = a.reshape(5, -1)[:, :7]
    np.testing.assert_array_equal(DISTANCES["l0"].measure(a, b), 5)


@pytest.mark.parametrize("norm", DISTANCES)
@given(scale=st.sampled_from([1e-30, 1e-20, 1.0, 1e20, 1e30]), seed=st.integers(0, 1000))
def test_a_steepest_step_has_length_one_at_any_scale_of_the_gradient(norm, scale, seed):
    gradient = (np.random.default_rng(seed).standard_normal((4, 7)) * scale).astype(np.float32)
    step = DISTANCES[norm].steepest(gradient)
    order = ORDERS[norm]
    np.testing.assert_allclose(np.linalg.norm(step, order, axis=1), 1.0, rtol=1e-5)
    dual = {"linf": 1, "l2": 2, "l1": np.inf, "l0": np.inf}[norm]
    gained = np.sum(step.astype(float) * gradient / scale, axis=1)
    np.testing.assert_allclose(gained, np.linalg.norm(gradient / scale, dual, axis=1), rtol=1e-5)


@pytest.mark.parametrize("norm", DISTANCES)
def test_a_zero_gradient_gives_a_zero_step(norm):
    assert not DISTANCES[norm].steepest(np.zeros((2, 3), np.float32)).any()


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_samples_fill_the_unit_ball_evenly(norm):
    points = DISTANCES[norm].sample(np.random.default_rng(0), (20_000, 2))
    radius = np.linalg.norm(points, ORDERS[norm], axis=1)
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
    region = distance.region(inside, np.full(6, epsilon), bounds)
    clipped = region.clip(candidates)
    assert (distance.measure(inside, clipped) <= epsilon).all()
    assert (clipped >= np.float32(bounds[0])).all()
    assert (clipped <= np.float32(bounds[1])).all()
    np.testing.assert_array_equal(region.clip(inside), inside)


def test_the_l2_region_is_used_to_its_edge():
    x = np.full((3, 10), 0.5, np.float32)
    far = x + np.random.default_rng(0).standard_normal((3, 10)).astype(np.float32) * 0.05
    clipped = DISTANCES["l2"].region(x, np.full(3, 0.05), (0, 1)).clip(far)
    np.testing.assert_allclose(DISTANCES["l2"].measure(x, clipped), 0.05, rtol=2e-5)


def test_an_unknown_norm_names_the_known_ones():
    with pytest.raises(UnknownAttack, match="no norm 'linff'; norms are l0, l1, l2, linf; did you mean 'linf'"):
        distance_named("linff")


@given(seed=st.integers(0, 1000), budget=st.floats(0.01, 3.0))
def test_the_l1_projection_is_the_nearest_point_of_ball_and_box(seed, budget):
    """No point between it and any other of the set is nearer: the inequality that characterises projections."""
    generator = np.random.default_rng(seed)
    x, far = generator.uniform(0, 1, (1, 6)), generator.uniform(-2, 3, (1, 6))
    region = DISTANCES["l1"].region(x, np.array([budget]), (0.0, 1.0))
    nearest = region.project(far)
    assert np.abs(nearest - x).sum() <= budget + 1e-9
    assert 0 <= nearest.min() <= nearest.max() <= 1
    others = (
        DISTANCES["l1"]
        .region(np.repeat(x, 200, 0), np.full(200, budget), (0.0, 1.0))
        .project(x + generator.standard_normal((200, 6)) * generator.uniform(0, 2, (200, 1)))
    )
    assert (((others - nearest) * (far - nearest)).sum(axis=1) <= 1e-8).all()


def test_in_l0_the_largest_changes_are_kept():
    x = np.full((2, 5), 0.5)
    candidates = x + np.array([[0.1, -0.4, 0.2, 0.0, 0.3], [0.0, 0.0, 0.1, 0.0, 0.0]])
    clipped = DISTANCES["l0"].region(x, np.array([2.9, 2.9]), (0, 1)).clip(candidates)
    np.testing.assert_allclose(clipped - x, [[0, -0.4, 0, 0, 0.3], [0, 0, 0.1, 0, 0]])


@pytest.mark.parametrize("norm", DISTANCES)
def test_an_infinite_budget_leaves_only_the_box(norm):
    x = np.full((2, 3), 0.5, np.float32)
    region = DISTANCES[norm].region(x, np.full(2, np.inf), (0, 1))
    np.testing.assert_array_equal(region.clip(x + np.float32(9)), 1)
    np.testing.assert_array_equal(region.project(x - np.float32(0.25)), 0.25)
