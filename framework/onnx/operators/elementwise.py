"""Functions of one element: each is one operation of the engine."""

from typing import Any

from ... import ops
from ...tensor import Tensor
from ..call import Call
from ..registry import operator

#: ONNX name to the engine's.
_SAME = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bitwise_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Neg": "negative",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}


def _register(onnx_name: str, name: str) -> None:
    function = getattr(ops, name)

    def run(call: Call, x: Tensor) -> Any:
        return function(x)

    operator(onnx_name)(run)


for _onnx_name, _name in _SAME.items():
    _register(_onnx_name, _name)


@operator("Identity")
def identity(call: Call, x: Any) -> Any:
    """The same value, whatever it is."""
    return x


@operator("IsInf")
def is_inf(call: Call, x: Tensor) -> Tensor:
    """Whether an element is infinite, of the signs asked for."""
    return ops.isinf(x, positive=bool(call.get("detect_positive", 1)), negative=bool(call.get("detect_negative", 1)))
