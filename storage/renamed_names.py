"""Old names of the public API, which work for one more release with a warning."""

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def renamed(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module `__getattr__` that finds objects by their old names and warns.

    Args:
        package: Name of the package that exported them.
        names: New name by old name.
    """

    def lookup(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(
            f"{package}.{name} is now {package}.{names[name]}; the next release removes the old name",
            DeprecationWarning,
            stacklevel=2,
        )
        found: object = getattr(sys.modules[package], names[name])
        return found

    return lookup


def renamed_method(old: str, new: str) -> Callable[..., Any]:  # Any: the arguments and result of the method
    """Return a method that warns and calls the method by its new name."""

    def call(self: object, *args: object, **kwargs: object) -> object:
        message = f"{type(self).__name__}.{old} is now {new}; the next release removes the old name"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(self, new)(*args, **kwargs)

    return call


def renamed_arguments(**names: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator that accepts keyword arguments by their old names and warns.

    Args:
        names: New name by old name.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for old in names.keys() & kwargs.keys():
                message = f"the argument {old!r} is now {names[old]!r}; the next release removes the old name"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
