"""The table of operators: (domain, name, version since which it holds) to a function of a call and its inputs."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

from ..errors import NameTaken

__all__ = ["OPERATORS", "find", "nearest", "operator"]

#: `implementation(call, *inputs)` gives the output, or a tuple of outputs; a missing input is None.
Implementation: TypeAlias = Callable[..., Any]

#: By domain and name, the implementations in order of the version since which they hold.
OPERATORS: dict[tuple[str, str], list[tuple[int, Implementation]]] = {}

_Function = TypeVar("_Function", bound=Implementation)


def operator(name: str, *, since: int = 1, domain: str = "") -> Callable[[_Function], _Function]:
    """A decorator that makes a function the implementation of an operator from opset version `since` on."""

    def register(function: _Function) -> _Function:
        versions = OPERATORS.setdefault((domain, name), [])
        if any(version == since for version, _ in versions):
            raise NameTaken(f"operator {name} of domain '{domain}' has an implementation since version {since} already")
        versions.append((since, function))
        versions.sort(key=lambda entry: entry[0])
        return function

    return register


def find(domain: str, name: str, version: int) -> Implementation | None:
    """The implementation that holds in that version of the opset."""
    found = None
    for since, function in OPERATORS.get((domain, name), ()):
        if since <= version:
            found = function
    return found


def nearest(domain: str, name: str) -> str:
    """`; did you mean ...?`, or nothing, for an operator name that is not in the table."""
    close = get_close_matches(name, [known for where, known in OPERATORS if where == domain], n=1)
    return f"; did you mean {close[0]}?" if close else ""
