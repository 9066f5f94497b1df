"""Signals: Fourier transforms, and the scale of pitch."""

import numpy as np

from ...tensor import Array, Tensor, wrap
from ..onnx_values import dtype_of
from ..operator_call import Elements, OperatorCall, array_of, operator


def _number(value: Elements | None) -> int | None:
    return None if value is None else int(array_of(value).reshape(-1)[0])


def _spectrum(x: Array, length: int, axis: int, inverse: bool, onesided: bool) -> Array:
    """Return the transform of real (last axis 1) or complex (last axis 2) numbers, real and imaginary parts last."""
    signal = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    if inverse and onesided:
        return np.fft.irfft(signal, length, axis)[..., None]
    if inverse:
        found = np.fft.ifft(signal, length, axis)
    else:
        found = np.fft.fft(signal, length, axis)
        if onesided:
            found = np.take(found, range(length // 2 + 1), axis)
    return np.stack([found.real, found.imag], -1)


@operator("DFT", since=20)
def dft(call: OperatorCall, x: Tensor, length: Elements | None = None, axis: Elements | None = None) -> Tensor:
    """Return the discrete Fourier transform along an axis, or its inverse."""
    where = -2 if axis is None else _number(axis)
    return _dft(call, x, _number(length), -2 if where is None else where)


@operator("DFT", since=17)
def dft_by_attribute(call: OperatorCall, x: Tensor, length: Elements | None = None) -> Tensor:
    """Return the discrete Fourier transform along the axis that the attribute gives."""
    return _dft(call, x, _number(length), call.get("axis", 1))


def _dft(call: OperatorCall, x: Tensor, length: int | None, axis: int) -> Tensor:
    place = axis % x.ndim
    inverse, onesided = bool(call.get("inverse", 0)), bool(call.get("onesided", 0))
    whole = 2 * (x.shape[place] - 1) if inverse and onesided else x.shape[place]
    found = _spectrum(x.numpy(), whole if length is None else length, place, inverse, onesided)
    return wrap(found.astype(x.dtype))


@operator("STFT")
def stft(
    call: OperatorCall, x: Tensor, step: Elements, window: Elements | None = None, length: Elements | None = None
) -> Tensor:
    """Return the Fourier transforms of frames of a signal, `(batch, frames, frequencies, 2)`."""
    hop, values = _number(step), x.numpy()
    size = _number(length) or (window.shape[0] if window is not None else None)
    if hop is None or size is None:
        raise call.refuse("frames of unknown length: give window or frame_length")
    frames = (values.shape[1] - size) // hop + 1
    parts = np.stack([values[:, i * hop : i * hop + size] for i in range(frames)], 1)
    if window is not None:
        parts = parts * array_of(window)[:, None]
    found = _spectrum(parts, size, 2, inverse=False, onesided=bool(call.get("onesided", 1)))
    return wrap(found.astype(x.dtype))


@operator("MelWeightMatrix")
def mel_weights(
    call: OperatorCall, bins: Elements, length: Elements, rate: Elements, low: Elements, high: Elements
) -> Tensor:
    """Return triangles evenly spread on the mel scale, `(frequencies, bins)`.

    Reference:
        Stevens et al. 1937; the scale `2595 log10(1 + f / 700)`.
    """
    count, size, sampling = _number(bins), _number(length), _number(rate)
    edges = [float(array_of(x).reshape(-1)[0]) for x in (low, high)]
    if count is None or size is None or sampling is None:
        raise call.refuse("a mel matrix without its sizes")
    low_mel, high_mel = (2595.0 * np.log10(1.0 + edge / 700.0) for edge in edges)
    mels = low_mel + np.arange(count + 2) * ((high_mel - low_mel) / (count + 2))
    hertz = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    places = ((size + 1) * hertz / sampling).astype(np.int64)
    out = np.zeros((size // 2 + 1, count))
    for i in range(count):
        first, middle, last = places[i : i + 3]
        if middle == first:
            out[middle, i] = 1.0
        else:
            out[first : middle + 1, i] = (np.arange(first, middle + 1) - first) / (middle - first)
        if last > middle:
            out[middle:last, i] = (last - np.arange(middle, last)) / (last - middle)
    return wrap(out.astype(dtype_of(call.get("output_datatype", 1))))
