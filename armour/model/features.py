"""What an attack may do to each feature: bounds of its own, and which changes make a legal row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..array_api import Array, Floats, flat, from_numpy, like_array, namespace, to_numpy
from ..errors import InvalidInput

_WHOLE = 8.0  # last digits of a position, in steps, that rounding may take from a whole number of them
_LIKELIER = 1e-6  # by which another category than the row's own wins a tie


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBounds:
    """Smallest and largest value of each feature or channel; distances are then shares of the range between them.

    Args:
        low, high: Of a sample's shape, of its last axis, or, for images `(channels, height, width)`, of its channels.
    """

    low: Floats
    high: Floats

    def to_unit(self, x: Array) -> Array:
        """Return float64 positions between the bounds, 0 to 1.

        Raises:
            InvalidInput: The bounds do not fit the inputs, or an input leaves them.
        """
        low, width = self._along(x)
        share = (namespace(x).astype(x, namespace(x).float64) - low) / width
        outside = to_numpy((share < -_ROUNDING) | (share > 1 + _ROUNDING))
        if outside.any():
            at = tuple(int(position) for position in np.argwhere(outside)[0])
            ends = [float(np.broadcast_to(to_numpy(values), x.shape)[at]) for values in (low, low + width)]
            raise InvalidInput(
                f"x expects feature {at[1:]} within its bounds [{ends[0]:.9g}, {ends[1]:.9g}], got {float(x[at]):.9g} "
                f"in row {at[0]}"
            )
        return namespace(share).clip(share, 0.0, 1.0)

    def to_inputs(self, share: Array) -> tuple[Array, Array]:
        """Return the inputs at these positions, and by how much each moves for the whole range."""
        low, width = self._along(share)
        return low + share * width, width

    def _along(self, x: Array) -> tuple[Array, Array]:
        shape = tuple(int(size) for size in x.shape[1:])
        low, high = (_spread(values, shape) for values in (self.low, self.high))
        return from_numpy(low[None], x), from_numpy((high - low)[None], x)


_ROUNDING = 1e-6  # of the range: what float32 arithmetic may leave the bounds by


def _spread(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the values in the shape of a sample: those of one axis belong to channels of images, else to columns."""
    if values.ndim == 1 and len(values) > 1 and len(shape) >= 3:
        values = values.reshape((-1, 1, 1))
    try:
        return np.array(np.broadcast_to(values, shape))  # a copy, as torch warns of read-only memory
    except ValueError:
        raise InvalidInput(
            f"bounds expects numbers, or one for each feature or channel of a sample {shape}, got shape {values.shape}"
        ) from None


def feature_bounds(bounds: tuple[ArrayLike, ArrayLike]) -> FeatureBounds:
    """Return bounds of each feature, checked.

    Raises:
        InvalidInput: They are not finite, or not low < high everywhere.
    """
    low, high = (np.asarray(values, np.float64) for values in bounds)
    shape_fits = low.ndim == 0 or high.ndim == 0 or low.shape == high.shape
    if not shape_fits or not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise InvalidInput(
            "bounds expects finite numbers low < high, or as many of each for every feature or channel; for one that "
            f"must not change see Features(frozen=...); got shapes {low.shape} and {high.shape}"
        )
    return FeatureBounds(low, high)


@dataclass(frozen=True, slots=True)
class Features:
    """Which changes of a row are legal; positions count the elements of a flattened sample.

    Args:
        frozen: What no attack may change: positions, or a mask of the sample's shape.
        integer: What holds whole numbers: a change is cut to whole steps, towards the clean row.
        one_hot: Groups of positions, each of which holds one category: the largest is 1, the others are 0. A row that
            would leave its budget by a new category keeps its own.

    Example:
        >>> Features(frozen=(0,), integer=(1, 2), one_hot=((3, 4, 5),))
        Features(frozen=(0,), integer=(1, 2), one_hot=((3, 4, 5),))
    """

    frozen: Sequence[int] | NDArray[np.bool_] = ()
    integer: Sequence[int] = ()
    one_hot: Sequence[Sequence[int]] = ()

    def check(self, x: Array) -> None:
        """Raise `InvalidInput` unless the positions exist and the clean rows are legal themselves."""
        rows = to_numpy(flat(x))
        size = rows.shape[1]
        for name, positions in (
            ("frozen", self._frozen(size)),
            ("integer", self.integer),
            *(("one_hot", group) for group in self.one_hot),
        ):
            if any(not 0 <= position < size for position in positions):
                raise InvalidInput(f"{name} expects positions 0 to {size - 1}, got {list(positions)}")
        whole = rows[:, list(self.integer)]
        if (whole != np.round(whole)).any():
            raise InvalidInput("x expects whole numbers at the positions that Features calls integer")
        for group in self.one_hot:
            values = rows[:, list(group)]
            if ((values != 0) & (values != 1)).any() or (values.sum(axis=1) != 1).any():
                raise InvalidInput(f"x expects one 1 and zeros at the one_hot positions {list(group)}")

    def free(self, x: Array) -> Array:
        """Return 1 where an element of a sample may change, else 0, shaped `(1, ...)` and of the dtype of `x`."""
        size = int(np.prod(x.shape[1:]))
        mask = np.ones(size)
        mask[list(self._frozen(size))] = 0.0
        return like_array(mask.reshape((1, *x.shape[1:])), x)

    def legal(self, candidates: Array, x: Array, widths: Array | None) -> Array:
        """Return the legal rows that candidates stand for; each element changes no more than it did, but categories.

        Args:
            x: The clean rows.
            widths: `(1, ...)` length of the range of each element, in which a step is 1; None where it is 1 anyway.
        """
        xp = namespace(candidates)
        moved = xp.where(self.free(x) > 0, candidates, x)
        if not self.integer and not self.one_hot:
            return moved
        rows, clean = flat(moved), flat(x)
        if self.integer:
            step = like_array(np.ones((1, rows.shape[1])) if widths is None else 1.0 / to_numpy(flat(widths)), x)
            steps = (rows - clean) / step
            digits = _WHOLE * xp.finfo(x.dtype).eps * (1.0 + xp.abs(clean / step))
            whole = xp.trunc(steps + digits * xp.sign(steps)) * step
            rows = xp.where(self._mask(self.integer, x), clean + whole, rows)
        for group in self.one_hot:
            rows = self._with_category(rows, clean, list(group))
        return rows.reshape(candidates.shape)

    def rounded(self, x: Array) -> Array:
        """Return the rows with whole numbers where these belong, which arithmetic may have missed by a last digit."""
        rows, xp = flat(x), namespace(x)
        return xp.where(self._mask(self.integer, x), xp.round(rows), rows).reshape(x.shape) if self.integer else x

    def own_categories(self, candidates: Array, x: Array) -> Array:
        """Return the candidates with the categories of the clean rows."""
        every = [position for group in self.one_hot for position in group]
        rows = namespace(x).where(self._mask(every, x), flat(x), flat(candidates))
        return rows.reshape(candidates.shape)

    def _with_category(self, rows: Array, clean: Array, group: list[int]) -> Array:
        values, own = to_numpy(rows)[:, group], to_numpy(clean)[:, group]
        chosen = np.argmax(values + _LIKELIER * (1 - own), axis=1)
        category = np.zeros((len(rows), rows.shape[1]))
        category[np.arange(len(rows)), np.asarray(group)[chosen]] = 1.0
        return namespace(rows).where(self._mask(group, clean), like_array(category, rows), rows)

    def _frozen(self, size: int) -> Sequence[int]:
        array = np.asarray(self.frozen)
        if array.dtype != np.bool_:
            return [int(position) for position in array.reshape(-1)]
        if array.size != size:
            raise InvalidInput(f"frozen expects a mask of {size} elements, got {array.shape}")
        return [int(position) for position in np.flatnonzero(array)]

    @staticmethod
    def _mask(positions: Sequence[int], x: Array) -> Array:
        mask = np.zeros((1, int(np.prod(x.shape[1:]))), np.bool_)
        mask[0, list(positions)] = True
        return from_numpy(mask, x)
