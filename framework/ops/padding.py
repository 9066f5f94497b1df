"""Elements put around a tensor: a constant, its border, its mirror image, its other end."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ..dtype import Dtype
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor, method, wrap
from .indexing import getitem

_Widths: TypeAlias = tuple[tuple[int, int], ...]

# The words of PyTorch beside those of NumPy.
_MODES = {
    "reflect": "reflect", "symmetric": "symmetric", "edge": "edge", "replicate": "edge", "wrap": "wrap",
    "circular": "wrap",
}  # fmt: skip


def _check(shape: Sequence[int], widths: Sequence[object]) -> None:
    if len(widths) != len(shape):
        raise ShapeError(f"pad of {tuple(shape)} expects {len(shape)} pairs of widths, got {len(widths)}")


def _pad_of(x: Array, *, widths: _Widths, value: float) -> Array:
    _check(x.shape, widths)
    dtype: Dtype = x.dtype
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True))
    result = np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
    result[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))] = x
    return result


def _infer_pad(x: Spec, *, widths: _Widths, value: float) -> Spec:
    _check(x.shape, widths)
    return Spec(tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True)), x.dtype)


def _cut(g: Tensor, x: Tensor, widths: _Widths) -> Tensor:
    return getitem(g, tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True)))


_pad: Primitive = Primitive("pad", _pad_of, _infer_pad, (lambda g, _, x, *, widths, value: _cut(g, x, widths),))


@method
def pad(x: Tensor, widths: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> Tensor:
    """The tensor with elements before and after.

    Args:
        x: Any tensor.
        widths: How many before and after, one pair an axis; negative ones cut elements off.
        mode: "constant"; "reflect" mirrors without, "symmetric" with the border; "edge" ("replicate") repeats it;
            "wrap" ("circular") goes on at the other end.
        value: The constant.
    """
    _check(x.shape, widths)
    pairs = tuple((int(before), int(after)) for before, after in widths)
    if any(n < 0 for pair in pairs for n in pair):
        kept = tuple(
            slice(max(0, -before), n - max(0, -after)) for n, (before, after) in zip(x.shape, pairs, strict=True)
        )
        x = getitem(x, kept)
        pairs = tuple((max(0, before), max(0, after)) for before, after in pairs)
    if mode == "constant":
        return _pad(x, widths=pairs, value=value) if any(n for pair in pairs for n in pair) else x
    if mode not in _MODES:
        raise ValueError(f"no padding mode {mode!r}; use 'constant', {', '.join(map(repr, _MODES))}")
    return _continued(x, pairs, _MODES[mode])


def _continued(x: Tensor, widths: _Widths, mode: str) -> Tensor:
    """The tensor continued by elements of its own: along each axis a row of indices says which."""
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        if x.shape[axis] < 1:
            raise ShapeError(f"pad with mode '{mode}' expects an element along axis {axis}, got shape {x.shape}")
        # NumPy's padding of the row of indices is the definition.
        row = np.pad(np.arange(x.shape[axis]), (before, after), mode)  # type: ignore[call-overload]
        x = getitem(x, (*(slice(None),) * axis, wrap(row)))
    return x
