import numpy as np
import pytest
from mindscope.armour.search.penalty_descent import minimize
from scipy.optimize import minimize as minimize_one

GENERATOR = np.random.default_rng(0)
SAMPLES, SIZE = 6, 9
ROOTS = GENERATOR.standard_normal((SAMPLES, SIZE, SIZE))
MATRICES = ROOTS @ ROOTS.transpose(0, 2, 1) + 0.1 * np.eye(SIZE)
CENTRES = GENERATOR.uniform(-0.5, 1.5, (SAMPLES, SIZE))  # most minima lie on the box


def value_and_gradient(points, rows):
    away = points - CENTRES[rows]
    pulled = np.einsum("nij,nj->ni", MATRICES[rows], away)
    return 0.5 * np.sum(away * pulled, axis=1), pulled


@pytest.mark.parametrize("rows", [np.arange(SAMPLES), np.array([1, 4])])
def test_minima_in_the_box_are_those_that_scipy_finds_one_by_one(rows):
    best = np.full(SAMPLES, np.inf)

    def seen(points, asked):
        assert points.min() >= 0
        assert points.max() <= 1
        value, gradient = value_and_gradient(points, asked)
        best[asked] = np.minimum(best[asked], value)
        return value, gradient

    minimize(seen, np.full((len(rows), SIZE), 0.5), rows, (0.0, 1.0), 200)
    for row in rows:
        one = minimize_one(
            lambda point, row=row: tuple(part[0] for part in value_and_gradient(point[None], np.array([row]))),
            np.full(SIZE, 0.5), jac=True, method="L-BFGS-B", bounds=[(0, 1)] * SIZE, options={"maxiter": 1000},
        )  # fmt: skip
        assert best[row] == pytest.approx(one.fun, rel=1e-5, abs=1e-9)
    assert np.isinf(np.delete(best, rows)).all()


def test_a_sample_goes_the_same_way_in_whatever_company():
    def path(rows):
        met = []
        minimize(
            lambda points, asked: (met.append(points[asked == 1]), value_and_gradient(points, asked))[1],
            np.full((len(rows), SIZE), 0.5), rows, (0.0, 1.0), 20,
        )  # fmt: skip
        return np.concatenate(met)

    np.testing.assert_allclose(path(np.array([1])), path(np.arange(SAMPLES)), atol=1e-9)
