"""Saved tensors: packed on the way forward, unpacked on the way back; memory falls and gradients stay equal."""

import gc
import weakref
import zlib

import numpy as np
import pytest
from mindscope.framework import GradientError, Parameter, Tensor, grad, gradients, ops, saved_tensors_hooks


def network(depth, width=32):
    numbers = np.random.default_rng(3)
    weights = [Parameter(numbers.normal(0, 0.2, (width, width))) for _ in range(depth)]

    def loss(x):
        for w in weights:
            x = ops.tanh(x @ w)
        return (x * x).mean()

    return loss, weights


X = np.random.default_rng(5).normal(size=(64, 32))


def test_saved_tensors_on_disk_give_the_same_gradients(tmp_path):
    loss, weights = network(4)
    expected = [g.numpy() for g in gradients(loss(Tensor(X)), weights)]

    def pack(x):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
        np.save(path, x.numpy())
        return path

    with saved_tensors_hooks(pack, lambda path: Tensor(np.load(path))):
        value = loss(Tensor(X))
    assert len(list(tmp_path.iterdir())) >= 5
    for found, wanted in zip(gradients(value, weights), expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_saved_tensors_in_compressed_memory_need_less_of_it():
    def compress(x):
        return zlib.compress(x.numpy().tobytes(), 1), x.shape, x.dtype

    def restore(content):
        data, shape, dtype = content
        return Tensor(np.frombuffer(zlib.decompress(data), dtype).reshape(shape))

    sizes = []

    def pack(x):
        content = compress(x)
        sizes.append((x.numpy().nbytes, len(content[0])))
        return content

    x = Tensor(np.repeat(np.arange(64.0), 64).reshape(64, 64), requires_grad=True)
    with saved_tensors_hooks(pack, restore):
        y = ops.relu(x - 30.0)
        value = (y * y).sum()
    assert sum(after for _, after in sizes) < 0.1 * sum(before for before, _ in sizes)
    (found,) = gradients(value, [x])
    np.testing.assert_array_equal(found.numpy(), 2 * np.maximum(x.numpy() - 30, 0))


def test_what_was_packed_is_not_kept_by_the_tape():
    seen = []

    def forget(x):
        seen.append(weakref.ref(x.numpy()))

    loss, _ = network(6)
    with saved_tensors_hooks(forget, lambda _: None):
        kept = loss(Tensor(X))
    gc.collect()
    assert kept.requires_grad
    assert len(seen) > 6
    assert sum(array() is not None and array() is not X for array in seen) <= 1  # the loss itself


def test_an_array_that_many_nodes_save_is_packed_once():
    packed = []
    x = Tensor(X, requires_grad=True)
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = ops.exp(x)
        value = (y * y + ops.sin(y)).sum()
    assert sum(t.numpy() is y.numpy() for t in packed) == 1
    (found,) = gradients(value, [x])
    e = np.exp(X)
    np.testing.assert_allclose(found.numpy(), (2 * e + np.cos(e)) * e)


def test_parameters_are_not_packed():
    w = Parameter(X)
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t.numpy()) or t, lambda t: t):
        (w * 2.0 * w).sum()
    assert not any(array is w.numpy() for array in packed)


def test_second_derivatives_go_through_packed_tensors():
    def cube(x):
        with saved_tensors_hooks(lambda t: t.numpy().copy(), lambda a: Tensor(a)):
            return (x * x * x).sum()

    found = grad(lambda x: (grad(cube)(x) * x).sum())(Tensor(X))
    np.testing.assert_allclose(found.numpy(), 9 * X * X)


def test_unpack_must_return_what_was_packed():
    x = Tensor(X, requires_grad=True)
    with saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
        value = (ops.exp(x) * x).sum()
    with pytest.raises(GradientError, match=r"unpack\(\) .* expects .* \(64, 32\) float64, got \(1, 32\)"):
        value.backward()
