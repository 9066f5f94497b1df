import numpy as np
import pytest
from mindscope.armour.distances.boundary_steps import trust_step
from scipy.optimize import minimize

SIZE = 5


def cases(seed):
    """Inputs, boundary points near them, and planes through places that the sphere reaches inside the box."""
    generator = np.random.default_rng(seed)
    x = np.clip(generator.uniform(-0.3, 1.3, (6, SIZE)), 0, 1)
    at = np.clip(x + generator.uniform(-0.5, 0.5, x.shape), 0, 1)
    normal = generator.standard_normal(x.shape)
    inside = np.clip(at + 0.15 * generator.uniform(-1, 1, x.shape) / np.sqrt(SIZE), 0, 1)
    return x, at, normal, np.sum(normal * (inside - at), axis=1), np.full(6, 0.15)


def slow(norm, x, at, normal, gap, radius):
    """The shortest distance by SciPy's general solver, from a few starts."""
    limit = [{"type": "eq", "fun": lambda d: normal @ d[:SIZE] - gap}]
    limit.append({"type": "ineq", "fun": lambda d: radius**2 - d[:SIZE] @ d[:SIZE]})
    box = list(zip(-at, 1 - at, strict=True))
    if norm == "linf":
        limit.append({"type": "ineq", "fun": lambda d: d[SIZE] - (x - at - d[:SIZE])})
        limit.append({"type": "ineq", "fun": lambda d: d[SIZE] + (x - at - d[:SIZE])})
        cost, box, start = (lambda d: d[SIZE]), [*box, (0, 2)], np.append(np.zeros(SIZE), 1.0)
    else:
        cost, start = (lambda d: np.sum((x - at - d) ** 2)), np.zeros(SIZE)
    found = minimize(
        cost, start, method="SLSQP", bounds=box, constraints=limit, options={"ftol": 1e-12, "maxiter": 500}
    )
    return found.fun if norm == "linf" else np.sqrt(found.fun)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("seed", range(3))
def test_the_step_keeps_plane_sphere_and_box_and_comes_as_near_as_a_general_solver(norm, seed):
    x, at, normal, gap, radius = cases(seed)
    change = trust_step(norm, x, at, normal, gap, radius, (0.0, 1.0))
    np.testing.assert_allclose(np.sum(normal * change, axis=1), gap, atol=1e-8)
    assert (np.linalg.norm(change, axis=1) <= radius + 1e-9).all()
    assert (np.abs(np.clip(at + change, 0, 1) - at - change) < 1e-12).all()
    order = np.inf if norm == "linf" else 2
    reached = np.linalg.norm(x - at - change, order, axis=1)
    shortest = [slow(norm, *one) for one in zip(x, at, normal, gap, radius, strict=True)]
    np.testing.assert_allclose(reached, shortest, atol=2e-4)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_plane_out_of_reach_is_approached_as_far_as_the_sphere_goes(norm):
    x, at = np.full((1, 3), 0.5), np.full((1, 3), 0.4)
    normal = np.array([[2.0, 0.0, -1.0]])
    change = trust_step(norm, x, at, normal, np.array([9.0]), np.array([0.01]), (0.0, 1.0))
    np.testing.assert_allclose(np.linalg.norm(change), 0.01)
    assert (normal * change).sum() > 0.01


def test_without_a_plane_in_the_way_the_step_leads_to_the_input():
    x, at = np.array([[0.2, 0.9]]), np.array([[0.25, 0.8]])
    normal = np.array([[1.0, 1.0]])
    change = trust_step("l2", x, at, normal, np.sum(x - at, axis=1), np.array([1.0]), (0.0, 1.0))
    np.testing.assert_allclose(at + change, x)
