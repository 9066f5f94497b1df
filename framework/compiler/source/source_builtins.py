"""Python's own functions where they meet traced values: numbers, lengths, loops, text, questions about objects."""

import builtins
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from ... import ops
from ...tensor import Tensor
from ..traced import CaptureError, TracedTensor
from .frames import Interpreter, special
from .graph_effects import say
from .outside_reads import OutsideReads
from .traced_numbers import (
    NUMBER_DTYPES,
    TracedIterable,
    TracedNumber,
    TracedText,
    Value,
    as_number,
    as_strong,
    as_weak,
    compute,
    kind_of,
    number_tensor,
    traced,
)

__all__ = ["Arguments", "Options", "as_index", "collected", "loop_items", "plain_or", "single_number", "to_text"]

#: Of a call in the program. Python's own function takes or refuses them.
Arguments: TypeAlias = tuple[Any, ...]
Options: TypeAlias = dict[str, Any]


def as_index(place: Value) -> Value:
    """Return a place to start counting from, strong where it is traced."""
    return as_strong(place) if isinstance(place, TracedNumber) else place


def single_number(value: Any) -> Any:  # the value itself where it is nothing traced
    """Return the Python number in a traced tensor of one element; other values as they are."""
    if isinstance(value, TracedTensor) and not isinstance(value, TracedNumber):
        if value.size != 1:
            raise CaptureError(f"a number can be made of a tensor of one element, got shape {value.shape}")
        return as_number(value)
    return value


def plain_or(handler: Callable[..., Value], function: Callable[..., Value], *call: Any) -> Value:
    """Return the handler's result for traced values, else the function's own."""
    _, arguments, options = call
    return handler(*call) if any(map(traced, arguments)) else function(*arguments, **options)


def loop_items(value: Value) -> Any:  # iterated over by the callers
    """Return what a for statement goes through: a tensor by its first axis, other things as they are."""
    if isinstance(value, TracedNumber):
        raise TypeError(f"'{value.kind.__name__}' object is not iterable")
    if isinstance(value, TracedTensor):
        if not value.shape:
            raise TypeError("a tensor of no axes cannot be iterated over")
        return TracedIterable(value.shape[0], lambda place: value[as_index(place)], "a tensor")
    return value


@special(range)
def _traced_range(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `range(...)`, whose bounds may be known only when the graph runs."""
    del interpreter
    bounds = tuple(single_number(argument) for argument in arguments)
    if not any(isinstance(bound, TracedNumber) for bound in bounds):
        return range(*bounds, **options)
    if any(kind_of(bound) not in (int, bool) for bound in bounds):
        raise TypeError("range() expects integers")
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds[:2], *(bounds[2:] or (1,)))
    if type(step) is int and step == 0:
        raise ValueError("range() arg 3 must not be zero")
    count = compute("-", stop, start) if step == 1 else _rounds(start, stop, step)
    return TracedIterable(count, lambda place: compute("+", start, compute("*", place, step)), "a traced range")


def _rounds(start: Value, stop: Value, step: Value) -> Value:
    """Return how many steps a range has: the distance divided by the step, rounded up."""
    return compute("-", 0, compute("//", compute("-", start, stop), step))


@special(enumerate)
def _enumerated(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `enumerate(items, start)`."""
    items = loop_items(arguments[0])
    start = arguments[1] if len(arguments) > 1 else options.get("start", 0)
    if isinstance(items, TracedIterable):
        return TracedIterable(
            items.length, lambda place: (compute("+", place, start), items.item(place)), "enumerate of a tensor"
        )
    return enumerate(interpreter.outside.content(items), start)


@special(zip)
def _zipped(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `zip(a, b)`: over tensors only, a loop in the graph; over tensors and lists, round by round."""
    items = [loop_items(argument) for argument in arguments]
    known = [isinstance(part, TracedIterable) and isinstance(part.length, int) for part in items]
    if items and all(known):
        lengths = {part.length for part in items}
        if options.get("strict") and len(lengths) > 1:
            raise ValueError(f"zip() arguments have lengths {sorted(lengths)}")
        return TracedIterable(min(lengths), lambda place: tuple(part.item(place) for part in items), "zip of tensors")
    if any(isinstance(part, TracedIterable) and not is_known for part, is_known in zip(items, known, strict=True)):
        raise CaptureError("zip with a traced range cannot become part of a graph; loop over the range and index")
    parts = [
        [part.item(place) for place in range(part.length)]
        if isinstance(part, TracedIterable) and isinstance(part.length, int)
        else interpreter.outside.content(part)
        for part in items
    ]
    return zip(*parts, strict=bool(options.get("strict", False)))


@special(reversed)
def _backwards(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `reversed(items)`."""
    del options
    items = loop_items(arguments[0])
    if isinstance(items, TracedIterable):
        last = compute("-", items.length, 1)
        return TracedIterable(
            items.length, lambda place: items.item(compute("-", last, place)), f"reversed {items.name}"
        )
    return reversed(interpreter.outside.content(items))


@special(list, tuple)
def collected(interpreter: Interpreter, arguments: Arguments, options: Options, *, kind: type = list) -> Value:
    """Return `list(items)` or `tuple(items)`."""
    if arguments:
        items = loop_items(arguments[0])
        arguments = (interpreter.iterate(interpreter.frame, items),)
    found = kind(*arguments, **options)
    if kind is list:
        interpreter.capture.heap.created(found)
    return found


special(tuple)(lambda interpreter, arguments, options: collected(interpreter, arguments, options, kind=tuple))


def _converted(value: Value, kind: type) -> Value:
    number = single_number(value)
    if not isinstance(number, TracedNumber):
        return kind(number)
    if kind is int and number.kind is float:
        number = as_weak(ops.trunc(as_strong(number)))
    return as_weak(number_tensor(number, NUMBER_DTYPES[kind]))


@special(int, float)
def _to_number(interpreter: Interpreter, arguments: Arguments, options: Options, *, kind: type = float) -> Value:
    """Return `int(x)` or `float(x)`."""
    del interpreter
    return _converted(arguments[0], kind) if arguments and traced(arguments[0]) else kind(*arguments, **options)


special(int)(lambda interpreter, arguments, options: _to_number(interpreter, arguments, options, kind=int))


@special(bool)
def _to_bool(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `bool(x)`."""
    del options
    return interpreter.truth(arguments[0]) if arguments else False


@special(Tensor.item, TracedTensor.item)
def _item(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `x.item()`: a number that is known when the graph runs."""
    del interpreter
    (x,) = arguments
    return as_number(x) if isinstance(x, TracedTensor) and x.size == 1 else Tensor.item(x, **options)


@special(abs)
def _absolute(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `abs(x)`."""
    del interpreter, options
    (x,) = arguments
    if isinstance(x, TracedNumber):
        kind = int if x.kind is bool else x.kind
        return as_number(ops.abs(number_tensor(x, NUMBER_DTYPES[kind])))
    return abs(x)


@special(min, max)
def _extreme(interpreter: Interpreter, arguments: Arguments, options: Options, *, sign: str = "<") -> Value:
    """Return `min(...)` and `max(...)` of values among which some are traced: each is compared with the best so far."""
    function = builtins.min if sign == "<" else builtins.max
    items = list(interpreter.outside.content(arguments[0])) if len(arguments) == 1 else list(arguments)
    if options or not any(map(traced, items)):
        return function(*arguments, **options)
    best = items[0]
    for x in items[1:]:
        best = _chosen(interpreter.truth(interpreter.operate(sign, x, best)), x, best)
    return best


def _chosen(condition: bool | TracedNumber, a: Any, b: Any) -> Value:
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
    """Return `sum(items, start)`."""
    result = arguments[1] if len(arguments) > 1 else options.get("start", 0)
    items = loop_items(arguments[0])
    for x in interpreter.iterate(interpreter.frame, items):
        result = interpreter.operate("+", result, x)
    return result


@special(any, all)
def _some(interpreter: Interpreter, arguments: Arguments, options: Options, *, conjunction: bool = False) -> Value:
    """Return `any(items)` and `all(items)`."""
    del options
    result: Value = conjunction
    for x in interpreter.iterate(interpreter.frame, loop_items(arguments[0])):
        found = interpreter.truth(x)
        if found is (not conjunction):
            return found
        result = found if isinstance(result, bool) else compute("&" if conjunction else "|", result, found)
    return result


special(all)(lambda interpreter, arguments, options: _some(interpreter, arguments, options, conjunction=True))


@special(round)
def _rounded(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `round(x)` of a traced number, halves to even; of other things Python's."""
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
    """Return `divmod(a, b)`."""
    del options
    return interpreter.operate("//", *arguments), interpreter.operate("%", *arguments)


@special(pow)
def _powered(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `pow(a, b)`."""
    if any(map(traced, arguments)) and len(arguments) == 2:
        return interpreter.operate("**", *arguments)
    return pow(*arguments, **options)


def _math(function: Callable[..., Value], operation: Callable[..., Tensor], kind: type) -> None:
    """Register a function of `math`: on a traced number it is the operation in float64."""

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


@special(print)
def _show(interpreter: Interpreter, arguments: Arguments, options: Options) -> None:
    """Run `print(...)`: what is traced is printed when the graph runs, and so is what stands in its branches."""
    unknown = set(options) - {"sep", "end", "flush"}
    if unknown:
        raise CaptureError(
            f"print inside a compiled function takes sep, end and flush, got {', '.join(sorted(unknown))}"
        )
    sep, end = options.get("sep"), options.get("end")
    say(
        interpreter.capture,
        arguments,
        sep=" " if sep is None else sep,
        end="\n" if end is None else end,
        flush=bool(options.get("flush", False)),
    )


@special(str, repr, format)
def to_text(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `str(x)`."""
    del interpreter
    if arguments and isinstance(arguments[0], TracedText):
        return arguments[0]
    if arguments and traced(arguments[0]):
        return TracedText([(arguments[0], arguments[1] if len(arguments) > 1 else "")])
    return str(*arguments, **options)


special(repr)(lambda interpreter, arguments, options: plain_or(to_text, repr, interpreter, arguments, options))
special(format)(lambda interpreter, arguments, options: plain_or(to_text, format, interpreter, arguments, options))


@special(isinstance)
def _is_instance(interpreter: Interpreter, arguments: Arguments, options: Options) -> bool:
    """Return `isinstance(x, kinds)`: a traced number is a number, a traced tensor a Tensor."""
    del interpreter, options
    value, kinds = arguments
    if isinstance(value, TracedNumber):
        options_of = kinds if isinstance(kinds, tuple) else (kinds,)
        return any(issubclass(value.kind, kind) for kind in options_of if isinstance(kind, type))
    return isinstance(value, kinds)


@special(type)
def _type_of_value(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `type(x)`."""
    del interpreter
    if len(arguments) == 1 and isinstance(arguments[0], TracedNumber):
        return arguments[0].kind
    if len(arguments) == 1 and isinstance(arguments[0], TracedTensor):
        return Tensor
    return type(*arguments, **options)


@special(len)
def _length(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `len(x)`: of a tensor that of its first axis."""
    del options
    (value,) = arguments
    if isinstance(value, TracedTensor):
        return value.shape[0] if value.shape else len(value)
    if isinstance(value, TracedIterable):
        return value.length
    method = getattr(type(value), "__len__", None)
    return len(interpreter.outside.content(value)) if method is None else interpreter.call(method, (value,), {})


@special(super)
def parent(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `super()` of the method that runs."""
    del options
    if arguments:
        return super(*arguments)
    frame = interpreter.frame
    return super(frame.load("__class__"), frame.first)


@special(getattr)
def get(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """Return `getattr(owner, name, default)`."""
    del options
    outside: OutsideReads = interpreter.outside
    owner, name, *default = arguments
    if default and not hasattr(owner, name):
        return default[0]
    return outside.attribute(owner, name)


@special(setattr)
def put(interpreter: Interpreter, arguments: Arguments, options: Options) -> None:
    """Run `setattr(owner, name, value)`."""
    del options
    interpreter.outside.set_attribute(*arguments)
