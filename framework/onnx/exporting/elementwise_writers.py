"""Writers of element-wise primitives."""

import math

import numpy as np

from ...ir import Apply
from ..onnx_errors import ExportError
from .model_builder import Builder, spec_of_node, writer

#: Primitives that are one ONNX operator of the same inputs.
_SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "cos": "Cos", "cosh": "Cosh", "divide": "Div", "equal": "Equal", "erf": "Erf", "exp": "Exp",
    "greater": "Greater", "greater_equal": "GreaterOrEqual",
    "isnan": "IsNaN", "less": "Less", "less_equal": "LessOrEqual", "log": "Log", "maximum": "Max", "minimum": "Min",
    "multiply": "Mul", "negative": "Neg", "power": "Pow", "relu": "Relu", "sigmoid": "Sigmoid",
    "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "subtract": "Sub", "tan": "Tan", "tanh": "Tanh",
    "where": "Where",
}  # fmt: skip


def _register(primitive: str, operator: str) -> None:
    def write(builder: Builder, node: Apply, *names: str) -> str:
        return builder.add(operator, *names)

    writer(primitive)(write)


for _primitive, _operator in _SAME.items():
    _register(_primitive, _operator)


@writer("identity", "mark", "segment", "stop_gradient", "observe")
def identity(builder: Builder, node: Apply, x: str) -> str:
    """Write the value itself: what only observes is not written."""
    return x


@writer("logical_and", "logical_or", "logical_xor", "logical_not")
def logic(builder: Builder, node: Apply, *names: str) -> str:
    """Write logic on truth values, which other types become first."""
    truths = [
        name if spec_of_node(x).dtype.kind == "b" else builder.cast(name, np.dtype(np.bool_))
        for name, x in zip(names, node.arguments, strict=True)
    ]
    kinds = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}
    return builder.add(next(kinds[kind] for kind in kinds if node.applies(kind)), *truths)


_BITS = {
    "bitwise_and": ("And", "BitwiseAnd"), "bitwise_not": ("Not", "BitwiseNot"), "bitwise_or": ("Or", "BitwiseOr"),
    "bitwise_xor": ("Xor", "BitwiseXor"),
}  # fmt: skip


@writer(*_BITS)
def bits(builder: Builder, node: Apply, *names: str) -> str:
    """Write logic bit by bit; of truth values by the logical operators."""
    of_truth, of_bits = next(pair for name, pair in _BITS.items() if node.applies(name))
    return builder.add(of_truth if spec_of_node(node).dtype.kind == "b" else of_bits, *names)


_ROUNDING = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}


@writer(*_ROUNDING)
def rounded(builder: Builder, node: Apply, x: str) -> str:
    """Write a whole number near; integers are whole already, and ONNX does not round them."""
    if spec_of_node(node).dtype.kind != "f":
        return x
    return builder.add(next(operator for name, operator in _ROUNDING.items() if node.applies(name)), x)


@writer("not_equal")
def not_equal(builder: Builder, node: Apply, a: str, b: str) -> str:
    """Write whether elements differ."""
    return builder.add("Not", builder.add("Equal", a, b))


@writer("isinf")
def is_inf(builder: Builder, node: Apply, x: str) -> str:
    """Write whether elements are infinite, of the signs asked for."""
    signs = {f"detect_{name}": int(node.attributes.get(name, True)) for name in ("positive", "negative")}
    return builder.add("IsInf", x, **signs)


@writer("isfinite")
def is_finite(builder: Builder, node: Apply, x: str) -> str:
    """Write whether elements are neither NaN nor infinite."""
    return builder.add("Not", builder.add("Or", builder.add("IsNaN", x), builder.add("IsInf", x)))


@writer("square")
def square(builder: Builder, node: Apply, x: str) -> str:
    """Write `x x`."""
    return builder.add("Mul", x, x)


@writer("trunc")
def truncate(builder: Builder, node: Apply, x: str) -> str:
    """Write rounding towards zero: the sign times the floor of the magnitude."""
    if spec_of_node(node).dtype.kind != "f":
        return x
    return builder.add("Mul", builder.add("Sign", x), builder.add("Floor", builder.add("Abs", x)))


@writer("expm1", "log1p")
def near_one(builder: Builder, node: Apply, x: str) -> str:
    """Write `e**x - 1` and `log(1 + x)`, which ONNX has not: small `x` lose digits."""
    one = builder.number(1, spec_of_node(node).dtype)
    if node.applies("expm1"):
        return builder.add("Sub", builder.add("Exp", x), one)
    return builder.add("Log", builder.add("Add", x, one))


_BASES = {"log2": 1 / math.log(2), "log10": 1 / math.log(10)}


@writer(*_BASES)
def logarithm(builder: Builder, node: Apply, x: str) -> str:
    """Write the natural logarithm times a constant."""
    factor = next(value for name, value in _BASES.items() if node.applies(name))
    return builder.add("Mul", builder.add("Log", x), builder.number(factor, spec_of_node(node).dtype))


@writer("exp2")
def power_of_two(builder: Builder, node: Apply, x: str) -> str:
    """Write `e**(x log 2)`."""
    return builder.add("Exp", builder.add("Mul", x, builder.number(math.log(2), spec_of_node(node).dtype)))


@writer("left_shift", "right_shift")
def shift(builder: Builder, node: Apply, a: str, b: str) -> str:
    """Write bits moved; of unsigned numbers only."""
    if spec_of_node(node).dtype.kind != "u":
        raise ExportError("ONNX moves the bits of unsigned integers only; cast before")
    return builder.add("BitShift", a, b, direction="LEFT" if node.applies("left_shift") else "RIGHT")


@writer("floor_divide")
def floor_divide(builder: Builder, node: Apply, a: str, b: str) -> str:
    """Write the floor of the quotient; integers less their remainder first, for ONNX divides them towards zero."""
    if spec_of_node(node).dtype.kind == "f":
        return builder.add("Floor", builder.add("Div", a, b))
    return builder.add("Div", builder.add("Sub", a, builder.add("Mod", a, b)), b)


@writer("remainder")
def remainder(builder: Builder, node: Apply, a: str, b: str) -> str:
    """Write what is left, with the sign of the divisor."""
    if spec_of_node(node).dtype.kind != "f":
        return builder.add("Mod", a, b)
    floor = builder.add("Floor", builder.add("Div", a, b))
    return builder.add("Sub", a, builder.add("Mul", floor, b))


@writer("fmod")
def fmod(builder: Builder, node: Apply, a: str, b: str) -> str:
    """Write what is left, with the sign of the dividend."""
    return builder.add("Mod", a, b, fmod=1)


@writer("clip")
def clip(builder: Builder, node: Apply, x: str) -> str:
    """Write the elements kept within the bounds that there are."""
    dtype = spec_of_node(node).dtype
    bounds = [node.attributes[name] for name in ("low", "high")]
    return builder.add("Clip", x, *("" if bound is None else builder.number(bound, dtype) for bound in bounds))


@writer("cast")
def cast(builder: Builder, node: Apply, x: str) -> str:
    """Write another element type."""
    return builder.cast(x, node.attributes["dtype"])


@writer("full_like")
def full_like(builder: Builder, node: Apply, x: str) -> str:
    """Write one value in a shape that is known."""
    spec = spec_of_node(node)
    value = builder.number(node.attributes["value"], spec.dtype)
    return builder.add("Expand", value, builder.shape(spec.shape))


@writer("silu")
def silu(builder: Builder, node: Apply, x: str) -> str:
    """Write `x sigmoid(x)`."""
    return builder.add("Mul", x, builder.add("Sigmoid", x))


@writer("softplus")
def softplus(builder: Builder, node: Apply, x: str) -> str:
    """`log(1 + e**x)`, sharper by `beta`."""
    beta = node.attributes.get("beta", 1.0)
    if beta == 1.0:
        return builder.add("Softplus", x)
    factor = builder.number(beta, spec_of_node(node).dtype)
    return builder.add("Div", builder.add("Softplus", builder.add("Mul", x, factor)), factor)


@writer("gelu", "gelu_exact")
def gelu(builder: Builder, node: Apply, x: str) -> str:
    """Write `x Phi(x)`; before opset 20 composed of other operators."""
    exact = node.applies("gelu_exact")
    if builder.opset >= 20:
        return builder.add("Gelu", x, approximate="none" if exact else "tanh")
    dtype = spec_of_node(node).dtype
    half, one = builder.number(0.5, dtype), builder.number(1, dtype)
    if exact:
        inner = builder.add("Erf", builder.add("Mul", x, builder.number(math.sqrt(0.5), dtype)))
    else:
        cube = builder.add("Mul", builder.add("Mul", x, builder.add("Mul", x, x)), builder.number(0.044715, dtype))
        root = builder.number(math.sqrt(2 / math.pi), dtype)
        inner = builder.add("Tanh", builder.add("Mul", builder.add("Add", x, cube), root))
    return builder.add("Mul", builder.add("Mul", x, half), builder.add("Add", inner, one))
