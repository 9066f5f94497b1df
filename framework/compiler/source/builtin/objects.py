"""Python's questions about objects where they meet traced values: their text, their type, their length."""

from ....tensor import Tensor
from ...traced import CaptureError, TracedTensor
from ..effects import say
from ..interpreter import Interpreter, special
from ..unknown import TracedIterable, TracedText
from ..values import TracedNumber, traced
from .values import Arguments, Options, Value, plain_or

__all__ = ["to_text"]


@special(print)
def _show(interpreter: Interpreter, arguments: Arguments, options: Options) -> None:
    """`print(...)`: what is traced is printed when the graph runs, and so is what stands in its branches."""
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
    """`str(x)`."""
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
    """`isinstance(x, kinds)`: a traced number is a number, a traced tensor a Tensor."""
    del interpreter, options
    value, kinds = arguments
    if isinstance(value, TracedNumber):
        options_of = kinds if isinstance(kinds, tuple) else (kinds,)
        return any(issubclass(value.kind, kind) for kind in options_of if isinstance(kind, type))
    return isinstance(value, kinds)


@special(type)
def _type_of_value(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`type(x)`."""
    del interpreter
    if len(arguments) == 1 and isinstance(arguments[0], TracedNumber):
        return arguments[0].kind
    if len(arguments) == 1 and isinstance(arguments[0], TracedTensor):
        return Tensor
    return type(*arguments, **options)


@special(len)
def _length(interpreter: Interpreter, arguments: Arguments, options: Options) -> Value:
    """`len(x)`: of a tensor that of its first axis."""
    del options
    (value,) = arguments
    if isinstance(value, TracedTensor):
        return value.shape[0] if value.shape else len(value)
    if isinstance(value, TracedIterable):
        return value.length
    method = getattr(type(value), "__len__", None)
    return len(interpreter.outside.content(value)) if method is None else interpreter.call(method, (value,), {})
