import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.armour.distances import DISTANCES
from mindscope.armour.distances.boundary_steps import dual_length, step_to_hyperplane
from scipy.optimize import linprog

EACH = pytest.mark.parametrize("norm", ["l1", "l2", "linf"])


def problem(seed, size=7):
    generator = np.random.default_rng(seed)
    x = np.clip(generator.uniform(-0.3, 1.3, (1, size)), 0, 1)  # some elements touch the box
    normal = generator.standard_normal((1, size)) * (generator.random((1, size)) > 0.2)
    return x, normal


@EACH
@given(seed=st.integers(0, 2000), share=st.floats(0.01, 0.99), sign=st.sampled_from([-1, 1]))
def test_the_plane_is_reached_inside_the_box_and_nothing_shorter_reaches_it(norm, seed, share, sign):
    x, normal = problem(seed)
    room = np.where(sign * normal > 0, 1 - x, x)
    gap = sign * share * np.abs(normal * room).sum(axis=1)
    change = step_to_hyperplane(norm, x, normal, gap, (0.0, 1.0))
    np.testing.assert_allclose((normal * change).sum(axis=1), gap, atol=1e-9)
    assert (x + change >= -1e-12).all()
    assert (x + change <= 1 + 1e-12).all()
    length = DISTANCES[norm].measure(x, x + change)[0]
    if norm == "l2":  # the change of a projection makes no acute angle with the way to any other point of the plane
        others = np.concatenate([step_to_hyperplane("l1", x, normal, gap, (0.0, 1.0))] * 2) - change
        assert (others @ change[0] >= -1e-9).all()
    else:
        np.testing.assert_allclose(length, shortest(norm, x[0], normal[0], gap[0]), atol=1e-8)


def shortest(norm, x, normal, gap):
    """The same length by linear programming: change = rise - fall, and a bound on each where the norm is Linf."""
    size = len(x)
    bound = [(0, 1 - value) for value in x] + [(0, value) for value in x]
    row = np.concatenate([normal, -normal])
    if norm == "l1":
        return linprog(np.ones(2 * size), A_eq=[row], b_eq=[gap], bounds=bound).fun
    limits = np.hstack([np.eye(2 * size), -np.ones((2 * size, 1))])
    cost = np.append(np.zeros(2 * size), 1.0)
    return linprog(cost, limits, np.zeros(2 * size), [np.append(row, 0.0)], [gap], bounds=[*bound, (0, None)]).fun


@EACH
def test_a_plane_out_of_reach_leads_to_the_corner_nearest_to_it(norm):
    x, normal = np.array([[0.25, 0.5, 1.0]]), np.array([[2.0, -1.0, 3.0]])
    np.testing.assert_allclose(x + step_to_hyperplane(norm, x, normal, np.array([99.0]), (0, 1)), [[1, 0, 1]])


@EACH
def test_a_flat_model_moves_nothing(norm):
    x = np.full((2, 3), 0.5, np.float32)
    change = step_to_hyperplane(norm, x, np.zeros_like(x), np.array([1.0, -1.0], np.float32), (0, 1))
    assert change.dtype == np.float32
    assert not change.any()


@EACH
def test_far_from_the_box_the_length_is_the_gap_over_the_dual_length(norm):
    x, normal = np.zeros((1, 5)), np.random.default_rng(0).standard_normal((1, 5))
    change = step_to_hyperplane(norm, x, normal, np.array([0.3]), (-99.0, 99.0))
    expected = 0.3 / dual_length(norm, normal)
    np.testing.assert_allclose(DISTANCES[norm].measure(x, change), expected)
