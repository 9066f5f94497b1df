"""Derivatives of one's own: eager, of higher order, mapped, compiled; cells with bprop."""

import numpy as np
import pytest
from mindscope.framework import GradientError, Parameter, Tensor, custom_vjp, grad, jvp, nn, ops, vmap
from mindscope.framework.compiler.jit import jit

X = np.random.default_rng(8).normal(size=(3, 4))


@custom_vjp
def cube(x):
    return x * x * x


cube.defvjp(lambda x: (x * x * x, x), lambda x, g: (g * x * x * 30.0,))  # ten times too steep, so that one sees it


@custom_vjp
def clip_gradient(x, bound):
    return x


clip_gradient.defvjp(lambda x, bound: (x, bound), lambda bound, g: (ops.clip(g, -bound, bound), None))


def test_the_rule_is_used():
    np.testing.assert_array_equal(cube(Tensor(X)).numpy(), X * X * X)
    np.testing.assert_allclose(grad(lambda x: cube(x).sum())(Tensor(X)).numpy(), 30 * X * X)


def test_arguments_that_are_no_tensors_are_passed_on():
    found = grad(lambda x: (clip_gradient(x, 0.5) * Tensor(X)).sum())(Tensor(X))
    np.testing.assert_allclose(found.numpy(), np.clip(X, -0.5, 0.5))


def test_second_derivatives_are_those_of_the_rule():
    second = grad(lambda x: grad(lambda x: cube(x).sum())(x).sum())(Tensor(X))
    np.testing.assert_allclose(second.numpy(), 60 * X)


def test_forward_mode_uses_the_rule_too():
    _, pushed = jvp(cube, (Tensor(X),), (Tensor(np.ones_like(X)),))
    np.testing.assert_allclose(pushed.numpy(), 30 * X * X)


def test_it_is_mapped():
    expected = 30 * X * X
    per_row = vmap(grad(lambda x: cube(x).sum()))(Tensor(X))
    np.testing.assert_allclose(per_row.numpy(), expected)
    total = grad(lambda x: vmap(cube)(x).sum())(Tensor(X))
    np.testing.assert_allclose(total.numpy(), expected)


def test_it_is_compiled():
    expected = 30 * X * X
    inside = jit(grad(lambda x: cube(x).sum()), capture_mode="trace")(Tensor(X))
    np.testing.assert_allclose(inside.numpy(), expected)
    outside = grad(jit(lambda x: cube(x).sum(), capture_mode="trace"))(Tensor(X))
    np.testing.assert_allclose(outside.numpy(), expected)


def test_outputs_and_residuals_may_be_nested():
    @custom_vjp
    def both(a, b):
        return {"sum": a + b, "parts": (a * b,)}

    def backward(residuals, g):
        a, (b, word) = residuals
        assert word == "kept"
        return g["sum"] + g["parts"][0] * b, g["sum"] + g["parts"][0] * a

    both.defvjp(lambda a, b: ({"sum": a + b, "parts": (a * b,)}, (a, [b, "kept"])), backward)

    def loss(a, b):
        out = both(a, b)
        return (out["sum"] * 2.0 + out["parts"][0]).sum()

    found = grad(loss, (0, 1))(Tensor(X), Tensor(X + 1))
    np.testing.assert_allclose(found[0].numpy(), 2 + X + 1)
    np.testing.assert_allclose(found[1].numpy(), 2 + X)


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda r, g: (g, g), "for each of its 1 positional arguments, got 2"),
        (lambda r, g: (g.sum(),), r"a gradient of shape \(3, 4\) or None, got shape \(\)"),
        (lambda r, g: (1.0,), "got float"),
    ],
)
def test_a_wrong_backward_is_named(backward, message):
    wrong = custom_vjp(lambda x: x * 2.0)
    wrong.defvjp(lambda x: (x * 2.0, None), backward)
    with pytest.raises(GradientError, match=message):
        grad(lambda x: wrong(x).sum())(Tensor(X))


def test_halves_must_be_given():
    with pytest.raises(GradientError, match="give them by defvjp"):
        custom_vjp(lambda x: x)(Tensor(X))


class Steep(nn.Cell):
    """`x y`, with a gradient that remembers nothing but the sign."""

    def construct(self, x, y):
        return x * y

    def bprop(self, x, y, out, dout):
        assert out.shape == dout.shape
        return ops.sign(y) * dout, ops.sign(x) * dout


def test_a_cell_with_bprop_has_that_gradient():
    found = grad(lambda x, y: Steep()(x, y).sum(), (0, 1))(Tensor(X), Tensor(X + 1))
    np.testing.assert_array_equal(found[0].numpy(), np.sign(X + 1))
    np.testing.assert_array_equal(found[1].numpy(), np.sign(X))


def test_a_cell_with_bprop_keeps_its_hooks_and_is_compiled():
    cell, seen = Steep(), []
    handle = cell.register_backward_hook(lambda cell, grad_input, grad_output: seen.append(len(grad_input)))
    grad(lambda x, y: cell(x, y).sum())(Tensor(X), Tensor(X))
    handle.remove()
    assert seen == [2]
    found = jit(grad(lambda x, y: cell(x, y).sum()), capture_mode="trace")(Tensor(X), Tensor(X + 1))
    np.testing.assert_array_equal(found.numpy(), np.sign(X + 1))


def test_a_cell_with_bprop_has_no_trained_parameters():
    class Scaled(Steep):
        def __init__(self):
            super().__init__()
            self.scale = Parameter(np.ones(4))

    with pytest.raises(GradientError, match=r"bprop .* trained parameter 'scale'"):
        grad(lambda x: Scaled()(x, x).sum())(Tensor(X))
