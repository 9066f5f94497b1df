"""Functions that interpreted code defines or meets, and how arguments become their variables."""

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..traced import CaptureError
from .parse import Definition

if TYPE_CHECKING:
    from .frame import Scope
    from .interpreter import Interpreter

__all__ = ["Function", "bind"]

Value = Any  # a value of the user's program


class Function:
    """A function to be interpreted; library code may call it too, while the capture runs.

    Args:
        definition: What it does.
        defaults: Of its last positional parameters.
        options: Defaults of its keyword-only parameters.
        outside: Finds names that no interpreted scope has.
        scope: The scope around it, where that is interpreted.
        interpreter: What runs it.

    Attributes:
        identity: With the definition it tells this function from others: the variables around it.
    """

    def __init__(
        self,
        definition: Definition,
        defaults: tuple[Value, ...],
        options: dict[str, Value],
        outside: Callable[[str], Value],
        scope: "Scope | None",
        interpreter: "Interpreter",
    ) -> None:
        self.definition, self.defaults, self.options = definition, defaults, options
        self.outside, self.scope, self.interpreter = outside, scope, interpreter
        self.identity: object = scope
        self.__name__ = definition.name.rpartition(".")[2]
        self.__qualname__ = definition.name

    def __call__(self, *arguments: Value, **options: Value) -> Value:
        """What the function returns."""
        return self.interpreter.call(self, arguments, options)

    def __get__(self, instance: Value, owner: type | None = None) -> Value:
        return self if instance is None else _Bound(self, instance)

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"


class _Bound:
    """A method made of an interpreted function."""

    def __init__(self, function: Function, instance: Value) -> None:
        self.function, self.instance = function, instance

    def __call__(self, *arguments: Value, **options: Value) -> Value:
        return self.function(self.instance, *arguments, **options)


def bind(function: Function, arguments: tuple[Value, ...], options: dict[str, Value]) -> dict[str, Value]:
    """The variables of a call.

    Raises:
        TypeError: The arguments do not fit, in Python's words.
    """
    written: ast.arguments = function.definition.node.args
    name = function.__name__
    positional = [argument.arg for argument in (*written.posonlyargs, *written.args)]
    found: dict[str, Value] = dict(zip(positional, arguments, strict=False))
    rest = dict(options)
    for parameter in (*positional[len(written.posonlyargs) :], *(argument.arg for argument in written.kwonlyargs)):
        if parameter in rest:
            if parameter in found:
                raise TypeError(f"{name}() got multiple values for argument '{parameter}'")
            found[parameter] = rest.pop(parameter)
    with_defaults = positional[len(positional) - len(function.defaults) :] if function.defaults else []
    for parameter, default in (*zip(with_defaults, function.defaults, strict=True), *function.options.items()):
        found.setdefault(parameter, default)
    _collect(written, name, found, arguments[len(positional) :], rest)
    missing = [p for p in (*positional, *(argument.arg for argument in written.kwonlyargs)) if p not in found]
    if missing:
        raise TypeError(f"{name}() missing required argument{'s'[: len(missing) > 1]}: {', '.join(missing)}")
    return found


def _collect(
    written: ast.arguments,
    name: str,
    found: dict[str, Value],
    extra: tuple[Value, ...],
    rest: dict[str, Value],
) -> None:
    """Nothing; what is left over goes into `*args` and `**kwargs`."""
    if written.vararg is not None:
        found[written.vararg.arg] = extra
    elif extra:
        count = len(written.posonlyargs) + len(written.args)
        raise TypeError(f"{name}() takes {count} positional arguments but {count + len(extra)} were given")
    if written.kwarg is not None:
        found[written.kwarg.arg] = rest
    elif rest:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(rest))}'")


def refuse_generator(definition: Definition) -> None:
    """Nothing; a function that yields is refused."""
    if definition.is_generator:
        raise CaptureError(
            f"generator '{definition.name}' cannot become part of a graph "
            f"({definition.file}:{definition.node.lineno}); return a list, or loop inside the compiled function"
        )
