"""grad, value_and_grad, vjp and jvp, nested as deep as one likes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import (
    GradientError,
    Parameter,
    Tensor,
    grad,
    jvp,
    ops,
    stop_gradient,
    value_and_grad,
    vjp,
)


def x_of(*numbers):
    return Tensor(np.array(numbers, np.float64))


def cube(x):
    return (x * x * x).sum()


def test_grad_of_grad_of_grad():
    second = grad(lambda x: grad(cube)(x).sum())
    third = grad(lambda x: second(x).sum())
    np.testing.assert_allclose(second(x_of(1.0, 2.0)).numpy(), [6.0, 12.0])
    np.testing.assert_allclose(third(x_of(1.0, 2.0)).numpy(), [6.0, 6.0])


def test_value_and_grad_by_positions_and_weights():
    w = Parameter(np.array([3.0, 4.0]), "w")
    value, (of_inputs, of_weights) = value_and_grad(lambda x, y: (x * y * w).sum(), (0, 1), [w])(
        x_of(1.0, 2.0), x_of(5.0, 6.0)
    )
    assert float(value) == 63.0
    np.testing.assert_array_equal(of_inputs[0].numpy(), [15.0, 24.0])
    np.testing.assert_array_equal(of_inputs[1].numpy(), [3.0, 8.0])
    np.testing.assert_array_equal(of_weights[0].numpy(), [5.0, 12.0])
    assert w.grad is None


def test_a_single_parameter_gives_a_single_gradient():
    w = Parameter(np.array([3.0]), "w")
    assert float(grad(lambda: (w * w).sum(), None, w)()) == 6.0


def test_aux_outputs_come_back_outside_the_graph():
    w = Parameter(np.array([3.0]), "w")
    (loss, double), (g,) = value_and_grad(lambda: ((w * w).sum(), w * 2.0), None, [w], has_aux=True)()
    assert (float(loss), float(double), float(g)) == (9.0, 6.0, 6.0)
    assert not double.requires_grad
    assert grad(lambda: ((w * w).sum(), w * 2.0), None, [w], has_aux=True)()[1][0].numpy() == [6.0]


def test_what_the_loss_does_not_depend_on_has_gradient_zero():
    found = grad(lambda x, y: x.sum(), (0, 1))(x_of(1.0), x_of(2.0, 3.0))
    np.testing.assert_array_equal(found[1].numpy(), [0.0, 0.0])
    np.testing.assert_array_equal(grad(lambda x: Tensor(np.ones(())))(x_of(1.0)).numpy(), [0.0])


def test_stop_gradient_is_a_constant():
    np.testing.assert_array_equal(grad(lambda x: (x * stop_gradient(x)).sum())(x_of(3.0)).numpy(), [3.0])


def test_a_gradient_inside_a_trained_function_reaches_the_weights():
    w = Parameter(np.array([2.0, 3.0]), "w")

    def penalty(x):
        return (grad(lambda x: (w * x * x).sum())(x) ** 2).sum()

    # sum (2 w x)**2, so d/dw = 8 w x**2
    np.testing.assert_allclose(grad(penalty, None, [w])(x_of(1.0, 2.0))[0].numpy(), [16.0, 96.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: grad(cube, None), "nothing to differentiate by"),
        (lambda: grad(cube)(np.ones(2)), "wrap the value in Tensor"),
        (lambda: grad(lambda x: (x.sum(), x))(x_of(1.0)), "has_aux=True"),
        (lambda: grad(lambda x: x)(x_of(1.0, 2.0)), "reduce it to a scalar"),
    ],
)
def test_misuse_is_told_what_to_do(make, words):
    with pytest.raises(GradientError, match=words):
        make()


def test_vjp_can_be_pulled_back_again_and_again():
    y, pull = vjp(lambda a, b: a * b, x_of(2.0, 3.0), x_of(5.0, 7.0))
    np.testing.assert_array_equal(y.numpy(), [10.0, 21.0])
    for scale in (1.0, 2.0):
        a, b = pull(x_of(scale, scale))
        np.testing.assert_array_equal(a.numpy(), [5.0 * scale, 7.0 * scale])
        np.testing.assert_array_equal(b.numpy(), [2.0 * scale, 3.0 * scale])


_numbers = st.lists(st.floats(-2, 2), min_size=3, max_size=3)


@settings(max_examples=40, deadline=None)
@given(x=_numbers, t=_numbers, ct=_numbers)
def test_jvp_and_vjp_are_transposes(x, t, ct):
    def fn(x):
        return ops.softmax(ops.tanh(x) * x) + ops.sigmoid(x)

    primal, tangent, cotangent = x_of(*x), x_of(*t), x_of(*ct)
    y, pushed = jvp(fn, [primal], [tangent])
    again, pull = vjp(fn, primal)
    np.testing.assert_array_equal(y.numpy(), again.numpy())
    forward = (pushed.numpy() * cotangent.numpy()).sum()
    backward = (pull(cotangent)[0].numpy() * tangent.numpy()).sum()
    np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-12)


def test_jvp_of_a_linear_function_and_of_a_constant():
    y, pushed = jvp(lambda x: x * 3.0, [x_of(1.0)], [x_of(2.0)])
    assert (float(y), float(pushed)) == (3.0, 6.0)
    y, pushed = jvp(lambda x: Tensor(np.ones(1)), [x_of(1.0)], [x_of(2.0)])
    assert float(pushed) == 0.0


def test_the_callers_tensor_is_left_as_it_was():
    x = x_of(1.0, 2.0)
    grad(cube)(x)
    assert not x.requires_grad
    assert x.grad is None
