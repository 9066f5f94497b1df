"""What an expression computes, however it is written: a square, something along an axis."""

import ast

from .bindings import called
from .expressions import operand


def squared(node: ast.expr) -> ast.expr | None:
    """Return `x` of `x ** 2`, `x.pow(2)` and `torch.square(x)`; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.left if ast.unparse(node.right) in ("2", "2.0") else None
    if not isinstance(node, ast.Call) or called(node) not in ("pow", "square"):
        return None
    power = operand(node, 1) if called(node) == "pow" else None
    return operand(node) if power is None or ast.unparse(power) in ("2", "2.0") else None


def axis_of(call: ast.Call) -> str:
    """Return the axis that a call is given, as it is written; empty if it is none of 0, 1 and -1, or has no name."""
    named = [one.value for one in call.keywords if one.arg in ("dim", "axis")]
    given = named or [one for one in call.args if ast.unparse(one) in ("0", "1", "-1")]
    return ast.unparse(given[0]) if given else ""
