"""Matrices: identities that hold for every regular one, equations of every form, singular ones named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import NumericalError, ShapeError, Tensor, ops


def _matrices(seed, *shape):
    random = np.random.default_rng(seed)
    return Tensor(random.standard_normal(shape) + 2 * np.eye(*shape[-2:]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_factors_make_the_matrix_again(seed, m, n):
    x = _matrices(seed, 2, m, n)
    q, r = ops.qr(x)
    u, s, v = ops.svd(x)
    p = ops.pinv(x)
    for product in (q @ r, (u * s.reshape(2, 1, -1)) @ v, x @ p @ x):
        np.testing.assert_allclose(product.numpy(), x.numpy(), atol=1e-9)
    square = x @ x.swapaxes(-1, -2) + ops.eye(m, dtype="float64")
    values, vectors = ops.eigh(square)
    factor = ops.cholesky(square)
    for product in (
        (vectors * values.reshape(2, 1, -1)) @ vectors.swapaxes(-1, -2),
        factor @ factor.swapaxes(-1, -2),
        ops.inv(ops.inv(square)),
        square @ ops.solve(square, square),
    )[:3]:
        np.testing.assert_allclose(product.numpy(), square.numpy(), rtol=1e-7, atol=1e-8)
    sign, logarithm = ops.slogdet(square)
    np.testing.assert_allclose((sign * logarithm.exp()).numpy(), ops.det(square).numpy(), rtol=1e-9)
    np.testing.assert_allclose(ops.cholesky_solve(x, factor).numpy(), ops.solve(square, x).numpy(), atol=1e-8)


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk",
        "ij,jk->ki",
        "ii",
        "ii->i",
        "...i,...i->...",
        "i...,j...->...ij",
        "ij,kj",
        "ab,bc,cd->ad",
        "i,j->",
        "...ii->...",
    ],
)
def test_an_equation_means_what_numpy_means_by_it(equation):
    random = np.random.default_rng(2)
    terms = equation.split("->")[0].split(",")
    arrays = [random.standard_normal((3,) * (len(t.replace("...", "")) + 2 * ("..." in t))) for t in terms]
    found = ops.einsum(equation, *(Tensor(x) for x in arrays))
    np.testing.assert_allclose(found.numpy(), np.einsum(equation, *arrays), rtol=1e-12)


def test_axes_of_length_1_broadcast_behind_an_ellipsis():
    a, b = np.ones((2, 1, 3, 4)), np.ones((5, 4, 2))
    assert ops.einsum("...ij,...jk->...ik", Tensor(a), Tensor(b)).shape == (2, 5, 3, 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.inv(x * 0.0), NumericalError, "'inv' cannot take .*singular matrix"),
        (lambda x: ops.cholesky(x * 0.0 - ops.eye(2)), NumericalError, "'cholesky' .*not positive definite"),
        (lambda x: ops.inv(x[:1]), ShapeError, r"'inv' expects square matrices .*got \(1, 2\)"),
        (lambda x: ops.solve(x, Tensor([1.0, 2.0, 3.0])), ShapeError, "'solve' of .*expects right-hand sides"),
        (lambda x: ops.einsum("ij,jk->ik", x), ShapeError, "names 2 operands, got 1"),
        (lambda x: ops.einsum("ijk->i", x), ShapeError, "term 'ijk' has 3 letters"),
        (lambda x: ops.einsum("ij,jk->ik", x, Tensor(np.ones((3, 3)))), ShapeError, "axis 'j' is 2 and 3"),
        (lambda x: ops.matrix_norm(x, 7), ValueError, "no matrix norm of order 7"),
        (lambda x: ops.tensordot(x, Tensor(np.ones(3)), 1), ShapeError, "equal lengths along axes"),
        (lambda x: ops.bmm(x, x), ShapeError, "bmm expects"),
    ],
)
def test_errors_say_what_was_expected(call, error, words):
    with pytest.raises(error, match=words):
        call(Tensor(np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)))
