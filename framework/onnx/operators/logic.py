"""Comparisons, truth and choice."""

from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor
from ..call import Call
from ..registry import operator

_PAIRS = {
    "And": "logical_and",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Or": "logical_or",
    "Xor": "logical_xor",
}


def _register(onnx_name: str, name: str) -> None:
    function = getattr(ops, name)

    def run(call: Call, a: Tensor, b: Tensor) -> Tensor:
        result: Tensor = function(a, b)
        return result

    operator(onnx_name)(run)


for _onnx_name, _name in _PAIRS.items():
    _register(_onnx_name, _name)


@operator("Equal")
def equal(call: Call, a: Any, b: Any) -> Tensor:
    """Whether elements are equal; words too."""
    if isinstance(a, np.ndarray):
        return Tensor(np.asarray(a == b, np.bool_))
    return ops.equal(a, b)


@operator("Where")
def where(call: Call, condition: Tensor, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; of words too."""
    if isinstance(a, np.ndarray):
        return np.where(condition.numpy(), a, b)
    return ops.where(condition, a, b)
