"""Devices: operations follow their operands, gradients come home, mixing is named."""

import numpy as np
import pytest
from mindscope.framework import Parameter, Tensor, grad, ops, value_and_grad, vmap
from mindscope.framework.devices import DeviceError, register_device

pytest.importorskip("jax", reason="needs JAX (extra 'xla')")

X = np.random.default_rng(1).normal(size=(3, 4))


def function(x, w):
    return (ops.tanh(x @ w) * ops.softmax(x @ w)).sum()


W = np.random.default_rng(2).normal(size=(4, 2))


def test_values_go_there_and_back():
    x = Tensor(X)
    there = x.to("xla")
    assert (x.device, there.device) == ("CPU", "xla:cpu:0")
    assert there.to("xla:cpu") is there
    back = there.to("CPU")
    assert type(back) is Tensor
    np.testing.assert_array_equal(back.numpy(), X)
    assert x.to("CPU") is x


def test_operations_stay_on_the_device_and_agree_with_the_host():
    y = function(Tensor(X).to("xla"), Tensor(W).to("xla"))
    assert y.device == "xla:cpu:0"
    np.testing.assert_allclose(float(y), float(function(Tensor(X), Tensor(W))), rtol=1e-12)


def test_gradients_are_where_the_tensors_are():
    there = [Tensor(a).to("xla") for a in (X, W)]
    value, found = value_and_grad(function, (0, 1))(*there)
    _, expected = value_and_grad(function, (0, 1))(Tensor(X), Tensor(W))
    assert value.device == "xla:cpu:0"
    for g, wanted in zip(found, expected, strict=True):
        assert g.device == "xla:cpu:0"
        np.testing.assert_allclose(g.numpy(), wanted.numpy(), rtol=1e-11, atol=1e-13)


def test_gradients_come_home_through_the_transfer():
    w = Parameter(W)
    function(Tensor(X).to("xla"), w.to("xla")).backward()
    assert w.grad.device == "CPU"
    np.testing.assert_allclose(w.grad.numpy(), grad(function, 1)(Tensor(X), Tensor(W)).numpy(), rtol=1e-11, atol=1e-13)


def test_second_derivatives_and_vmap_work_on_the_device():
    x = Tensor(X).to("xla")
    second = grad(lambda x: (grad(lambda x: (x * x * x).sum())(x) * x).sum())(x)
    np.testing.assert_allclose(second.numpy(), 9 * X * X, rtol=1e-12)
    rows = vmap(grad(lambda row: (row * row).sum()))(x)
    assert rows.device == "xla:cpu:0"
    np.testing.assert_allclose(rows.numpy(), 2 * X, rtol=1e-12)


def test_indices_and_numbers_of_the_host_come_along():
    x = Tensor(X).to("xla")
    np.testing.assert_array_equal((x[Tensor(np.array([2, 0]))] * 2.0).numpy(), 2 * X[[2, 0]])
    np.testing.assert_array_equal(x[x > 0.0].numpy(), X[X > 0])
    np.testing.assert_array_equal((x + Tensor(np.array(1.0))).numpy(), X + 1)


def test_mixing_devices_names_the_primitive_and_both():
    with pytest.raises(DeviceError, match=r"'matmul' got .* two devices: \(3, 4\) on xla:cpu:0, \(4, 2\) on CPU"):
        Tensor(X).to("xla") @ Tensor(W)


@pytest.mark.parametrize(
    ("device", "message"),
    [("xlaa", "did you mean 'xla'"), ("abacus", "known are CPU, xla"), ("GPU", "no device of platform 'gpu'")],
)
def test_a_device_that_is_not_there_is_named(device, message):
    with pytest.raises(DeviceError, match=message):
        Tensor(X).to(device)


def test_values_are_overwritten_and_printed_on_the_device():
    x = Tensor(X).to("xla")
    x.copy_(X + 1)
    np.testing.assert_array_equal(x.numpy(), X + 1)
    assert "device='xla:cpu:0'" in repr(x)
    assert x.tolist() == (X + 1).tolist()
    with pytest.raises(DeviceError, match="cannot be assigned to in part"):
        x[0] = 0.0


def test_a_device_of_ones_own():
    class Mirror(Tensor):
        device = "mirror:0"

        @classmethod
        def __fallback__(cls, primitive, inputs, attributes):
            plain = [Tensor(x) if isinstance(x, Mirror) else x for x in inputs]
            if primitive.name == "transfer":
                return plain[0]
            return cls(primitive(*plain, **attributes))

    register_device("mirror")(lambda array, platform: Mirror(array))
    y = Tensor(X).to("mirror") * 2.0
    assert y.device == "mirror:0"
    np.testing.assert_array_equal(y.to("CPU").numpy(), 2 * X)
    with pytest.raises(ValueError, match="registered already"):
        register_device("xla")(None)
