"""Jacobians and Hessians, forward and reverse, against finite differences and each other, eager and compiled."""

import numpy as np
import pytest
from mindscope.framework import GradientError, Tensor, grad, hessian, jacfwd, jacrev, jvp, linearize, ops, vjp
from mindscope.framework.compiler.jit import jit

NUMBERS = np.random.default_rng(2)
X = NUMBERS.normal(size=3)
A = NUMBERS.normal(size=(2, 3))


def vector(x, a):
    return ops.tanh(a @ x) * (x * x).sum()


def differences(fn, x, step=1e-6):
    columns = []
    for place in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (fn(Tensor(m)).numpy() for m in moved)
        columns.append((high - low) / (2 * step))
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_the_jacobian_agrees_with_differences(jacobian):
    by_x, by_a = jacobian(vector, (0, 1))(Tensor(X), Tensor(A))
    np.testing.assert_allclose(by_x.numpy(), differences(lambda x: vector(x, Tensor(A)), X), atol=1e-8)
    np.testing.assert_allclose(by_a.numpy(), differences(lambda a: vector(Tensor(X), a), A), atol=1e-8)
    assert (by_x.shape, by_a.shape) == ((2, 3), (2, 2, 3))


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_several_outputs_give_a_tuple_of_jacobians(jacobian):
    first, second = jacobian(lambda x: (x * x, x.sum()))(Tensor(X))
    np.testing.assert_allclose(first.numpy(), np.diag(2 * X))
    np.testing.assert_allclose(second.numpy(), np.ones(3))


def scalar(x):
    return (ops.exp(x * x[0]) * ops.sin(x)).sum()


def test_the_hessian_is_that_of_differences_and_symmetric():
    found = hessian(scalar)(Tensor(X)).numpy()
    np.testing.assert_allclose(found, differences(grad(scalar), X), atol=1e-7)
    np.testing.assert_allclose(found, found.T, atol=1e-12)


def test_four_ways_to_second_derivatives_agree():
    expected = hessian(scalar)(Tensor(X)).numpy()
    for outer in (jacrev, jacfwd):
        for inner in (jacrev, jacfwd, grad):
            np.testing.assert_allclose(outer(inner(scalar))(Tensor(X)).numpy(), expected, atol=1e-11)


def test_third_derivatives():
    cubes = jacfwd(hessian(lambda x: (x * x * x).sum()))(Tensor(X)).numpy()
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 6.0
    np.testing.assert_allclose(cubes, expected, atol=1e-12)


def test_the_hessian_by_several_arguments_has_mixed_blocks():
    (aa, ab), (ba, bb) = hessian(lambda a, b: (a * a * b).sum(), (0, 1))(Tensor(X), Tensor(X + 1))
    np.testing.assert_allclose(aa.numpy(), np.diag(2 * (X + 1)), atol=1e-12)
    np.testing.assert_allclose(ab.numpy(), np.diag(2 * X), atol=1e-12)
    np.testing.assert_allclose(ba.numpy(), ab.numpy().T, atol=1e-12)
    np.testing.assert_allclose(bb.numpy(), np.zeros((3, 3)), atol=1e-12)


@pytest.mark.parametrize("transform", [hessian, lambda f: jacrev(grad(f)), lambda f: jacfwd(jacfwd(f))])
def test_compiled_and_eager_agree(transform):
    expected = transform(scalar)(Tensor(X)).numpy()
    np.testing.assert_allclose(
        jit(transform(scalar), capture_mode="trace")(Tensor(X)).numpy(), expected, rtol=1e-12, atol=1e-12
    )
    inside = transform(jit(scalar, capture_mode="trace"))(Tensor(X))
    np.testing.assert_allclose(inside.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_the_hessian_of_a_vector_is_refused():
    with pytest.raises(GradientError, match="the Hessian is that of a scalar"):
        hessian(lambda x: x * x)(Tensor(X))


def test_push_forward_and_pull_back_are_transposes():
    v, u = Tensor(NUMBERS.normal(size=3)), Tensor(NUMBERS.normal(size=2))
    _, pushed = jvp(lambda x: vector(x, Tensor(A)), (Tensor(X),), (v,))
    _, pull_back = vjp(lambda x: vector(x, Tensor(A)), Tensor(X))
    left = float((u * pushed).sum())
    right = float((pull_back(u)[0] * v).sum())
    assert abs(left - right) < 1e-12


def test_a_linearized_function_is_called_as_often_as_one_likes():
    y, push = linearize(lambda x: (x * x, x.sum()), Tensor(X))
    np.testing.assert_allclose(y[0].numpy(), X * X)
    for factor in (1.0, -2.0):
        first, second = push(Tensor(X * factor))
        np.testing.assert_allclose(first.numpy(), 2 * X * X * factor)
        np.testing.assert_allclose(second.numpy(), X.sum() * factor)


def test_forward_over_forward():
    def slope(x):
        return jvp(lambda z: z * z * z, (x,), (ops.ones_like(x),))[1]

    _, second = jvp(slope, (Tensor(X),), (Tensor(np.ones(3)),))
    np.testing.assert_allclose(second.numpy(), 6 * X)


def test_a_tangent_of_another_shape_is_refused():
    with pytest.raises(GradientError, match=r"tangent 0 expects a floating-point Tensor of shape \(3,\), got \(2,\)"):
        jvp(lambda x: x, (Tensor(X),), (Tensor(X[:2]),))


def test_the_pull_back_of_a_tuple_takes_a_tuple():
    (first, second), pull_back = vjp(lambda x: (x * x, x.sum()), Tensor(X))
    (found,) = pull_back((Tensor(np.ones(3)), Tensor(np.array(2.0))))
    np.testing.assert_allclose(found.numpy(), 2 * X + 2)
    assert not first.requires_grad
    assert not second.requires_grad
