"""Primitives whose kernels write into given memory: element-wise and row kernels, convolution, pooling, attention."""

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import cast

import numpy as np

from ... import kernels
from ...dtype import Dtype
from ...errors import ShapeError
from ...ops.attention_ops import Call, attend, attend_back
from ...ops.convolution_ops import ConvolutionWindow
from ...ops.sliding_window import PoolWindow
from ...specs import Shape, Spec
from ...tensor import Array
from .into import Into, into
from .threads import at_once, parts_of, thread_count

__all__: list[str] = []


def _rows(spec: Spec) -> Shape:
    """Return all axes but the last as one."""
    return (prod(spec.shape[:-1]), spec.shape[-1]) if spec.shape else (1, 1)


def _fits(*specs: Spec) -> bool:
    return len({spec.dtype for spec in specs}) == 1 and specs[0].dtype.name in ("float32", "float64")


def _flat(name: str) -> None:
    """Register an element-wise kernel over flat arrays of one shape."""

    def build(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
        if attributes or not _fits(*inputs) or any(x.shape != outputs[0].shape for x in inputs):
            return None
        kernel = getattr(kernels.elementwise_kernels, name)
        flat = (prod(outputs[0].shape),)
        return Into(kernel, (flat,) * len(inputs), (flat,))

    into(name)(build)


for _name in (
    *("relu_gradient", "sigmoid", "silu", "silu_gradient", "gelu", "gelu_gradient", "gelu_exact"),
    "gelu_exact_gradient",
):
    _flat(_name)


@into("softmax")
def _softmax(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    x = inputs[0]
    if not _fits(x) or set(attributes) != {"scale", "causal"}:
        return None
    scale, length = float(cast("float", attributes["scale"])), x.shape[-2] if attributes["causal"] else 0
    kernel = kernels.softmax_kernels.softmax
    return Into(lambda x, out: kernel(x, out, scale, length), (_rows(x),), (_rows(x),))


@into("softmax_gradient")
def _softmax_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    y = inputs[1]
    if not _fits(*inputs) or set(attributes) != {"scale", "causal"}:
        return None
    scale, length = float(cast("float", attributes["scale"])), y.shape[-2] if attributes["causal"] else 0
    kernel = kernels.softmax_kernels.softmax_gradient
    return Into(lambda g, y, out: kernel(g, y, out, scale, length), (_rows(y), _rows(y)), (_rows(y),))


@into("layer_norm")
def _layer_norm(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[0])
    kernel = kernels.normalization_kernels.layer_norm
    return Into(lambda x, gamma, beta, out: kernel(x, gamma, beta, out, epsilon), (rows, None, None), (rows,))


@into("layer_norm_gradient")
def _layer_norm_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[1])
    kernel = kernels.normalization_kernels.layer_norm_gradient
    return Into(lambda *arrays: kernel(*arrays, epsilon), (rows, rows, None), (rows, None, None))


@into("rms_norm")
def _rms_norm(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[0])
    kernel = kernels.normalization_kernels.rms_norm
    return Into(lambda x, gamma, out: kernel(x, gamma, out, epsilon), (rows, None), (rows,))


@into("rms_norm_gradient")
def _rms_norm_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[1])
    kernel = kernels.normalization_kernels.rms_norm_gradient
    return Into(lambda *arrays: kernel(*arrays, epsilon), (rows, rows, None), (rows, None))


def _ignored_and_smoothing(attributes: Mapping[str, object]) -> tuple[int, float]:
    return cast("int", attributes["ignore"]), float(cast("float", attributes["smoothing"]))


@into("cross_entropy")
def _cross_entropy(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _fits(inputs[0]) or set(attributes) != {"ignore", "smoothing"}:
        return None
    ignore, smoothing = _ignored_and_smoothing(attributes)
    classes = inputs[0].shape[1]
    kernel = kernels.softmax_kernels.cross_entropy

    def run(logits: Array, labels: Array, out: Array) -> None:
        wrong = kernel(logits, labels, out, ignore, smoothing)
        if wrong >= 0:
            raise ShapeError(
                f"label {labels[wrong]} at row {wrong} names no class; expected 0..{classes - 1}, or {ignore} to ignore"
            )

    return Into(run, (None, None))


@into("cross_entropy_gradient")
def _cross_entropy_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _fits(*inputs[:2]) or set(attributes) != {"ignore", "smoothing"}:
        return None
    ignore, smoothing = _ignored_and_smoothing(attributes)
    kernel = kernels.softmax_kernels.cross_entropy_gradient
    return Into(lambda g, x, labels, out: kernel(g, x, labels, out, ignore, smoothing), (None, None, None))


@into("gather")
def _gather(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    table, indices = inputs
    if attributes or indices.dtype.kind not in "iu" or not table.shape[0]:
        return None
    rows = table.shape[0]

    def run(table: Array, indices: Array, out: Array) -> None:
        np.take(table, indices, 0, out, "wrap" if _all_exist(indices, rows) else "raise")

    return Into(run, (None, None))


def _all_exist(indices: Array, rows: int) -> bool:
    """Return whether every index, negative ones counted from the end, names a row: then no buffering is needed."""
    return not indices.size or bool(-rows <= indices.min() and indices.max() < rows)


@into("scatter_add")
def _scatter_add(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    g, indices = inputs
    if not _fits(g) or set(attributes) != {"rows"} or indices.dtype.kind not in "iu":
        return None
    count, rows = prod(indices.shape), cast("int", attributes["rows"])
    width = prod(g.shape[len(indices.shape) :])
    kernel = kernels.scatter.add_rows

    def run(values: Array, indices: Array, out: Array) -> None:
        out[...] = 0
        wrong = kernel(values, indices, out)
        if wrong >= 0:
            raise ShapeError(f"index {indices[wrong]} does not exist in a table of {rows} rows")

    return Into(run, ((count, width), (count,)), ((rows, width),))


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

    def __init__(self, x: Shape, w: Shape, size: Shape, window: ConvolutionWindow, dtype: Dtype) -> None:
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

    def gather(self, images: Array, columns: Array) -> Array:
        """Return the columns of some images."""
        part = columns[: len(images)]
        kernels.window_kernels.gather_columns(images.reshape(len(images), *self.volume), part, *self.how)
        return part

    def run(self, work: Callable[..., None], columns: Array) -> None:
        """Run `work(number, blocks, columns)` for every share."""
        tasks = [(work, (i, blocks, columns[own])) for i, (blocks, own) in enumerate(self.shares)]
        if len(tasks) == 1:
            work(*tasks[0][1])
        else:
            at_once(tasks)


def _blocks(part: slice, images: int) -> list[slice]:
    """Return the part in runs of at most so many images."""
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


def _window_of(attributes: Mapping[str, object]) -> ConvolutionWindow:
    return cast("ConvolutionWindow", attributes["window"])


@into("conv", "conv_bias")
def _conv(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    (x, w), y, window = inputs[:2], outputs[0], _window_of(attributes)
    if window.groups != 1 or not _is_dense(*inputs, y):
        return None
    plan = _Columns(x.shape, w.shape, y.shape[2:], window, x.dtype)
    flat, matrix = (*y.shape[:2], prod(y.shape[2:])), (w.shape[0], prod(w.shape[1:]))

    def run(images: Array, weights: Array, *rest: Array) -> None:
        *bias, out, columns = rest

        def work(_: int, blocks: list[slice], own: Array) -> None:
            for part in blocks:
                np.matmul(weights, plan.gather(images[part], own), out[part])
                if bias:
                    np.add(out[part], bias[0], out[part])

        plan.run(work, columns)

    shapes = (None, matrix, *([(w.shape[0], 1)] if len(inputs) == 3 else []))
    return Into(run, shapes, (flat,), scratch=(plan.scratch,))


@into("conv_input_gradient")
def _conv_input(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    (g, w), x, window = inputs, outputs[0], _window_of(attributes)
    if window.groups != 1 or not _is_dense(*inputs, x):
        return None
    plan = _Columns(x.shape, w.shape, g.shape[2:], window, g.dtype)
    flat, matrix = (*g.shape[:2], prod(g.shape[2:])), (w.shape[0], prod(w.shape[1:]))

    def run(g: Array, weights: Array, out: Array, columns: Array) -> None:
        turned = weights.T

        def work(_: int, blocks: list[slice], own: Array) -> None:
            for part in blocks:
                gathered = own[: part.stop - part.start]
                np.matmul(turned, g[part], gathered)
                kernels.window_kernels.add_columns(gathered, out[part], *plan.how)

        plan.run(work, columns)

    return Into(run, (flat, matrix), ((x.shape[0], *plan.volume),), scratch=(plan.scratch,))


@into("conv_weight_gradient")
def _conv_weight(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    (g, x), w, window = inputs, outputs[0], _window_of(attributes)
    if window.groups != 1 or not _is_dense(*inputs, w):
        return None
    plan = _Columns(x.shape, w.shape, g.shape[2:], window, g.dtype)
    flat, matrix = (*g.shape[:2], prod(g.shape[2:])), (w.shape[0], prod(w.shape[1:]))
    products = Spec((plan.scratch.shape[0], *matrix), g.dtype)
    totals = Spec((len(plan.shares), *matrix), g.dtype)

    def run(g: Array, images: Array, out: Array, columns: Array, products: Array, totals: Array) -> None:
        def work(number: int, blocks: list[slice], own: Array) -> None:
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
def _max_pool(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    """Pool images without gaps; halving both axes has a kernel of its own, which vectorises."""
    x, y, window = inputs[0], outputs[0], cast("PoolWindow", attributes["window"])
    if len(window.kernel) != 2 or set(window.dilation) != {1} or window.ceil or not _is_dense(x, y):
        return None
    before = (window.padding[0][0], window.padding[1][0])
    planes = (prod(x.shape[:2]), *x.shape[2:])
    pooled = (prod(y.shape[:2]), *y.shape[2:])
    if window.kernel == (2, 2) and window.stride == (2, 2) and before == (0, 0):
        return Into(kernels.pooling_kernels.max_pool_halves, (planes,), (pooled, pooled))
    kernel, stride = tuple(window.kernel), tuple(window.stride)
    pool = kernels.pooling_kernels.max_pool
    return Into(lambda x, out, places: pool(x, out, places, kernel, stride, before), (planes,), (pooled, pooled))


@into("put_places")
def _put_places(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    g, shape = inputs[0], outputs[0].shape
    if not _is_dense(g, outputs[0]) or not inputs[1].size:
        return None
    planes = prod(shape[:2])
    flat, whole = (planes, prod(g.shape[2:])), (planes, prod(shape[2:]))

    def run(g: Array, places: Array, out: Array) -> None:
        wrong = kernels.pooling_kernels.put_places(g, places, out)
        if wrong >= 0:
            raise ShapeError(f"place {places.reshape(-1)[wrong]} does not exist in planes of {shape[2:]}")

    return Into(run, (flat, flat), (whole,))


def _order(spec: Spec) -> Shape | None:
    """Return `(batch, positions, heads, features)` in memory, for `(batch, heads, positions, features)`."""
    return (0, 2, 1, 3) if len(spec.shape) == 4 else None


def _attention_fits(*specs: Spec) -> bool:
    return len({x.dtype for x in specs}) == 1 and specs[0].dtype.name in ("float32", "float64")


def _all(calls: Iterable[Call]) -> Callable[[], None]:
    """Make one call for many, their arguments kept: slicing heads takes longer than some of the products."""
    kept = list(calls)

    def run() -> None:
        for function, arguments in kept:
            function(*arguments)

    return run


def _split(q: Array, part: Callable[[slice], Callable[[], None]]) -> Callable[[], None]:
    """Return the work, by parts of the batch where several threads may do it."""
    count = thread_count()
    if count == 1 or q.ndim < 3 or len(q) < count:
        return part(slice(None))
    tasks = [(part(some), ()) for some in parts_of(len(q), count)]
    return lambda: at_once(tasks)


def _now(prepare: Callable[..., Callable[[], None]]) -> Callable[..., None]:
    return lambda *arrays: prepare(*arrays)()


@into("attention")
def _attention(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _attention_fits(*inputs[:3]) or set(attributes) != {"causal", "scale"}:
        return None
    causal, scale = cast("bool", attributes["causal"]), cast("float", attributes["scale"])

    def prepare(q: Array, k: Array, v: Array, *rest: Array) -> Callable[[], None]:
        *mask, out, sums = rest

        def part(some: slice) -> Callable[[], None]:
            masks = [m if m.ndim < q.ndim or len(m) == 1 else m[some] for m in mask]
            return _all(
                attend(q[some], k[some], v[some], *masks, out=out[some], sums=sums[some], causal=causal, scale=scale)
            )

        return _split(q, part)

    shapes = (None,) * len(inputs)
    return Into(
        _now(prepare),
        shapes,
        (None, None),
        is_strided=True,
        is_dense=True,
        prepare=prepare,
        orders=(_order(outputs[0]), None),
    )


@into("attention_gradient")
def _attention_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _attention_fits(*inputs[:6]) or set(attributes) != {"causal", "scale"}:
        return None
    causal, scale = cast("bool", attributes["causal"]), cast("float", attributes["scale"])

    def prepare(*arrays: Array) -> Callable[[], None]:
        *given, of_q, of_k, of_v = arrays
        mask = given[6:]

        def part(some: slice) -> Callable[[], None]:
            masks = [m if m.ndim < of_q.ndim or len(m) == 1 else m[some] for m in mask]
            found = (of_q[some], of_k[some], of_v[some])
            return _all(attend_back(*(x[some] for x in given[:6]), *masks, found=found, causal=causal, scale=scale))

        return _split(of_q, part)

    shapes, orders = (None,) * len(inputs), tuple(_order(y) for y in outputs)
    return Into(
        _now(prepare), shapes, (None, None, None), is_strided=True, is_dense=True, prepare=prepare, orders=orders
    )
