"""Cases of matrix factors, linear systems, Fourier transforms and attention."""

import numpy as np

from tests.contracts.numpy_formulas import jacobian_product, softmax
from tests.contracts.primitive_case import Case, imaginary, real


def regular(*shape):
    """Matrices far from singular."""
    return real(*shape) + 3.0 * np.eye(shape[-2], shape[-1])


def positive(n):
    root = real(n, n)
    return root @ root.T + np.eye(n)


def _by_cramer(a, b):
    """The solution of a system, each unknown a quotient of determinants."""
    x = np.empty(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], np.result_type(a, b))
    a, b = np.broadcast_to(a, x.shape[:-2] + a.shape[-2:]), np.broadcast_to(b, x.shape)
    for *batch, i, k in np.ndindex(x.shape):
        replaced = a[tuple(batch)].copy()
        replaced[:, i] = b[(*batch, slice(None), k)]
        x[(*batch, i, k)] = np.linalg.det(replaced) / np.linalg.det(a[tuple(batch)])
    return x


def _triangular(a, b, lower, unit):
    part = np.tril(a) if lower else np.triu(a)
    if unit:
        part = part - np.diag(np.diag(part)) + np.eye(len(part))
    return _by_cramer(part, b)


def _dft(x, axes, norm, inverse):
    """The Fourier transform by its matrix, one axis at a time."""
    for axis in axes:
        n = x.shape[axis]
        turns = np.outer(np.arange(n), np.arange(n)) / n
        factor = {"ortho": n**-0.5, "backward": 1 / n if inverse else 1, "forward": 1 if inverse else 1 / n}[norm]
        matrix = np.exp((2j if inverse else -2j) * np.pi * turns) * factor
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def _irfft(z, axis, length, norm):
    """From half of the frequencies, the others their mirror image."""
    z = np.moveaxis(z, axis, -1)
    half = z.copy()
    half[..., 0] = half[..., 0].real
    if length % 2 == 0:
        half[..., -1] = half[..., -1].real
    mirror = np.conj(half[..., 1 : (length + 1) // 2])[..., ::-1]
    whole = _dft(np.concatenate([half, mirror], -1), (z.ndim - 1,), norm, inverse=True)
    return np.moveaxis(whole.real, -1, axis)


def _attend(q, k, v, mask=True, *, causal=False, scale=1.0):
    scores = scale * np.einsum("...ik,...jk->...ij", q, k)
    n, m = scores.shape[-2:]
    seen = np.broadcast_to(mask, scores.shape) & (np.tri(n, m, m - n, dtype=bool) if causal else True)
    hidden = np.where(seen, scores, -np.inf)
    return softmax(hidden) @ v, np.log(np.exp(hidden).sum(-1))


def _attend_gradient(g, q, k, v, out, sums, *mask, **how):
    return tuple(jacobian_product(lambda *qkv: _attend(*qkv, *mask, **how)[0], i)(g, q, k, v) for i in range(3))


def _heads(n, m):
    return real(2, n, 3), real(2, m, 3), real(2, m, 2)


def _attention_gradient(*mask, n=3, m=4, causal):
    q, k, v = _heads(n, m)
    how = {"causal": causal, "scale": 0.6}
    return Case((real(2, n, 2), q, k, v, *_attend(q, k, v, *mask, **how), *mask), _attend_gradient, how, 1e-8)


_MASK = np.array([[True, False, True, True], [True, True, True, False], [True, True, False, False]])

CASES = {
    "attention": [Case(_heads(3, 4), _attend, {"causal": causal, "scale": 0.6}) for causal in (False, True)]
    + [Case((*_heads(3, 4), _MASK), _attend, {"causal": causal, "scale": 0.6}) for causal in (False, True)]
    + [Case(_heads(2, 2), _attend, {"causal": False, "scale": 1.3})],
    "attention_gradient": [
        _attention_gradient(causal=False),
        _attention_gradient(causal=True),
        _attention_gradient(_MASK, causal=True),
    ],
    "cholesky": [Case((positive(3),), np.linalg.cholesky), Case((np.stack([positive(2)] * 2),), np.linalg.cholesky)],
    "det": [Case((x,), np.linalg.det) for x in (regular(3, 3), regular(2, 2, 2), regular(2, 2) + 1j * real(2, 2))],
    "eigh": [
        Case((x,), lambda x: tuple(np.linalg.eigh((x + x.swapaxes(-1, -2)) / 2))) for x in (real(3, 3), real(2, 2, 2))
    ],
    "fft": [
        Case((imaginary(2, 3),), _dft, {"axes": axes, "norm": norm, "inverse": inverse})
        for axes, norm, inverse in (((1,), "backward", False), ((0, 1), "ortho", True), ((0,), "forward", True))
    ],
    "inv": [
        Case((x,), lambda x: _by_cramer(x, np.broadcast_to(np.eye(x.shape[-1]), x.shape)))
        for x in (regular(3, 3), regular(2, 2, 2), regular(2, 2) + 1j * real(2, 2))
    ],
    "irfft": [
        Case((imaginary(2, 3),), _irfft, {"axis": 1, "length": length, "norm": norm})
        for length, norm in ((4, "backward"), (5, "ortho"))
    ],
    "pinv": [Case((x,), lambda x, rcond: np.linalg.inv(x.T @ x) @ x.T, {"rcond": 1e-15}) for x in (regular(4, 3),)]
    + [Case((regular(2, 3),), lambda x, rcond: x.T @ np.linalg.inv(x @ x.T), {"rcond": 1e-15})],
    "qr": [Case((x,), lambda x: tuple(np.linalg.qr(x))) for x in (regular(3, 3), regular(4, 2), regular(2, 3, 2))],
    "rfft": [
        Case((real(2, n),), lambda x, axis, norm: _dft(x, (1,), norm, False)[:, : x.shape[1] // 2 + 1], how)
        for n, how in ((4, {"axis": 1, "norm": "backward"}), (5, {"axis": 1, "norm": "ortho"}))
    ],
    "slogdet": [
        Case((x,), lambda x: (np.sign(np.linalg.det(x)), np.log(np.abs(np.linalg.det(x)))))
        for x in (regular(3, 3), -regular(3, 3), regular(2, 2, 2))
    ],
    "solve": [
        Case((regular(3, 3), real(3, 2)), _by_cramer),
        Case((regular(2, 2, 2), real(2, 1)), _by_cramer),
        Case((regular(2, 2) + 1j * real(2, 2), imaginary(2, 1)), _by_cramer),
    ],
    "svd": [
        Case((x,), lambda x: tuple(np.linalg.svd(x, False))) for x in (regular(3, 3), regular(4, 2), regular(2, 3))
    ],
    "triangular_solve": [
        Case((regular(3, 3), real(3, 2)), _triangular, {"lower": lower, "unit": unit})
        for lower, unit in ((True, False), (False, True))
    ],
}
SILENT = set()
