"""Scalar formulas: what one element of a primitive's result is, as Python source that numba compiles inside a loop.

Each formula is told how to write a number of the result's type, `number(1.0)`, and gets the names of its operands.
Only primitives whose loop compiles to vector instructions stand here; NumPy's own loops are better for the others.
"""

from collections.abc import Callable
from math import pi, sqrt

from ...dtype import Dtype
from ...ir import Apply, ConstantNode, Node
from ...primitive import Primitive
from ...specs import Shape, Spec

__all__ = ["FORMULAS", "Number", "is_element_wise"]

#: Writes a number of the result's type.
Number = Callable[[float], str]

#: By primitive: `formula(number, *operands, **attributes) -> source of an expression`.
FORMULAS: dict[str, Callable[..., str]] = {}

_FLOATS = ("float32", "float64")
_ROOT, _CUBIC = sqrt(2.0 / pi), 0.044715


def _add_infix(names: dict[str, str]) -> None:
    for name, sign in names.items():
        FORMULAS[name] = lambda number, a, b, sign=sign: f"{a} {sign} {b}"


_add_infix({"add": "+", "subtract": "-", "multiply": "*", "divide": "/"})
_add_infix({"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="})


def formula(function: Callable[..., str]) -> Callable[..., str]:
    """Return the function itself, now the formula of the primitive of its name."""
    FORMULAS[function.__name__] = function
    return function


@formula
def maximum(number: Number, a: str, b: str) -> str:
    """Return the larger; NaN wins."""
    return f"{a} if ({a} >= {b}) | ({a} != {a}) else {b}"


@formula
def minimum(number: Number, a: str, b: str) -> str:
    """Return the smaller; NaN wins."""
    return f"{a} if ({a} <= {b}) | ({a} != {a}) else {b}"


@formula
def negative(number: Number, x: str) -> str:
    """Return `-x`."""
    return f"-{x}"


@formula
def square(number: Number, x: str) -> str:
    """Return `x * x`."""
    return f"{x} * {x}"


@formula
def abs(number: Number, x: str) -> str:
    """Return `|x|`."""
    return f"abs({x})"


@formula
def sqrt_(number: Number, x: str) -> str:
    """Return the square root of `x`."""
    return f"np.sqrt({x})"


@formula
def exp(number: Number, x: str) -> str:
    """Return `e**x`, by the engine's own polynomial in float32."""
    return f"exp({x})"


@formula
def identity(number: Number, x: str) -> str:
    """Return `x`."""
    return x


@formula
def broadcast_to(number: Number, x: str, *, shape: Shape) -> str:
    """Return `x`; the loop repeats it."""
    return x


@formula
def cast(number: Number, x: str, *, dtype: Dtype) -> str:
    """Return `x` in another floating type."""
    return f"np.{dtype.name}({x})"


@formula
def where(number: Number, condition: str, a: str, b: str) -> str:
    """Return `a` where the condition holds, else `b`."""
    return f"{a} if {condition} else {b}"


@formula
def clip(number: Number, x: str, *, low: float | None, high: float | None) -> str:
    """Return `x` within its bounds; NaN stays."""
    source = x
    if low is not None:
        source = f"{number(low)} if {x} < {number(low)} else {source}"
    if high is not None:
        source = f"{number(high)} if {x} > {number(high)} else ({source})"
    return source


@formula
def relu(number: Number, x: str) -> str:
    """Return `max(x, 0)`; NaN stays."""
    return f"{number(0.0)} if {x} <= {number(0.0)} else {x}"


@formula
def relu_gradient(number: Number, g: str, y: str) -> str:
    """Return `g` where the output is positive."""
    return f"{number(0.0)} if {y} <= {number(0.0)} else {g}"


@formula
def sigmoid(number: Number, x: str) -> str:
    """Return `1 / (1 + e**-x)`."""
    one = number(1.0)
    return f"{one} / ({one} + exp(-{x}))"


@formula
def silu(number: Number, x: str) -> str:
    """Return `x sigmoid(x)`."""
    return f"{x} / ({number(1.0)} + exp(-{x}))"


@formula
def silu_gradient(number: Number, g: str, x: str) -> str:
    """Return `g s (1 + x (1 - s))` with `s = sigmoid(x)`."""
    return f"silu_slope({g}, {x}, {number(1.0)})"


@formula
def gelu(number: Number, x: str) -> str:
    """Return the tanh approximation, as in the kernel of the same name."""
    one, scale, cubic = number(1.0), number(-2.0 * _ROOT), number(_CUBIC)
    return f"{x} / ({one} + exp({scale} * {x} * ({one} + {cubic} * {x} * {x})))"


@formula
def gelu_gradient(number: Number, g: str, x: str) -> str:
    """Return the slope of the tanh approximation, as in the kernel of the same name."""
    numbers = (1.0, 2.0 * _ROOT, _CUBIC, 3.0 * _CUBIC)
    return f"gelu_slope({g}, {x}, {', '.join(map(number, numbers))})"


FORMULAS["sqrt"] = FORMULAS.pop("sqrt_")


def is_element_wise(node: Node) -> bool:
    """Return whether a node can be computed element by element inside a generated loop."""
    if not isinstance(node, Apply) or not isinstance(node.type, Spec) or not isinstance(node.inputs[0], ConstantNode):
        return False
    primitive = node.inputs[0].value
    if not isinstance(primitive, Primitive) or primitive.name not in FORMULAS:
        return False
    if not all(isinstance(length, int) for length in node.type.shape):
        return False
    return _types_fit(node)


def _types_fit(node: Apply) -> bool:
    """Return whether the arithmetic is in one floating type; conditions may be bools."""
    specs = [x.type for x in node.arguments]
    if not all(isinstance(spec, Spec) for spec in specs):
        return False
    kinds = {spec.dtype.name for spec in specs if isinstance(spec, Spec) and not spec.weak}
    assert isinstance(node.type, Spec)
    if node.applies("where"):
        kinds.discard("bool")
    if node.applies("cast"):
        return node.type.dtype.name in _FLOATS and kinds <= {*_FLOATS, "bool"}
    is_comparison = node.type.dtype.name == "bool"
    return len(kinds) == 1 and kinds <= set(_FLOATS) and (is_comparison or node.type.dtype.name in kinds)
