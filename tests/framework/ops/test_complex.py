"""Complex tensors: their gradient is the direction in which a real loss rises, and it is PyTorch's."""

import numpy as np
import pytest
from mindscope.framework import DtypeError, Tensor, grad, ops
from mindscope.framework.testing import check_gradients


def _z(seed, *shape):
    random = np.random.default_rng(seed)
    return Tensor(random.standard_normal(shape) + 1j * random.standard_normal(shape))


def test_a_step_against_the_gradient_lowers_a_real_loss():
    z, goal = _z(0, 5), _z(1, 5)

    def loss(z):
        return (ops.abs(z * z - goal) ** 2).sum()

    for _ in range(200):
        before = loss(z).item()
        z = z - 0.01 * grad(loss)(z)
        assert loss(z).item() <= before
    assert loss(z).item() < 1e-3


@pytest.mark.parametrize(
    "function",
    [
        lambda z: ops.real(z * ops.conj(z)),
        lambda z: ops.angle(z) + ops.abs(z),
        lambda z: ops.fft(z * z) / (z + 3.0),
        lambda z: (z @ z.T).exp(),
        lambda z: ops.cumprod(z, 1),
        lambda z: ops.where(ops.real(z) > 0, z, 1j * z),
        lambda z: z.astype("complex64").astype("complex128") * 0 + ops.real(z),
        lambda z: z.var(0),
    ],
)
def test_derivatives_to_second_order_agree_with_differences(function):
    check_gradients(function, _z(3, 2, 3), tolerance=1e-5)


def test_parts_of_real_and_complex_tensors():
    x, z = Tensor([1.0, -2.0]), Tensor(np.array([3 + 4j], np.complex64))
    assert ops.imag(x).tolist() == [0.0, 0.0]
    assert ops.real(x) is x
    assert ops.conj(x) is x
    np.testing.assert_allclose(ops.angle(x).numpy(), [0.0, np.pi], rtol=1e-6)
    assert (ops.abs(z).dtype, ops.abs(z).item()) == (np.float32, 5.0)
    assert (x * 1j).dtype == np.complex64
    assert ops.complex(x, 1.0).tolist() == [1 + 1j, -2 + 1j]
    assert z.astype("float32").tolist() == [3.0]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(DtypeError, match="'complex' expects real tensors"):
        ops.complex(_z(0, 2), _z(0, 2))
    with pytest.raises(DtypeError, match="'floor' cannot take"):
        ops.floor(_z(0, 2))
