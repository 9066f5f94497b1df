"""Primitives whose fused numba kernels write into memory given to them."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ... import kernels
from ...errors import ShapeError
from ...shape import Shape, Spec
from .into import Into, into

__all__: list[str] = []


def _rows(spec: Spec) -> Shape:
    """All axes but the last as one."""
    return (prod(spec.shape[:-1]), spec.shape[-1]) if spec.shape else (1, 1)


def _fits(*specs: Spec) -> bool:
    return len({spec.dtype for spec in specs}) == 1 and specs[0].dtype.name in ("float32", "float64")


def _flat(module: str, name: str) -> None:
    """The entry of an element-wise kernel over flat arrays of one shape."""

    def build(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
        if attributes or not _fits(*inputs) or any(x.shape != outputs[0].shape for x in inputs):
            return None
        kernel = getattr(getattr(kernels, module), name)
        flat = (prod(outputs[0].shape),)
        return Into(kernel, (flat,) * len(inputs), (flat,))

    into(name)(build)


for _name in (
    *("relu_gradient", "sigmoid", "silu", "silu_gradient", "gelu", "gelu_gradient", "gelu_exact"),
    "gelu_exact_gradient",
):
    _flat("activation", _name)


@into("softmax")
def _softmax(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    x = inputs[0]
    if not _fits(x) or set(attributes) != {"scale", "causal"}:
        return None
    scale, length = float(attributes["scale"]), x.shape[-2] if attributes["causal"] else 0
    kernel = kernels.softmax.softmax
    return Into(lambda x, out: kernel(x, out, scale, length), (_rows(x),), (_rows(x),))


@into("softmax_gradient")
def _softmax_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    y = inputs[1]
    if not _fits(*inputs) or set(attributes) != {"scale", "causal"}:
        return None
    scale, length = float(attributes["scale"]), y.shape[-2] if attributes["causal"] else 0
    kernel = kernels.softmax.softmax_gradient
    return Into(lambda g, y, out: kernel(g, y, out, scale, length), (_rows(y), _rows(y)), (_rows(y),))


@into("layer_norm")
def _layer_norm(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[0])
    kernel = kernels.normalization.layer_norm
    return Into(lambda x, gamma, beta, out: kernel(x, gamma, beta, out, epsilon), (rows, None, None), (rows,))


@into("layer_norm_gradient")
def _layer_norm_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[1])
    kernel = kernels.normalization.layer_norm_gradient
    return Into(lambda *arrays: kernel(*arrays, epsilon), (rows, rows, None), (rows, None, None))


@into("rms_norm")
def _rms_norm(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[0])
    kernel = kernels.normalization.rms_norm
    return Into(lambda x, gamma, out: kernel(x, gamma, out, epsilon), (rows, None), (rows,))


@into("rms_norm_gradient")
def _rms_norm_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs):
        return None
    epsilon, rows = attributes["epsilon"], _rows(inputs[1])
    kernel = kernels.normalization.rms_norm_gradient
    return Into(lambda *arrays: kernel(*arrays, epsilon), (rows, rows, None), (rows, None))


@into("cross_entropy")
def _cross_entropy(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(inputs[0]) or set(attributes) != {"ignore", "smoothing"}:
        return None
    ignore, smoothing, classes = attributes["ignore"], float(attributes["smoothing"]), inputs[0].shape[1]
    kernel = kernels.softmax.cross_entropy

    def run(logits: Any, labels: Any, out: Any) -> None:
        wrong = kernel(logits, labels, out, ignore, smoothing)
        if wrong >= 0:
            raise ShapeError(
                f"label {labels[wrong]} at row {wrong} names no class; expected 0..{classes - 1}, or {ignore} to ignore"
            )

    return Into(run, (None, None))


@into("cross_entropy_gradient")
def _cross_entropy_gradient(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    if not _fits(*inputs[:2]) or set(attributes) != {"ignore", "smoothing"}:
        return None
    ignore, smoothing = attributes["ignore"], float(attributes["smoothing"])
    kernel = kernels.softmax.cross_entropy_gradient
    return Into(lambda g, x, labels, out: kernel(g, x, labels, out, ignore, smoothing), (None, None, None))


@into("gather")
def _gather(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    table, indices = inputs
    if attributes or indices.dtype.kind not in "iu" or not table.shape[0]:
        return None
    rows = table.shape[0]

    def run(table: Any, indices: Any, out: Any) -> None:
        np.take(table, indices, 0, out, "wrap" if _all_exist(indices, rows) else "raise")

    return Into(run, (None, None))


def _all_exist(indices: Any, rows: int) -> bool:
    """Whether every index, negative ones counted from the end, names a row: then no buffering is needed."""
    return not indices.size or bool(-rows <= indices.min() and indices.max() < rows)


@into("scatter_add")
def _scatter_add(inputs: list[Spec], outputs: list[Spec], attributes: Mapping[str, Any]) -> Into | None:
    g, indices = inputs
    if not _fits(g) or set(attributes) != {"rows"} or indices.dtype.kind not in "iu":
        return None
    count, rows = prod(indices.shape), attributes["rows"]
    width = prod(g.shape[len(indices.shape) :])
    kernel = kernels.scatter.add_rows

    def run(values: Any, indices: Any, out: Any) -> None:
        out[...] = 0
        wrong = kernel(values, indices, out)
        if wrong >= 0:
            raise ShapeError(f"index {indices[wrong]} does not exist in a table of {rows} rows")

    return Into(run, ((count, width), (count,)), ((rows, width),))
