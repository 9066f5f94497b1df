"""Instructions that compute: operators, comparisons, membership."""

import operator
from collections.abc import Callable
from typing import Any

from ..frame import Frame, Instruction
from .table import on

_BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip


_COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


_OPERATORS = tuple(_BINARY[symbol] for symbol in ["+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"])
_IN_PLACE: tuple[Callable[[Any, Any], Any], ...] = (
    operator.iadd, operator.iand, operator.ifloordiv, operator.ilshift, operator.imatmul, operator.imul, operator.imod,
    operator.ior, operator.ipow, operator.irshift, operator.isub, operator.itruediv, operator.ixor,
)  # fmt: skip


@on("BINARY_OP")
def _binary(run: Any, frame: Frame, now: Instruction) -> None:
    a, b = frame.pop_many(2)
    is_in_place, symbol = now.argument >= len(_OPERATORS), now.argument % len(_OPERATORS)
    if is_in_place and run.is_mutable(a):
        run.change(a)
        change: Callable[[Any, Any], Any] = _IN_PLACE[symbol]
        frame.stack.append(change(a, b))
    else:
        frame.stack.append(run.compute(_OPERATORS[symbol], a, b))


@on("COMPARE_OP")
def _compare(run: Any, frame: Frame, now: Instruction) -> None:
    a, b = frame.pop_many(2)
    symbol, must_be_bool = now.value, False
    if symbol.startswith("bool("):
        symbol, must_be_bool = symbol[5:-1], True
    result = run.compute(_COMPARE[symbol], a, b)
    frame.stack.append(bool(result) if must_be_bool else result)


@on("IS_OP")
def _is(run: Any, frame: Frame, now: Instruction) -> None:
    a, b = (run.known(x) for x in frame.pop_many(2))
    frame.stack.append((a is b) != bool(now.argument))


@on("CONTAINS_OP")
def _contains(run: Any, frame: Frame, now: Instruction) -> None:
    a, b = frame.pop_many(2)
    frame.stack.append((run.compute(operator.contains, run.whole(b), a)) != bool(now.argument))


@on("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "UNARY_NOT", "TO_BOOL")
def _unary(run: Any, frame: Frame, now: Instruction) -> None:
    function = {
        "UNARY_NEGATIVE": operator.neg, "UNARY_POSITIVE": operator.pos, "UNARY_INVERT": operator.invert,
        "UNARY_NOT": operator.not_, "TO_BOOL": operator.truth,
    }[now.name]  # fmt: skip
    frame.stack.append(run.compute(function, frame.stack.pop()))
