"""Primitives that write their result into memory given to them: the table, and what NumPy itself can do.

    @into("negative")
    def _(inputs, outputs, attributes) -> Into | None

The function is asked once, when a graph is compiled, with the specs; it says which callable computes the result and in
which shapes that callable wants its arrays, or None where it cannot. Without an entry the primitive's own `evaluate`
allocates the result at every call.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple, cast

import numpy as np

from ...registration import entering
from ...specs import Shape, Spec
from ...tensor import Array
from .threads import product

__all__ = ["INTO", "Into", "into"]


class Into(NamedTuple):
    """How to compute a primitive into given arrays.

    Attributes:
        run: `run(*inputs, *outputs)`; what it returns is ignored.
        inputs: The shape in which each input is handed over, None for its own.
        outputs: Likewise.
        over: Numbers of inputs that the first output may overwrite while it is computed.
        is_strided: Whether inputs may be any views; else they are contiguous.
        is_dense: Whether the last axis of strided inputs must be dense all the same.
        scratch: Further memory, handed over behind the outputs.
        orders: For an output the order in which its axes lie in memory, None for the usual one.
        prepare: Where all arrays are the same at every call, `prepare(*arrays)` gives, once, what is called then.
    """

    run: Callable[..., object]
    inputs: tuple[Shape | None, ...]
    outputs: tuple[Shape | None, ...] = (None,)
    over: tuple[int, ...] = ()
    is_strided: bool = False
    is_dense: bool = False
    scratch: tuple[Spec, ...] = ()
    orders: tuple[Shape | None, ...] = ()
    prepare: Callable[..., Callable[[], object]] | None = None


#: `builder(input specs, output specs, attributes)`, by primitive.
Builder = Callable[[list[Spec], list[Spec], Mapping[str, object]], Into | None]

INTO: dict[str, Builder] = {}


def into(*names: str) -> Callable[[Builder], Builder]:
    """Return a decorator: the function becomes the builder for the primitives of these names."""
    return entering(INTO, names, "a way to write the result into memory")


_UFUNCS: dict[str, Callable[..., object]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.true_divide,
    "power": np.power,
    "maximum": lambda a, b, out: np.maximum(a, b, out=out),  # a third place is deprecated for these two
    "minimum": lambda a, b, out: np.minimum(a, b, out=out),
    "negative": np.negative,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "abs": np.abs,
    "square": np.square,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
}


def _ufunc(name: str) -> Builder:
    function = _UFUNCS[name]

    def build(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
        if attributes or not _is_native(*outputs):
            return None
        kinds = {x.dtype for x in inputs if not x.weak}
        if len(kinds) > 1 or (outputs[0].dtype.kind != "b" and kinds != {outputs[0].dtype}):
            return None
        same = tuple(i for i, x in enumerate(inputs) if x.shape == outputs[0].shape and x.dtype == outputs[0].dtype)
        return Into(function, (None,) * len(inputs), over=same, is_strided=True)

    return build


for _name in _UFUNCS:
    into(_name)(_ufunc(_name))


def _is_native(*specs: Spec) -> bool:
    return all(spec.dtype.isbuiltin and spec.dtype.kind in "biufc" and spec.dtype.name != "float16" for spec in specs)


@into("relu")
def _relu(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if not _is_native(*inputs):
        return None
    zero = inputs[0].dtype.type(0)
    return Into(lambda x, out: np.maximum(x, zero, out=out), (None,), over=(0,), is_strided=True)


@into("cast")
def _cast(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    if inputs[0].weak or (inputs[0].dtype.kind == "c" and outputs[0].dtype.kind not in "cb"):
        return None
    return Into(lambda x, out: np.copyto(out, x, casting="unsafe"), (None,), is_strided=True)


@into("matmul")
def _matmul(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    """Multiply, stacks included; an operand whose rows are not contiguous, nor its columns, is copied first."""
    if inputs[0].dtype != inputs[1].dtype or not _is_native(*inputs) or inputs[0].dtype.kind not in "fc":
        return None
    return Into(product(inputs[0], inputs[1], outputs[0]), (None, None), is_strided=True)


@into("sum_to")
def _sum_to(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    """Sum over leading axes: a vector of ones times the matrix, which BLAS sums at memory speed."""
    x, kept = inputs[0], outputs[0]
    aligned = (1,) * (len(x.shape) - len(kept.shape)) + kept.shape
    first = next((axis for axis, length in enumerate(aligned) if length != 1), len(aligned))
    if x.dtype.name not in ("float32", "float64") or x.shape[first:] != aligned[first:] or not x.size:
        return None
    rows, columns = prod(x.shape[:first]), prod(aligned[first:])
    ones = np.ones(rows, x.dtype)
    return Into(lambda x, out: np.dot(ones, x, out), ((rows, columns),), ((columns,),))


@into("sum")
def _sum(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    x, axes = inputs[0], cast("Shape", attributes["axes"])
    if x.dtype != outputs[0].dtype or not _is_native(x):
        return None
    kept = tuple(1 if i in axes else length for i, length in enumerate(x.shape))
    return Into(lambda x, out: np.add.reduce(x, axes, out=out, keepdims=True), (None,), (kept,), is_strided=True)


@into("where")
def _where(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    dtypes = {x.dtype for x in inputs[1:] if not x.weak}
    if dtypes != {outputs[0].dtype} or not _is_native(*outputs):
        return None

    def run(condition: Array, a: Array, b: Array, out: Array) -> None:
        np.copyto(out, b)
        np.copyto(out, a, where=condition)

    return Into(run, (None, None, None), is_strided=True)


@into("concat")
def _concat(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, object]) -> Into | None:
    axis = cast("int", attributes["axis"])
    return Into(lambda *x: np.concatenate(x[:-1], axis, x[-1]), (None,) * len(inputs), is_strided=True)
