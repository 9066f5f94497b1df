"""Tensors that come from nothing or from a shape: constants, ranges, identities, random numbers, windows."""

import math

import numpy as np

from ... import ops
from ...dtype import Dtype
from ...random import Key, next_key
from ...tensor import Tensor, wrap
from ..onnx_values import dtype_of, incoming
from ..operator_call import Elements, OperatorCall, Value, array_of, operator, whole_numbers


@operator("Constant")
def constant(call: OperatorCall) -> Value:
    """Return the value of the attribute."""
    for name in ("value", "sparse_value"):
        if name in call.attributes:
            value: Value = call.get(name)
            return value
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for name, kind in kinds.items():
        if name in call.attributes:
            return wrap(np.asarray(call.get(name), kind))
    return incoming(np.asarray(call.get("value_string", call.get("value_strings")), object))


@operator("ConstantOfShape")
def constant_of_shape(call: OperatorCall, shape: Elements) -> Tensor:
    """Return a tensor filled with one value, a float32 0 by default."""
    value = call.get("value")
    filling = np.zeros(1, np.float32) if value is None else array_of(value)
    return wrap(np.full(whole_numbers(shape), filling.reshape(()), filling.dtype))


@operator("Range")
def numbers(call: OperatorCall, start: Elements, limit: Elements, delta: Elements) -> Tensor:
    """Return numbers from `start` up to `limit`, not included, by `delta`; of 16-bit floats computed in
    `stash_type`."""
    first, last, step = (array_of(x) for x in (start, limit, delta))
    dtype = first.dtype
    wide = dtype if dtype.kind in "iu" or dtype.itemsize > 2 else dtype_of(call.get("stash_type", 1))
    count = max(0, math.ceil((last.item() - first.item()) / step.item()))
    return wrap((first.astype(wide) + np.arange(count).astype(wide) * step.astype(wide)).astype(dtype))


@operator("EyeLike")
def eye_like(call: OperatorCall, x: Tensor) -> Tensor:
    """Return a matrix of that shape with ones on a diagonal."""
    dtype = dtype_of(call.get("dtype")) if "dtype" in call.attributes else x.dtype
    return wrap(np.eye(x.shape[0], x.shape[1], call.get("k", 0)).astype(dtype))


def _key(call: OperatorCall) -> Key:
    """Return the key of a random operator: its own where a seed is given, else the context's next."""
    seed = call.get("seed")
    return next_key() if seed is None else Key(int(np.asarray(seed, np.float32).view(np.uint32)))


@operator("RandomUniform")
@operator("RandomUniformLike")
def random_uniform(call: OperatorCall, like: Elements | None = None) -> Tensor:
    """Return numbers evenly spread from `low` to `high`."""
    drawn = ops.uniform(_key(call), _shape(call, like), call.get("low", 0.0), call.get("high", 1.0))
    return ops.cast(drawn, _dtype(call, like))


@operator("RandomNormal")
@operator("RandomNormalLike")
def random_normal(call: OperatorCall, like: Elements | None = None) -> Tensor:
    """Return numbers from a normal distribution."""
    drawn = ops.normal(_key(call), _shape(call, like)) * call.get("scale", 1.0) + call.get("mean", 0.0)
    return ops.cast(drawn, _dtype(call, like))


def _shape(call: OperatorCall, like: Elements | None) -> tuple[int, ...]:
    return tuple(like.shape) if like is not None else tuple(call.get("shape"))


def _dtype(call: OperatorCall, like: Elements | None) -> Dtype:
    if "dtype" in call.attributes:
        return dtype_of(call.get("dtype"))
    return like.dtype if like is not None else np.dtype(np.float32)


@operator("Bernoulli")
def bernoulli(call: OperatorCall, chances: Tensor) -> Tensor:
    """Return 1 with the chance given, else 0."""
    drawn = ops.uniform(_key(call), chances.shape)
    return ops.cast(ops.less(drawn, ops.cast(chances, "float32")), _dtype(call, chances))


@operator("Multinomial")
def multinomial(call: OperatorCall, logits: Tensor) -> Tensor:
    """Return indices of classes drawn with the chances that the logits give, `sample_size` for each row."""
    samples = call.get("sample_size", 1)
    noise = ops.uniform(_key(call), (logits.shape[0], samples, logits.shape[1]), 1e-12, 1.0)
    chosen = ops.argmax(ops.expand_dims(ops.cast(logits, "float32"), 1) - ops.log(-ops.log(noise)), -1)
    return ops.cast(chosen, dtype_of(call.get("dtype", 6)))


@operator("Dropout")
def dropout(
    call: OperatorCall, x: Tensor, ratio: Elements | None = None, training: Elements | None = None
) -> tuple[Tensor, Tensor]:
    """Return the tensor, in training with a share of its elements set to 0; and which were kept."""
    share = float(array_of(ratio)) if ratio is not None else call.get("ratio", 0.5)
    is_training = bool(array_of(training)) if training is not None else False
    if not is_training or share == 0.0:
        return x, wrap(np.ones(x.shape, np.bool_))
    kept = ops.greater_equal(ops.uniform(_key(call), x.shape), share)
    return ops.where(kept, x * (1.0 / (1.0 - share)), 0.0), kept


def _window(call: OperatorCall, size: Elements, weights: tuple[float, ...]) -> Tensor:
    """Return a sum of cosines over `size` places, the last of which closes the period unless `periodic`."""
    length = whole_numbers(size)[0]
    period = length if call.get("periodic", 1) else length - 1
    angles = 2.0 * np.pi * np.arange(length) / max(period, 1)
    total = sum((-1) ** k * weight * np.cos(k * angles) for k, weight in enumerate(weights))
    return wrap(np.asarray(total).astype(dtype_of(call.get("output_datatype", 1))))


@operator("HannWindow")
def hann_window(call: OperatorCall, size: Elements) -> Tensor:
    """Return `1/2 - 1/2 cos`."""
    return _window(call, size, (0.5, 0.5))


@operator("HammingWindow")
def hamming_window(call: OperatorCall, size: Elements) -> Tensor:
    """Return `25/46 - 21/46 cos`."""
    return _window(call, size, (25.0 / 46.0, 21.0 / 46.0))


@operator("BlackmanWindow")
def blackman_window(call: OperatorCall, size: Elements) -> Tensor:
    """Return `0.42 - 0.5 cos + 0.08 cos 2`."""
    return _window(call, size, (0.42, 0.5, 0.08))
