"""Windows: convolution, pooling, and what belongs to them."""

from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor, wrap
from ..call import Call, whole_numbers
from ..registry import operator

_AUTO = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}
_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_CONV_TRANSPOSE = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
_AVG_POOL = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


def padding_of(call: Call, axes: int) -> Any:
    """The padding as the engine takes it."""
    auto = call.get("auto_pad", "NOTSET")
    if auto in _AUTO:
        return _AUTO[auto]
    pads = call.get("pads", (0,) * 2 * axes)
    return tuple(zip(pads[:axes], pads[axes:], strict=True))


def _how(call: Call, axes: int) -> dict[str, Any]:
    return {
        "stride": call.get("strides", 1),
        "padding": padding_of(call, axes),
        "dilation": call.get("dilations", 1),
        "groups": call.get("group", 1),
    }


def _known(call: Call, table: dict[int, Any], axes: int) -> Any:
    if axes not in table:
        raise call.refuse(f"windows over {axes} axes (1 to 3 are possible)")
    return table[axes]


@operator("Conv")
def conv(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Images correlated with weights."""
    axes = x.ndim - 2
    found: Tensor = _known(call, _CONV, axes)(x, weight, bias, **_how(call, axes))
    return found


@operator("ConvTranspose")
def conv_transpose(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The transpose of a convolution; with `output_shape` the padding follows from it."""
    axes = x.ndim - 2
    how = _how(call, axes)
    extra = call.get("output_padding", (0,) * axes)
    wanted = call.get("output_shape")
    if wanted is not None:
        how["padding"] = _padding_for(call, x, weight, wanted[-axes:], extra)
    found: Tensor = _known(call, _CONV_TRANSPOSE, axes)(x, weight, bias, output_padding=extra, **how)
    return found


def _padding_for(call: Call, x: Tensor, weight: Tensor, wanted: tuple[int, ...], extra: tuple[int, ...]) -> Any:
    axes = x.ndim - 2
    stride, dilation = call.get("strides", (1,) * axes), call.get("dilations", (1,) * axes)
    sides = []
    for i in range(axes):
        natural = stride[i] * (x.shape[2 + i] - 1) + extra[i] + (weight.shape[2 + i] - 1) * dilation[i] + 1
        total = natural - wanted[i]
        half = total // 2
        sides.append((half, total - half) if call.get("auto_pad") == "SAME_UPPER" else (total - half, half))
    return tuple(sides)


@operator("DeformConv")
def deform_conv(
    call: Call, x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Convolution whose window's elements are moved by offsets."""
    if x.ndim != 4:
        raise call.refuse(f"a deformed convolution over {x.ndim - 2} axes (2 are possible)")
    return ops.deform_conv(x, weight, offset, bias, mask, offset_groups=call.get("offset_group", 1), **_how(call, 2))


def _pool_how(call: Call, axes: int) -> dict[str, Any]:
    return {
        "stride": call.get("strides", 1),
        "padding": padding_of(call, axes),
        "dilation": call.get("dilations", 1),
        "ceil_mode": bool(call.get("ceil_mode", 0)),
    }


@operator("MaxPool")
def max_pool(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    """The largest element of each window, and its place in the flattened tensor."""
    values, places = ops.max_pool_with_places(x, call.get("kernel_shape"), **_pool_how(call, x.ndim - 2))
    if not call.wants(1):
        return (values,)
    lengths = x.shape[2:]
    flat = ops.cast(places, "int64")
    if call.get("storage_order", 0):
        flat = _column_major(flat, lengths)
    plane = int(np.prod(lengths))
    first = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(lengths)) * plane
    return values, flat + wrap(first)


def _column_major(places: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """Places in a plane, counted with the first axis running fastest."""
    total: Any = None
    step = 1
    rest = places
    below = int(np.prod(lengths))
    for length in lengths:
        below //= length
        coordinate = ops.floor_divide(rest, below)
        rest = rest - coordinate * below
        total = coordinate * step if total is None else total + coordinate * step
        step *= length
    result: Tensor = total
    return result


@operator("MaxUnpool")
def max_unpool(call: Call, x: Tensor, places: Tensor, shape: Any = None) -> Tensor:
    """Zeros with each element at its place in the flattened tensor that was pooled."""
    axes = x.ndim - 2
    kernel, stride = call.get("kernel_shape"), call.get("strides", (1,) * axes)
    pads = call.get("pads", (0,) * 2 * axes)
    pooled = (
        *x.shape[:2],
        *((x.shape[2 + i] - 1) * stride[i] + kernel[i] - pads[i] - pads[axes + i] for i in range(axes)),
    )
    plane = int(np.prod(pooled[2:]))
    whole = whole_numbers(shape) if shape is not None else pooled
    out = ops.max_unpool(x, ops.remainder(places, plane), pooled)
    # In a larger result the elements keep their coordinates.
    return ops.pad(out, [(0, more - had) for more, had in zip(whole, pooled, strict=True)])


@operator("AveragePool")
def average_pool(call: Call, x: Tensor) -> Tensor:
    """The mean of each window, without padding unless `count_include_pad`."""
    axes = x.ndim - 2
    how = _pool_how(call, axes)
    include = bool(call.get("count_include_pad", 0))
    found: Tensor = _known(call, _AVG_POOL, axes)(x, call.get("kernel_shape"), count_include_pad=include, **how)
    return found


@operator("LpPool")
def lp_pool(call: Call, x: Tensor) -> Tensor:
    """The p-norm of each window."""
    return ops.lp_pool(x, float(call.get("p", 2)), call.get("kernel_shape"), **_pool_how(call, x.ndim - 2))


@operator("GlobalAveragePool")
def global_average_pool(call: Call, x: Tensor) -> Tensor:
    """The mean of each channel."""
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(call: Call, x: Tensor) -> Tensor:
    """The largest element of each channel."""
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(call: Call, x: Tensor) -> Tensor:
    """The p-norm of each channel."""
    p = float(call.get("p", 2))
    return (abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1.0 / p)


@operator("Col2Im")
def col2im(call: Call, columns: Tensor, image: Any, block: Any) -> Tensor:
    """Columns added up in images."""
    lengths, kernel = whole_numbers(image), whole_numbers(block)
    axes = len(lengths)
    if axes > 3:
        raise call.refuse(f"images of {axes} axes (1 to 3 are possible)")
    return ops.fold(columns, lengths, kernel, call.get("strides", 1), padding_of(call, axes), call.get("dilations", 1))
