"""Classes of tensors that intercept primitives, and the tape above them: a log, units, lazy values."""

import numpy as np
import pytest
from mindscope.framework import Tensor, grad, gradients, no_grad, ops, value_and_grad
from mindscope.framework.specs import spec_of


class LoggingTensor(Tensor):
    """Writes down every primitive, and computes it as always."""

    __slots__ = ("log",)

    def __init__(self, data, log):
        super().__init__(data)
        self.log = log

    @classmethod
    def __fallback__(cls, primitive, inputs, attributes):
        log = next(x.log for x in inputs if isinstance(x, LoggingTensor))
        log.append(primitive.name)
        result = primitive(*(Tensor(x) if isinstance(x, LoggingTensor) else x for x in inputs), **attributes)
        return tuple(cls(y, log) for y in result) if isinstance(result, tuple) else cls(result, log)


class UnitError(TypeError):
    """Units that do not fit."""


class UnitTensor(Tensor):
    """Carries a power of the metre through sums and products."""

    __slots__ = ("power",)

    def __init__(self, data, power):
        super().__init__(data)
        self.power = power

    @classmethod
    def __fallback__(cls, primitive, inputs, attributes):
        powers = [x.power if isinstance(x, UnitTensor) else 0 for x in inputs]
        plain = [Tensor(x) if isinstance(x, UnitTensor) else x for x in inputs]
        if primitive.name in ("add", "subtract"):
            if powers[0] != powers[1]:
                raise UnitError(f"'{primitive.name}' of m^{powers[0]} and m^{powers[1]}")
            return cls(primitive(*plain), powers[0])
        if primitive.name == "multiply":
            return cls(primitive(*plain), sum(powers))
        if primitive.name in ("sum", "broadcast_to", "reshape", "full_like", "sum_to", "identity", "stop_gradient"):
            return cls(primitive(*plain, **attributes), 0 if primitive.name == "full_like" else powers[0])
        return NotImplemented


class LazyTensor(Tensor):
    """Knows what it will be; computes when it is asked for its values."""

    __slots__ = ("_call", "_value")

    def __init__(self, spec, call):
        super().__init__(np.broadcast_to(np.zeros((), spec.dtype), spec.shape))
        self._call, self._value = call, None

    @classmethod
    def of(cls, x):
        return cls(spec_of(x), lambda: x)

    def value(self):
        if self._value is None:
            self._value = self._call()
        return self._value

    def numpy(self):
        return self.value().numpy()

    @classmethod
    def __fallback__(cls, primitive, inputs, attributes):
        def call():
            return primitive(*(x.value() if isinstance(x, LazyTensor) else x for x in inputs), **attributes)

        inferred = primitive.infer(*(spec_of(x) for x in inputs), **attributes)
        assert not isinstance(inferred, tuple)
        return cls(inferred, call)


X = np.array([[1.0, 2.0], [3.0, 4.0]])


def function(x):
    return (ops.exp(x * 0.1) @ x + x.reshape(4)[:2]).sum()


def test_a_logging_tensor_sees_forward_and_backward_and_changes_nothing():
    log = []
    found = grad(function)(LoggingTensor(X, log))
    assert isinstance(found, LoggingTensor)
    np.testing.assert_array_equal(found.numpy(), grad(function)(Tensor(X)).numpy())
    assert {"exp", "matmul", "getitem", "sum", "put", "broadcast_to"} <= set(log)


def test_backward_accumulates_into_the_leaf_of_the_subclass():
    x = LoggingTensor(X, [])
    x.requires_grad = True
    for _ in range(2):
        (x * x).sum().backward()
    assert isinstance(x.grad, LoggingTensor)
    np.testing.assert_array_equal(x.grad.numpy(), 4 * X)


def test_second_derivatives_pass_through_the_subclass():
    inner = grad(lambda x: (x * x * x).sum())
    found = grad(lambda x: (inner(x) * x).sum())(LoggingTensor(X, []))
    np.testing.assert_allclose(found.numpy(), 9 * X * X)


def test_a_plain_weight_gets_the_gradient_that_came_through_the_subclass():
    w = Tensor(X, requires_grad=True)
    _, found = value_and_grad(lambda x: (x * w).sum(), None, w)(LoggingTensor(X + 1, []))
    assert isinstance(found, LoggingTensor)
    np.testing.assert_array_equal(found.numpy(), X + 1)


def test_units_multiply_and_their_gradient_has_the_unit_of_the_slope():
    length = UnitTensor(X, 1)
    value, slope = value_and_grad(lambda x: (x * x * x).sum())(length)
    assert (value.power, slope.power) == (3, 2)
    np.testing.assert_allclose(slope.numpy(), 3 * X * X)
    with pytest.raises(UnitError, match=r"'add' of m\^2 and m\^1"):
        length * length + length


def test_what_a_subclass_does_not_implement_is_an_error_that_names_both():
    with pytest.raises(TypeError, match="'exp' is not implemented by UnitTensor"):
        ops.exp(UnitTensor(X, 1))


def test_a_lazy_tensor_computes_nothing_until_its_values_are_asked_for():
    seen = []

    def source():
        seen.append(1)
        return Tensor(X)

    x = LazyTensor(spec_of(X), source)
    slope = grad(function)(x)
    assert slope.shape == X.shape
    assert not seen
    np.testing.assert_allclose(slope.numpy(), grad(function)(Tensor(X)).numpy())
    assert seen == [1]


def test_nothing_is_recorded_above_a_subclass_inside_no_grad():
    x = LoggingTensor(X, [])
    x.requires_grad = True
    with no_grad():
        y = x * x
    assert not y.requires_grad
    assert (x * x).requires_grad


def test_detach_goes_through_the_primitive():
    log = []
    x = LoggingTensor(X, log)
    x.requires_grad = True
    y = (x * 2.0).detach()
    assert isinstance(y, LoggingTensor)
    assert not y.requires_grad
    assert log[-1] == "stop_gradient"


def test_hooks_see_gradients_of_the_subclass():
    x = LoggingTensor(X, [])
    x.requires_grad = True
    y = x * x
    seen = []
    y.register_hook(seen.append)
    (found,) = gradients(y.sum(), [x])
    assert isinstance(seen[0], LoggingTensor)
    np.testing.assert_array_equal(found.numpy(), 2 * X)
