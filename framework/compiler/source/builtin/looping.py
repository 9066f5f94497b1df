"""What Python loops over where it meets traced values: `range`, `enumerate`, `zip`, `reversed`, lists and tuples."""

from ...traced import CaptureError, TracedTensor
from ..interpreter import Interpreter, special
from ..number import compute
from ..unknown import TracedIterable
from ..values import TracedNumber, kind_of
from .values import Arguments, Options, Value, as_index, single_number

__all__ = ["collected", "loop_items"]


def loop_items(value: Value) -> Value:
    """What a for statement goes through: a tensor by its first axis, other things as they are."""
    if isinstance(value, TracedNumber):
        raise TypeError(f"'{value.kind.__name__}' object is not iterable")
    if isinstance(value, TracedTensor):
        if not value.shape:
            raise TypeError("a tensor of no axes cannot be iterated over")
        return TracedIterable(value.shape[0], lambda place: value[as_index(place)], "a tensor")
    return value


@special(range)
def _traced_range(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`range(...)`, whose bounds may be known only when the graph runs."""
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
    """How many steps a range has: the distance divided by the step, rounded up."""
    return compute("-", 0, compute("//", compute("-", start, stop), step))


@special(enumerate)
def _enumerated(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`enumerate(items, start)`."""
    items = loop_items(arguments[0])
    start = arguments[1] if len(arguments) > 1 else options.get("start", 0)
    if isinstance(items, TracedIterable):
        return TracedIterable(
            items.length, lambda place: (compute("+", place, start), items.item(place)), "enumerate of a tensor"
        )
    return enumerate(interpreter.outside.content(items), start)


@special(zip)
def _zipped(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`zip(a, b)`: over tensors only, a loop in the graph; over tensors and lists, round by round."""
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
        if isinstance(part, TracedIterable)
        else interpreter.outside.content(part)
        for part in items
    ]
    return zip(*parts, strict=bool(options.get("strict", False)))


@special(reversed)
def _backwards(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`reversed(items)`."""
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
    """`list(items)` and `tuple(items)`."""
    if arguments:
        items = loop_items(arguments[0])
        arguments = (interpreter.iterate(interpreter.capture.frames[-1], items),)
    found = kind(*arguments, **options)
    if kind is list:
        interpreter.capture.heap.created(found)
    return found


special(tuple)(lambda interpreter, arguments, options: collected(interpreter, arguments, options, kind=tuple))
