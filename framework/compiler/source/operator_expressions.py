"""Signs: arithmetic, comparisons and their chains, `and`, `or`, `not`."""

import ast
from collections.abc import Callable
from typing import Any, cast

from ... import ops
from ...tensor import Tensor
from ..traced import TracedTensor
from .frames import Frame, expression
from .paths import Return
from .staging import converge
from .traced_numbers import TracedNumber, Value, as_number, compute, kind_of, unary

SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@expression(ast.BinOp)
def _binary(frame: Frame, node: ast.BinOp) -> Value:
    """Return `a sign b`."""
    a = frame.value(node.left)
    return frame.interpreter.operate(SIGNS[type(node.op)], a, frame.value(node.right))


@expression(ast.UnaryOp)
def _unary_sign(frame: Frame, node: ast.UnaryOp) -> Value:
    """Return `-x`, `+x`, `~x`, `not x`."""
    if isinstance(node.op, ast.Not):
        return negated(frame.interpreter.condition(frame, node.operand))
    x = frame.value(node.operand)
    sign = {ast.UAdd: "+", ast.USub: "-", ast.Invert: "~"}[type(node.op)]
    if isinstance(x, TracedNumber):
        return unary(sign, x)
    if sign == "-":
        return -x
    return +x if sign == "+" else ~x


def negated(condition: bool | Tensor) -> bool | TracedNumber:
    """Return `not condition`, for a condition known or traced."""
    return not condition if isinstance(condition, bool) else as_number(ops.logical_not(condition))


@expression(ast.BoolOp)
def _boolean(frame: Frame, node: ast.BoolOp) -> Value:
    """Return `a and b`, `a or b`: the second is computed only where it counts."""
    return _chain(frame, node.values, isinstance(node.op, ast.And))


def _chain(frame: Frame, nodes: list[ast.expr], conjunction: bool) -> Value:
    for number, node in enumerate(nodes[:-1]):
        value = frame.value(node)
        condition = frame.interpreter.truth(value)
        if not isinstance(condition, bool):
            return _split(frame, value, condition, nodes[number + 1 :], conjunction)
        if condition is not conjunction:
            return value
    return frame.value(nodes[-1])


def _split(frame: Frame, value: Value, condition: TracedNumber, rest: list[ast.expr], conjunction: bool) -> Value:
    if kind_of(value) is bool and all(map(is_simple, rest)):
        other = _chain(frame, rest, conjunction)
        if kind_of(other) is bool:
            return compute("&" if conjunction else "|", value, other)
        rest_value = other
        return _choose(frame, condition, value, lambda: rest_value, conjunction)
    return _choose(frame, condition, value, lambda: _chain(frame, rest, conjunction), conjunction)


def _choose(
    frame: Frame, condition: TracedNumber, value: Value, other: Callable[[], Value], conjunction: bool
) -> Value:
    capture = frame.interpreter.capture
    paths = [lambda: Return(other()), lambda: Return(value)]
    split = capture.branch(condition, *(paths if conjunction else reversed(paths)))
    return frame.interpreter.checked(converge(capture, split, result=True), "the value of 'and' / 'or'")


def is_simple(node: ast.expr) -> bool:
    """Return whether an expression can be computed in any case: it calls nothing, so it cannot fail, print or recur."""
    allowed = (ast.Name, ast.Constant, ast.Compare, ast.UnaryOp, ast.Attribute, ast.BoolOp)
    signs = (ast.cmpop, ast.unaryop, ast.boolop, ast.expr_context)
    return all(isinstance(part, allowed + signs) for part in ast.walk(node))


@expression(ast.Compare)
def _comparison(frame: Frame, node: ast.Compare) -> Value:
    """Return `a < b`, and chains of such."""
    left = frame.value(node.left)
    result: Value = True
    for number, (sign, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = frame.value(right_node)
        found = compare(frame, sign, left, right)
        if number:
            both, former = frame.interpreter.truth(found), frame.interpreter.truth(result)
            found = compute("&", former, both) if former is not True else found
        if number + 1 < len(node.ops) and frame.interpreter.truth(found) is False:
            return found
        result, left = found, right
    return result


def compare(frame: Frame, sign: ast.cmpop, a: Value, b: Value) -> Value:
    """Return one comparison."""
    if isinstance(sign, ast.Is | ast.IsNot):
        return is_same(a, b) is isinstance(sign, ast.Is)
    if isinstance(sign, ast.In | ast.NotIn):
        found = contains(frame, b, a)
        return found if isinstance(sign, ast.In) else negated(cast("bool | TracedNumber", found))
    return frame.interpreter.operate(SIGNS[type(sign)], a, b)


def is_same(a: Value, b: Value) -> bool:
    """Return `a is b`; a traced value that stands for the same node is the same."""
    if isinstance(a, TracedTensor) and isinstance(b, TracedTensor):
        return type(a) is type(b) and a.node is b.node
    return a is b


def contains(frame: Frame, whole: Any, part: Any) -> Value:
    """Return `part in whole`."""
    if isinstance(whole, Tensor):
        return as_number(ops.any(ops.equal(whole, part)))
    if isinstance(part, TracedNumber) or (
        isinstance(whole, list | tuple) and any(isinstance(x, TracedTensor) for x in (part, *whole))
    ):
        result: Value = False
        for x in whole:
            equal = frame.interpreter.truth(frame.interpreter.operate("==", x, part))
            result = compute("|", result, equal)
        return result
    return part in frame.interpreter.outside.content(whole)
