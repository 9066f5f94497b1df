"""Convolution and pooling into given memory; their columns are scratch memory of the plan."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ... import kernels
from ...errors import ShapeError
from ...shape import Shape, Spec
from .into import Into, into
from .threads import at_once, parts_of, thread_count

__all__: list[str] = []

# Columns of so many bytes are gathered at once, so that the product finds them in the cache. Our choice.
_BLOCK_BYTES = 1 << 19

# Multiplications from which on a second thread is woken. Our choice: about 100 us of one core.
_WORTH_A_THREAD = 8_000_000


class _Columns:
    """How the images of a convolution become columns: shares for threads, block by block.

    Attributes:
        shares: For each thread the blocks of images that are its own, and which part of the scratch memory.
        scratch: The columns of one block for each thread.
    """

    def __init__(self, x: Shape, w: Shape, size: Shape, window: Any, dtype: Any) -> None:
        before = tuple(side[0] for side in window.padding)
        self.how = (
            _triple(w[2:], 1),
            _triple(window.stride, 1),
            _triple(before, 0),
            _triple(window.dilation, 1),
            _triple(size, 1),
        )
        self.volume = (x[1], *_triple(x[2:], 1))
        depth, length = x[1] * prod(w[2:]), prod(size)
        count = thread_count() if x[0] * w[0] * depth * length >= _WORTH_A_THREAD else 1
        images = min(x[0], max(1, _BLOCK_BYTES // max(1, depth * length * dtype.itemsize)))
        parts = parts_of(x[0], count)
        self.shares = [(_blocks(part, images), slice(i * images, (i + 1) * images)) for i, part in enumerate(parts)]
        self.scratch = Spec((len(parts) * images, depth, length), dtype)

    def gather(self, images: Any, columns: Any) -> Any:
        """The columns of some images."""
        part = columns[: len(images)]
        kernels.window.gather_columns(images.reshape(len(images), *self.volume), part, *self.how)
        return part

    def run(self, work: Callable[..., None], columns: Any) -> None:
        """Nothing; `work(number, blocks, columns)` is done for every share."""
        tasks = [(work, (i, blocks, columns[own])) for i, (blocks, own) in enumerate(self.shares)]
        if len(tasks) == 1:
            work(*tasks[0][1])
        else:
            at_once(tasks)


def _blocks(part: slice, images: int) -> list[slice]:
    """The part in runs of at most so many images."""
    return [slice(start, min(start + images, part.stop)) for start in range(part.start, part.stop, images)]


def _triple(values: Shape, fill: int) -> tuple[int, int, int]:
    depth, height, width = (*(fill,) * (3 - len(values)), *values)
    return depth, height, width


def _is_dense(*specs: Spec) -> bool:
    return (
        len({x.dtype for x in specs}) == 1
        and specs[0].dtype.name in ("float32", "float64")
        and all(x.size for x in specs)
    )


@into("conv", "conv_bias")
def _conv(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    (x, w), y, window = inputs[:2], outputs[0], attributes["window"]
    if window.groups != 1 or not _is_dense(*inputs, y):
        return None
    plan = _Columns(x.shape, w.shape, y.shape[2:], window, x.dtype)
    flat, matrix = (*y.shape[:2], prod(y.shape[2:])), (w.shape[0], prod(w.shape[1:]))

    def run(images: Any, weights: Any, *rest: Any) -> None:
        *bias, out, columns = rest

        def work(_: int, blocks: list[slice], own: Any) -> None:
            for part in blocks:
                np.matmul(weights, plan.gather(images[part], own), out[part])
                if bias:
                    np.add(out[part], bias[0], out[part])

        plan.run(work, columns)

    shapes = (None, matrix, *([(w.shape[0], 1)] if len(inputs) == 3 else []))
    return Into(run, shapes, (flat,), scratch=(plan.scratch,))


@into("conv_input_gradient")
def _conv_input(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    (g, w), x, window = inputs, outputs[0], attributes["window"]
    if window.groups != 1 or not _is_dense(*inputs, x):
        return None
    plan = _Columns(x.shape, w.shape, g.shape[2:], window, g.dtype)
    flat, matrix = (*g.shape[:2], prod(g.shape[2:])), (w.shape[0], prod(w.shape[1:]))

    def run(g: Any, weights: Any, out: Any, columns: Any) -> None:
        turned = weights.T

        def work(_: int, blocks: list[slice], own: Any) -> None:
            for part in blocks:
                gathered = own[: part.stop - part.start]
                np.matmul(turned, g[part], gathered)
                kernels.window.add_columns(gathered, out[part], *plan.how)

        plan.run(work, columns)

    return Into(run, (flat, matrix), ((x.shape[0], *plan.volume),), scratch=(plan.scratch,))


@into("conv_weight_gradient")
def _conv_weight(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    (g, x), w, window = inputs, outputs[0], attributes["window"]
    if window.groups != 1 or not _is_dense(*inputs, w):
        return None
    plan = _Columns(x.shape, w.shape, g.shape[2:], window, g.dtype)
    flat, matrix = (*g.shape[:2], prod(g.shape[2:])), (w.shape[0], prod(w.shape[1:]))
    products = Spec((plan.scratch.shape[0], *matrix), g.dtype)
    totals = Spec((len(plan.shares), *matrix), g.dtype)

    def run(g: Any, images: Any, out: Any, columns: Any, products: Any, totals: Any) -> None:
        def work(number: int, blocks: list[slice], own: Any) -> None:
            found = products[plan.shares[number][1]]
            totals[number] = 0
            for part in blocks:
                some = found[: part.stop - part.start]
                np.matmul(g[part], plan.gather(images[part], own).swapaxes(-1, -2), some)
                np.add(totals[number], some.sum(0), totals[number])

        plan.run(work, columns)
        np.add.reduce(totals, 0, out=out)

    return Into(run, (flat, None), (matrix,), scratch=(plan.scratch, products, totals))


@into("max_pool")
def _max_pool(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    """Over images without gaps; halving both axes has a kernel of its own, which vectorises."""
    x, y, window = inputs[0], outputs[0], attributes["window"]
    if len(window.kernel) != 2 or set(window.dilation) != {1} or window.ceil or not _is_dense(x, y):
        return None
    before = (window.padding[0][0], window.padding[1][0])
    planes = (prod(x.shape[:2]), *x.shape[2:])
    pooled = (prod(y.shape[:2]), *y.shape[2:])
    if window.kernel == (2, 2) and window.stride == (2, 2) and before == (0, 0):
        return Into(kernels.halving.max_pool_halves, (planes,), (pooled, pooled))
    kernel, stride = tuple(window.kernel), tuple(window.stride)
    pool = kernels.window.max_pool
    return Into(lambda x, out, places: pool(x, out, places, kernel, stride, before), (planes,), (pooled, pooled))


@into("put_places")
def _put_places(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    g, shape = inputs[0], outputs[0].shape
    if not _is_dense(g, outputs[0]) or not inputs[1].size:
        return None
    planes = prod(shape[:2])
    flat, whole = (planes, prod(g.shape[2:])), (planes, prod(shape[2:]))

    def run(g: Any, places: Any, out: Any) -> None:
        wrong = kernels.window.put_places(g, places, out)
        if wrong >= 0:
            raise ShapeError(f"place {places.reshape(-1)[wrong]} does not exist in planes of {shape[2:]}")

    return Into(run, (flat, flat), (whole,))
