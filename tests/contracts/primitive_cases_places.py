"""Cases of primitives that reduce, accumulate, order, pick and place."""

import numpy as np

from tests.contracts.primitive_case import ALL, ROWS, Case, imaginary, real, reduction, whole


def _accumulated(function, first):
    """A running total by its definition, one element at a time."""

    def evaluate(x, axis, exclusive, reverse):
        rows = np.moveaxis(x, axis, -1)[..., ::-1] if reverse else np.moveaxis(x, axis, -1)
        out = np.empty_like(rows)
        for i in range(rows.shape[-1]):
            out[..., i] = function(rows[..., : i if exclusive else i + 1], axis=-1)
        return np.moveaxis(out[..., ::-1] if reverse else out, -1, axis)

    return evaluate


def _running(function, first, *arrays):
    return [
        Case((x,), _accumulated(function, first), {"axis": axis, "exclusive": exclusive, "reverse": reverse})
        for x in arrays
        for axis, exclusive, reverse in ((0, False, False), (1, True, False), (1, False, True), (0, True, True))
    ]


def _extremes(function):
    def evaluate(x, axis):
        out, places = np.empty_like(x), np.empty(x.shape, np.int64)
        for i in range(x.shape[axis]):
            part = np.take(x, range(i + 1), axis)
            at = (slice(None),) * axis + (i,)
            out[at] = function(part, axis=axis)
            places[at] = i - np.flip(np.equal(part, np.expand_dims(out[at], axis)), axis).argmax(axis)
        return out, places

    return evaluate


def _scattered(combine):
    def evaluate(x, indices, updates, axis, reduction):
        out = x.copy()
        for place in np.ndindex(indices.shape):
            at = (*place[:axis], indices[place], *place[axis + 1 :])
            out[at] = combine(out[at], updates[place])
        return out

    return evaluate


def _put(g, indices, axis, shape):
    return _scattered(lambda old, new: old + new)(np.zeros(shape), indices, g, axis, "add")


def _log_sums(x, axis, reverse):
    turned = np.flip(x, axis) if reverse else x
    total = np.log(np.cumsum(np.exp(turned), axis))
    return np.flip(total, axis) if reverse else total


_PICKS = np.array([[0, 2, 1], [-1, 0, 0]])
_APART = np.array([[0, 2, 1], [1, 0, 0]])
_ZEROS = real(3, 4)
_ZEROS[1, 1] = _ZEROS[2, 1] = _ZEROS[0, 3] = 0.0
_NUMBERS = np.array([0, 2, 2, 5])
_COMBINE = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}

CASES = {
    "all": [
        Case((x,), lambda x, axes, keepdims: np.all(x, axis=axes, keepdims=keepdims), how)
        for x in (whole(2, 3, 4), real(2, 3))
        for how in (ROWS, ALL)
    ],
    "any": [
        Case((x,), lambda x, axes, keepdims: np.any(x, axis=axes, keepdims=keepdims), how)
        for x in (whole(2, 3, 4), real(2, 3))
        for how in (ROWS, ALL)
    ],
    "argmin": [Case((real(3, 4),), np.argmin, {"axis": axis}) for axis in (None, 0, 1)],
    "bincount": [
        Case((_NUMBERS, real(4)), lambda x, w, length: np.bincount(x, w, length), {"length": 7}),
        Case((_NUMBERS,), lambda x, length: np.array([1, 0, 2, 0, 0, 1]), {"length": 6}),
    ],
    "cummax": [Case((real(3, 4),), _extremes(np.max), {"axis": axis}) for axis in (0, 1)]
    + [Case((np.array([2, 3, 3, 1]),), _extremes(np.max), {"axis": 0})],
    "cummin": [Case((real(3, 4),), _extremes(np.min), {"axis": axis}) for axis in (0, 1)],
    "cumprod": _running(np.prod, 1, _ZEROS, imaginary(2, 3)),
    "cumsum": _running(np.sum, 0, real(3, 4), whole(9, 2, 3)),
    "gather_elements": [
        Case((real(3, 3), _PICKS), lambda x, i, axis: x[np.arange(2)[:, None], i], {"axis": 1}),
        Case((real(4, 3), _PICKS), lambda x, i, axis: np.take_along_axis(x, i, 0), {"axis": 0}),
    ],
    "histogram": [
        Case(
            (np.array([0.1, 0.2, 0.55, 1.0, 2.0]),),
            lambda x, bins, low, high: np.array([2, 0, 1, 1]),
            {"bins": 4, "low": 0.0, "high": 1.0},
        )
    ],
    "logcumsumexp": [
        Case((real(3, 4),), _log_sums, {"axis": axis, "reverse": reverse})
        for axis, reverse in ((0, False), (1, True), (1, False))
    ],
    "logsumexp": reduction(lambda x, axis, keepdims: np.log(np.exp(x).sum(axis, keepdims=keepdims))),
    "nonzero": [Case((np.array([[0, 2], [3, 0]]),), lambda x: np.array([[0, 1], [1, 0]]), infers=False)],
    "one_hot": [
        Case(
            (np.array([[0, 2], [-1, 7]]),),
            lambda x, depth, axis: np.moveaxis(np.eye(4)[[[0, 2], [3, 3]]] * [[[1], [1]], [[1], [0]]], -1, axis) > 0,
            {"depth": 4, "axis": axis},
        )
        for axis in (2, 0)
    ],
    "pad": [
        Case(
            (real(2, 3),),
            lambda x, widths, value: np.pad(x, widths, constant_values=value),
            {"widths": ((1, 0), (2, 1)), "value": value},
        )
        for value in (0.0, 1.5)
    ],
    "prod": [
        Case((x,), lambda x, axes, keepdims: np.prod(x, axis=axes, keepdims=keepdims), how)
        for x in (_ZEROS, real(2, 3), imaginary(2, 3))
        for how in (ROWS, ALL)
    ],
    "put_elements": [Case((real(2, 3), _PICKS), _put, {"axis": 1, "shape": (3, 4)})],
    "scatter_elements": [
        Case((real(2, 3), _APART[:, :2], real(2, 2)), _scattered(f), {"axis": 1, "reduction": name})
        for name, f in _COMBINE.items()
    ]
    + [
        Case((real(3, 3), _PICKS, real(2, 3)), _scattered(_COMBINE[name]), {"axis": 1, "reduction": name})
        for name in ("add", "mul", "max", "min")
    ],
    "searchsorted": [
        Case(
            (np.array([1.0, 2.0, 2.0, 4.0]), np.array([[0.0, 2.0], [4.0, 9.0]])),
            lambda row, x, right: np.array([[0, 3], [4, 4]]) if right else np.array([[0, 1], [3, 4]]),
            {"right": right},
        )
        for right in (False, True)
    ]
    + [
        Case(
            (np.array([[1.0, 2.0], [5.0, 6.0]]), np.array([[1.5], [7.0]])),
            lambda row, x, right: np.array([[1], [2]]),
            {"right": False},
        )
    ],
    "sort": [
        Case(
            (x,),
            lambda x, axis, descending: (
                -np.sort(-x, axis) if descending else np.sort(x, axis),
                np.argsort(-x if descending else x, axis, kind="stable"),
            ),
            {"axis": axis, "descending": descending},
        )
        for x in (real(3, 4), whole(3, 4, 5))
        for axis, descending in ((0, False), (1, True))
    ],
    "topk": [
        Case(
            (real(3, 4),),
            lambda x, count, axis, largest: (
                (np.sort(x, 1)[:, ::-1] if largest else np.sort(x, 1))[:, :count],
                np.argsort(-x if largest else x, 1)[:, :count],
            ),
            {"count": 2, "axis": 1, "largest": largest},
        )
        for largest in (True, False)
    ],
    "unique": [
        Case(
            (np.array([[3, 1], [1, 2]]),),
            lambda x, axis, sorted: (
                ([1, 2, 3], [1, 3, 0], [2, 0, 0, 1], [2, 1, 1])
                if sorted
                else ([3, 1, 2], [0, 1, 3], [0, 1, 1, 2], [1, 2, 1])
            ),
            {"axis": None, "sorted": sorted},
            infers=False,
        )
        for sorted in (True, False)
    ],
}
SILENT = {"all", "any", "argmin", "histogram", "nonzero", "one_hot", "searchsorted", "unique"}
