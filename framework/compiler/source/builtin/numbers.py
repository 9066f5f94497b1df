"""Python's functions of numbers where they meet traced values: conversions, extremes, sums, rounding, `math`."""

import builtins
import math
from collections.abc import Callable

from .... import ops
from ....tensor import Tensor
from ...traced import TracedTensor
from ..interpreter import Interpreter, special
from ..number import compute
from ..values import NUMBER_DTYPES, TracedNumber, as_number, as_strong, as_weak, kind_of, number_tensor, traced
from .looping import loop_items
from .values import Arguments, Options, Value, single_number


def _converted(value: Value, kind: type) -> Value:
    number = single_number(value)
    if not isinstance(number, TracedNumber):
        return kind(number)
    if kind is int and number.kind is float:
        number = as_weak(ops.trunc(as_strong(number)))
    return as_weak(number_tensor(number, NUMBER_DTYPES[kind]))


@special(int, float)
def _to_number(interpreter: Interpreter, arguments: Arguments, options: Options, *, kind: type = float) -> Value:
    """`int(x)` or `float(x)`."""
    del interpreter
    return _converted(arguments[0], kind) if arguments and traced(arguments[0]) else kind(*arguments, **options)


special(int)(lambda interpreter, arguments, options: _to_number(interpreter, arguments, options, kind=int))


@special(bool)
def _to_bool(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`bool(x)`."""
    del options
    return interpreter.truth(arguments[0]) if arguments else False


@special(Tensor.item, TracedTensor.item)
def _item(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`x.item()`: a number that is known when the graph runs."""
    del interpreter
    (x,) = arguments
    return as_number(x) if isinstance(x, TracedTensor) and x.size == 1 else Tensor.item(x, **options)


@special(abs)
def _absolute(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`abs(x)`."""
    del interpreter, options
    (x,) = arguments
    if isinstance(x, TracedNumber):
        kind = int if x.kind is bool else x.kind
        return as_number(ops.abs(number_tensor(x, NUMBER_DTYPES[kind])))
    return abs(x)


@special(min, max)
def _extreme(interpreter: Interpreter, arguments: Arguments, options: Options, *, sign: str = "<") -> Value:
    """`min(...)` and `max(...)` of values among which some are traced: each is compared with the best so far."""
    function = builtins.min if sign == "<" else builtins.max
    items = list(interpreter.outside.content(arguments[0])) if len(arguments) == 1 else list(arguments)
    if options or not any(map(traced, items)):
        return function(*arguments, **options)
    best = items[0]
    for x in items[1:]:
        best = _chosen(interpreter.truth(interpreter.operate(sign, x, best)), x, best)
    return best


def _chosen(condition: Value, a: Value, b: Value) -> Value:
    if isinstance(condition, bool):
        return a if condition else b
    if kind_of(a) is not None and kind_of(b) is not None:
        dtype = NUMBER_DTYPES[float if float in (kind_of(a), kind_of(b)) else int]
        return as_number(ops.where(condition, number_tensor(a, dtype), number_tensor(b, dtype)))
    dtype = next(x.dtype for x in (a, b) if kind_of(x) is None)
    return ops.where(condition, *(x if kind_of(x) is None else number_tensor(x, dtype) for x in (a, b)))


special(max)(lambda interpreter, arguments, options: _extreme(interpreter, arguments, options, sign=">"))


@special(sum)
def _total(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`sum(items, start)`."""
    result = arguments[1] if len(arguments) > 1 else options.get("start", 0)
    items = loop_items(arguments[0])
    for x in interpreter.iterate(interpreter.capture.frames[-1], items):
        result = interpreter.operate("+", result, x)
    return result


@special(any, all)
def _some(interpreter: Interpreter, arguments: Arguments, options: Options, *, conjunction: bool = False) -> Value:
    """`any(items)` and `all(items)`."""
    del options
    result: Value = conjunction
    for x in interpreter.iterate(interpreter.capture.frames[-1], loop_items(arguments[0])):
        found = interpreter.truth(x)
        if found is (not conjunction):
            return found
        result = found if isinstance(result, bool) else compute("&" if conjunction else "|", result, found)
    return result


special(all)(lambda interpreter, arguments, options: _some(interpreter, arguments, options, conjunction=True))


@special(round)
def _rounded(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`round(x)` of a traced number, halves to even; of other things Python's."""
    del interpreter
    x = arguments[0]
    if not isinstance(x, TracedNumber):
        return round(*arguments, **options)
    digits = arguments[1] if len(arguments) > 1 else options.get("ndigits")
    if x.kind is not float:
        return x
    value = ops.round(as_strong(x), digits or 0)
    return as_weak(value) if digits is not None else as_weak(number_tensor(as_weak(value), NUMBER_DTYPES[int]))


@special(divmod)
def _quotient(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`divmod(a, b)`."""
    del options
    return interpreter.operate("//", *arguments), interpreter.operate("%", *arguments)


@special(pow)
def _powered(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`pow(a, b)`."""
    if any(map(traced, arguments)) and len(arguments) == 2:
        return interpreter.operate("**", *arguments)
    return pow(*arguments, **options)


def _math(function: Callable[..., Value], operation: Callable[..., Tensor], kind: type) -> None:
    """Nothing; a function of `math` on a traced number is the operation in float64."""

    def handler(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
        del interpreter
        numbers = [single_number(argument) for argument in arguments]
        if not any(isinstance(x, TracedNumber) for x in numbers):
            return function(*numbers, **options)
        result = operation(*(number_tensor(x, NUMBER_DTYPES[float]) for x in numbers))
        return as_weak(ops.cast(result, NUMBER_DTYPES[kind]))

    special(function)(handler)


for _function, _operation in (
    (math.sqrt, ops.sqrt),
    (math.exp, ops.exp),
    (math.log1p, ops.log1p),
    (math.sin, ops.sin),
    (math.cos, ops.cos),
    (math.tanh, ops.tanh),
    (math.fabs, ops.abs),
    (math.pow, ops.power),
    (math.log, ops.log),
):
    _math(_function, _operation, float)


for _rounding, _operation in ((math.floor, ops.floor), (math.ceil, ops.ceil), (math.trunc, ops.trunc)):
    _math(_rounding, _operation, int)


_math(math.isnan, ops.isnan, bool)
_math(math.isinf, ops.isinf, bool)
_math(math.isfinite, ops.isfinite, bool)
