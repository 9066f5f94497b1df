"""Fourier transforms over one axis or several, and their gradients, which are Fourier transforms too.

Reference:
    Cooley and Tukey 1965. With a transform `y = F x` the gradient by `x` is `F^H g`: the other direction, its factor
    moved ("backward" and "forward" exchanged, "ortho" as it is).
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..dtype import as_dtype, bfloat16, complex64, complex128, float16, float32, float64, is_complex, real_dtype
from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Axes, Shape, Spec, normalize_axes, normalize_axis
from ..tensor import Array, Tensor, method, wrap
from .arithmetic_ops import multiply
from .complex import real
from .indexing_ops import narrow, pad
from .layout import roll
from .operands import as_floating, as_real, cast_to

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
_OTHER: dict[str, Norm] = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _fft_of(x: Array, *, axes: Shape, norm: Norm, inverse: bool) -> Array:
    function = np.fft.ifftn if inverse else np.fft.fftn
    return function(x, axes=axes, norm=norm).astype(x.dtype, copy=False)


_fft: Primitive = Primitive(
    "fft",
    _fft_of,
    lambda x, **_: x,
    (lambda g, _, x, *, axes, norm, inverse: _fft(g, axes=axes, norm=_OTHER[norm], inverse=not inverse),),
)


def _half(length: int) -> int:
    return length // 2 + 1


def _rfft_of(x: Array, *, axis: int, norm: Norm) -> Array:
    return np.fft.rfft(x, axis=axis, norm=norm).astype(complex64 if x.dtype == float32 else complex128, copy=False)


def _infer_rfft(x: Spec, *, axis: int, norm: Norm) -> Spec:
    kind = complex64 if x.dtype == float32 else complex128
    return Spec((*x.shape[:axis], _half(x.shape[axis]), *x.shape[axis + 1 :]), kind)


def _rfft_gradient(g: Tensor, _: None, x: Tensor, *, axis: int, norm: Norm) -> Tensor:
    missing = x.shape[axis] - g.shape[axis]
    whole = pad(g, [(0, missing if i == axis else 0) for i in range(g.ndim)])
    return real(_fft(whole, axes=(axis,), norm=_OTHER[norm], inverse=True))


_rfft: Primitive = Primitive("rfft", _rfft_of, _infer_rfft, (_rfft_gradient,))


def _irfft_of(x: Array, *, axis: int, length: int, norm: Norm) -> Array:
    return np.fft.irfft(x, length, axis, norm).astype(real_dtype(x.dtype), copy=False)


def _irfft_gradient(g: Tensor, _: None, x: Tensor, *, axis: int, length: int, norm: Norm) -> Tensor:
    """Return every frequency but the first (and the last of an even length) stands for two."""
    count = np.full(_half(length), 2.0)
    count[0] = 1.0
    if length % 2 == 0:
        count[-1] = 1.0
    shape = tuple(len(count) if i == axis else 1 for i in range(x.ndim))
    return multiply(_rfft(g, axis=axis, norm=_OTHER[norm]), wrap(count.astype(real_dtype(x.dtype)).reshape(shape)))


_irfft: Primitive = Primitive(
    "irfft",
    _irfft_of,
    lambda x, *, axis, length, norm: Spec((*x.shape[:axis], length, *x.shape[axis + 1 :]), real_dtype(x.dtype)),
    (_irfft_gradient,),
)


def _check_norm(norm: str) -> Norm:
    if norm not in _OTHER:
        raise ValueError(f"no normalization {norm!r}; use 'backward', 'ortho' or 'forward'")
    return norm  # type: ignore[return-value]


def _fitted(x: Tensor, axis: int, length: int | None) -> Tensor:
    """Return the tensor cut, or filled with zeros, to a length along an axis."""
    have = x.shape[axis]
    if length is None or length == have:
        return x
    if length < 1:
        raise ShapeError(f"a Fourier transform expects a length of 1 or more, got {length}")
    if length < have:
        return narrow(x, axis, 0, length)
    return pad(x, [(0, length - have if i == axis else 0) for i in range(x.ndim)])


def _wide(x: Tensor) -> Tensor:
    """Return 16-bit floats in float32, which NumPy transforms."""
    return cast_to(x, float32) if x.dtype in (float16, bfloat16) else x


def _complex_of(x: Tensor) -> Tensor:
    x = _wide(as_floating(x))
    if is_complex(x.dtype):
        return x
    return cast_to(x, complex128 if x.dtype == float64 else complex64)


def _transform(x: Tensor, lengths: Sequence[int | None] | None, axes: Axes, norm: str, inverse: bool) -> Tensor:
    z = _complex_of(x)
    if axes is None and lengths is not None:
        axes = tuple(range(z.ndim - len(lengths), z.ndim))
    places = normalize_axes(axes, z.ndim)
    given = tuple(range(z.ndim)) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    for place, length in zip(given, lengths or (None,) * len(given), strict=True):
        z = _fitted(z, normalize_axis(place, z.ndim), length)
    return _fft(z, axes=places, norm=_check_norm(norm), inverse=inverse)


@method
def fft(x: Tensor, length: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the discrete Fourier transform along an axis.

    Args:
        x: Real or complex; the result is complex.
        length: Cut or fill with zeros to this length first.
        axis: Along which.
        norm: Where the factor `1 / n` goes: to the inverse ("backward"), here ("forward"), its root to both ("ortho").
    """
    return _transform(x, (length,), axis, norm, inverse=False)


@method
def ifft(x: Tensor, length: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the inverse of `fft`, with the same arguments."""
    return _transform(x, (length,), axis, norm, inverse=True)


@method
def fftn(x: Tensor, lengths: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Tensor:
    """Return the discrete Fourier transform along several axes, all of them by default."""
    return _transform(x, lengths, axes, norm, inverse=False)


@method
def ifftn(x: Tensor, lengths: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Tensor:
    """Return the inverse of `fftn`, with the same arguments."""
    return _transform(x, lengths, axes, norm, inverse=True)


@method
def fft2(x: Tensor, lengths: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: str = "backward") -> Tensor:
    """Return the discrete Fourier transform along two axes."""
    return fftn(x, lengths, axes, norm)


@method
def ifft2(x: Tensor, lengths: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: str = "backward") -> Tensor:
    """Return the inverse of `fft2`, with the same arguments."""
    return ifftn(x, lengths, axes, norm)


@method
def rfft(x: Tensor, length: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the first `n // 2 + 1` frequencies of a real signal, which determine the others."""
    x = _wide(as_real(x, "rfft"))
    place = normalize_axis(axis, x.ndim)
    return _rfft(_fitted(x, place, length), axis=place, norm=_check_norm(norm))


@method
def irfft(x: Tensor, length: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the real signal of these frequencies, of an even length by default: the inverse of `rfft`."""
    z = _complex_of(x)
    place = normalize_axis(axis, z.ndim)
    wanted = 2 * (z.shape[place] - 1) if length is None else length
    if wanted < 1:
        raise ShapeError(f"irfft expects a signal of length 1 or more, got {wanted}")
    return _irfft(_fitted(z, place, _half(wanted)), axis=place, length=wanted, norm=_check_norm(norm))


@method
def rfft2(x: Tensor, axes: tuple[int, int] = (-2, -1), norm: str = "backward") -> Tensor:
    """Return the Fourier transform of a real image along two axes; the second keeps `n // 2 + 1` frequencies."""
    return fft(rfft(x, None, axes[1], norm), None, axes[0], norm)


@method
def irfft2(x: Tensor, length: int | None = None, axes: tuple[int, int] = (-2, -1), norm: str = "backward") -> Tensor:
    """Return the real image of these frequencies, its second axis of that length: the inverse of `rfft2`."""
    return irfft(ifft(x, None, axes[0], norm), length, axes[1], norm)


@method
def fftshift(x: Tensor, axes: Axes = None) -> Tensor:
    """Return the frequencies in ascending order: 0 in the middle."""
    places = normalize_axes(axes, x.ndim)
    return roll(x, [x.shape[i] // 2 for i in places], places)


@method
def ifftshift(x: Tensor, axes: Axes = None) -> Tensor:
    """Return the inverse of `fftshift`."""
    places = normalize_axes(axes, x.ndim)
    return roll(x, [-(x.shape[i] // 2) for i in places], places)


def fftfreq(count: int, spacing: float = 1.0, dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return the frequencies of `fft` of so many samples at that distance."""
    return wrap(np.fft.fftfreq(count, spacing).astype(as_dtype(dtype)))


def rfftfreq(count: int, spacing: float = 1.0, dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return the frequencies of `rfft` of so many samples at that distance."""
    return wrap(np.fft.rfftfreq(count, spacing).astype(as_dtype(dtype)))
