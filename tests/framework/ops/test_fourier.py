"""Fourier transforms: energy, inverses, lengths, and shifts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import DtypeError, ShapeError, Tensor, ops

_NORMS = ("backward", "ortho", "forward")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.sampled_from(_NORMS), st.integers(0, 99))
def test_inverses_invert_and_ortho_keeps_the_energy(n, norm, seed):
    x = Tensor(np.random.default_rng(seed).standard_normal((3, n)))
    np.testing.assert_allclose(ops.real(ops.ifft(ops.fft(x, norm=norm), norm=norm)).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(ops.irfft(ops.rfft(x, norm=norm), n, norm=norm).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(ops.irfft2(ops.rfft2(x, norm=norm), n, norm=norm).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(ops.ifftshift(ops.fftshift(x)).numpy(), x.numpy())
    energy = (ops.abs(ops.fftn(x, norm="ortho")) ** 2).sum()
    np.testing.assert_allclose(energy.item(), (x * x).sum().item())


@pytest.mark.parametrize("norm", _NORMS)
@pytest.mark.parametrize("lengths", [(2, 5), (4, 3), None])
def test_lengths_cut_and_fill_as_numpy_does(lengths, norm):
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    np.testing.assert_allclose(
        ops.fft2(Tensor(x), lengths, norm=norm).numpy(), np.fft.fft2(x, lengths, norm=norm), atol=1e-12
    )
    np.testing.assert_allclose(
        ops.fftn(Tensor(x), lengths, (2, 0), norm).numpy(), np.fft.fftn(x, lengths, (2, 0), norm), atol=1e-12
    )


def test_single_precision_stays_single_and_16_bits_become_32():
    assert ops.fft(Tensor([1.0, 2.0])).dtype == np.complex64
    assert ops.rfft(Tensor([1.0, 2.0], "float16")).dtype == np.complex64
    assert ops.irfft(ops.rfft(Tensor([1.0, 2.0]))).dtype == np.float32


def test_frequencies_are_numpys():
    np.testing.assert_allclose(ops.fftfreq(5, 0.5).numpy(), np.fft.fftfreq(5, 0.5), rtol=1e-6)
    np.testing.assert_allclose(ops.rfftfreq(5, 0.5).numpy(), np.fft.rfftfreq(5, 0.5), rtol=1e-6)


def test_errors_say_what_was_expected():
    with pytest.raises(DtypeError, match="'rfft' expects a real tensor"):
        ops.rfft(Tensor(np.ones(3) + 0j))
    with pytest.raises(ShapeError, match="a length of 1 or more, got 0"):
        ops.fft(Tensor([1.0]), 0)
    with pytest.raises(ValueError, match="no normalization 'unitary'"):
        ops.fft(Tensor([1.0]), norm="unitary")
