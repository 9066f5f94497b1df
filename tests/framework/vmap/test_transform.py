"""vmap as a whole: axes, nesting, gradients for each sample, randomness, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import Parameter, ShapeError, Tensor, grad, nn, ops, random, value_and_grad, vmap
from mindscope.framework.compiler.jit import jit
from mindscope.framework.errors import EngineError

NUMBERS = np.random.default_rng(11)
X = NUMBERS.normal(size=(5, 3))
W = NUMBERS.normal(size=(3, 4))


def loss(w, x):
    return (ops.tanh(x @ w) * ops.softmax(x @ w)).sum()


def loop(fn, *arrays):
    return np.stack([fn(*(Tensor(a) for a in rows)).numpy() for rows in zip(*arrays, strict=True)])


def test_vmap_equals_a_loop():
    found = vmap(loss, (None, 0))(Tensor(W), Tensor(X))
    np.testing.assert_allclose(found.numpy(), loop(lambda x: loss(Tensor(W), x), X), rtol=1e-12)


@pytest.mark.parametrize(("in_axis", "out_axis"), [(0, 1), (1, 0), (-1, -1), (1, 1)])
def test_axes_may_stand_anywhere(in_axis, out_axis):
    x = np.moveaxis(X, 0, in_axis)
    found = vmap(lambda row: row * 2.0, in_axis, out_axis)(Tensor(x))
    np.testing.assert_array_equal(found.numpy(), np.moveaxis(2 * X, 0, out_axis))


def test_containers_are_mapped_leaf_by_leaf():
    def both(pair, scale):
        return {"sum": pair["a"] + pair["b"], "scaled": (pair["a"] * scale,)}

    found = vmap(both, ({"a": 0, "b": None}, None))({"a": Tensor(X), "b": Tensor(X[0])}, 3.0)
    np.testing.assert_array_equal(found["sum"].numpy(), X + X[0])
    np.testing.assert_array_equal(found["scaled"][0].numpy(), 3 * X)


def test_an_output_that_does_not_depend_on_the_samples_is_repeated():
    found = vmap(lambda x: ops.ones((2,)))(Tensor(X))
    assert found.shape == (5, 2)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_nested_vmap_is_an_outer_product(rows, columns, inner):
    a, b = NUMBERS.normal(size=(rows, inner)), NUMBERS.normal(size=(columns, inner))
    dots = vmap(vmap(lambda x, y: (x * y).sum(), (None, 0)), (0, None))(Tensor(a), Tensor(b))
    np.testing.assert_allclose(dots.numpy(), a @ b.T, atol=1e-12)


def test_gradients_of_each_sample_equal_a_loop():
    found = vmap(grad(loss), (None, 0))(Tensor(W), Tensor(X))
    expected = loop(lambda x: grad(loss)(Tensor(W), x), X)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-13)


def network():
    random.set_seed(3)
    return nn.SequentialCell(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dense(36, 8),
        nn.LayerNorm(8),
        nn.Dense(8, 3),
    )


def test_gradients_of_parameters_for_each_sample_equal_a_loop():
    cell = network()
    images = Tensor(NUMBERS.normal(size=(6, 1, 6, 6)))
    labels = Tensor(NUMBERS.integers(0, 3, 6))
    for parameter in cell.get_parameters():
        parameter._data = parameter._data.astype(np.float64)

    def one(image, label):
        return ops.cross_entropy(cell(image.reshape(1, 1, 6, 6)), label.reshape(1))

    def gradients(image, label):
        return value_and_grad(one, None, cell.trainable_params())(image, label)

    values, found = vmap(gradients)(images, labels)
    for i in range(6):
        value, expected = gradients(images[i], labels[i])
        np.testing.assert_allclose(values.numpy()[i], value.numpy(), rtol=1e-12)
        for g, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(g.numpy()[i], wanted.numpy(), rtol=1e-10, atol=1e-12)


def test_grad_of_vmap_sums_over_the_samples():
    total = grad(lambda w: vmap(loss, (None, 0))(w, Tensor(X)).sum())(Tensor(W))
    expected = loop(lambda x: grad(loss)(Tensor(W), x), X).sum(0)
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-12, atol=1e-13)


def test_backward_through_vmap_reaches_the_leaves():
    w = Parameter(W)
    vmap(lambda x: loss(w, x))(Tensor(X)).sum().backward()
    expected = grad(lambda w: sum(loss(w, Tensor(x)) for x in X))(Tensor(W))
    np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-12, atol=1e-13)


def test_grad_of_vmap_of_grad():
    def penalty(w):
        return (vmap(grad(loss), (None, 0))(w, Tensor(X)) ** 2).sum()

    def penalty_by_loop(w):
        return sum((grad(loss)(w, Tensor(x)) ** 2).sum() for x in X)

    np.testing.assert_allclose(
        grad(penalty)(Tensor(W)).numpy(), grad(penalty_by_loop)(Tensor(W)).numpy(), rtol=1e-10, atol=1e-12
    )


def test_vmap_inside_jit_and_jit_inside_vmap():
    expected = vmap(loss, (None, 0))(Tensor(W), Tensor(X)).numpy()
    inside = jit(lambda w, x: vmap(loss, (None, 0))(w, x), capture_mode="trace")(Tensor(W), Tensor(X))
    np.testing.assert_allclose(inside.numpy(), expected, rtol=1e-12)
    outside = vmap(jit(loss, capture_mode="trace"), (None, 0))(Tensor(W), Tensor(X))
    np.testing.assert_allclose(outside.numpy(), expected, rtol=1e-12)


def test_vmap_of_grad_inside_jit():
    expected = vmap(grad(loss), (None, 0))(Tensor(W), Tensor(X)).numpy()
    found = jit(lambda w, x: vmap(grad(loss), (None, 0))(w, x), capture_mode="trace")(Tensor(W), Tensor(X))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)


ONES = Tensor(np.ones((4, 64)))


def noise(x):
    return ops.normal(random.next_key(), x.shape)


def test_keys_of_the_context_differ_from_sample_to_sample_if_asked_to():
    found = vmap(noise, randomness="different")(ONES).numpy()
    assert len({row.tobytes() for row in found}) == 4


def test_keys_of_the_context_are_the_same_if_asked_to():
    found = vmap(noise, randomness="same")(ONES).numpy()
    assert len({row.tobytes() for row in found}) == 1


def test_children_of_a_key_differ_from_sample_to_sample_too():
    def child(x):
        key = random.split(random.next_key())[1]
        return ops.uniform(random.fold_in(key, 3), x.shape)

    found = vmap(child, randomness="different")(ONES).numpy()
    assert len({row.tobytes() for row in found}) == 4


@pytest.mark.parametrize(("randomness", "masks"), [("different", 4), ("same", 1)])
def test_dropout_follows_the_randomness(randomness, masks):
    cell = nn.Dropout(0.5).set_train()
    found = vmap(cell, randomness=randomness)(ONES).numpy()
    assert len({row.tobytes() for row in found}) == masks
    slopes = vmap(grad(lambda x: cell(x).sum()), randomness=randomness)(ONES).numpy()
    assert set(np.unique(slopes)) == {0.0, 2.0}
    assert len({row.tobytes() for row in slopes}) == masks


def test_randomness_is_an_error_by_default():
    with pytest.raises(EngineError, match="randomness='error'"):
        vmap(noise)(ONES)


def test_an_explicit_key_gives_every_sample_the_same_numbers():
    key = random.Key(4)
    found = vmap(lambda x: x + ops.normal(key, x.shape, "float64"))(ONES).numpy()
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], found.shape))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vmap(lambda x, y: x + y)(Tensor(X), Tensor(X[:2])), "mapped axes of one length, got 5 and 2"),
        (lambda: vmap(lambda x: x, None)(Tensor(X)), "but none is"),
        (lambda: vmap(lambda x: x, 2)(Tensor(X)), r"cannot map axis 2 of an argument of shape \(5, 3\)"),
        (lambda: vmap(lambda x: x, (0, 0))(Tensor(X)), "an entry for each of 1 arguments"),
        (lambda: vmap(lambda x: x, 0, None)(Tensor(X)), "out_axes=None expects an output that is the same"),
    ],
)
def test_wrong_axes_are_named(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


@pytest.mark.parametrize("ask", [bool, float, lambda x: x.numpy(), lambda x: x.tolist(), lambda x: range(x)[0]])
def test_a_sample_has_no_value(ask):
    with pytest.raises(EngineError, match="inside vmap a tensor stands for many samples"):
        vmap(lambda x: x * (1.0 if ask(x.sum()) else 2.0))(Tensor(X))


def test_a_tensor_kept_from_inside_is_refused_afterwards():
    kept = []
    vmap(lambda x: kept.append(x) or x)(Tensor(X))
    with pytest.raises(EngineError, match="a vmap that has ended"):
        kept[0] + 1.0


def test_a_mask_for_each_sample_has_no_fixed_shape():
    with pytest.raises(EngineError, match=r"ops\.where"):
        vmap(lambda x: x[x > 0.0])(Tensor(X))
    with pytest.raises(EngineError, match="gives every sample another shape"):
        vmap(ops.nonzero)(Tensor(X))
