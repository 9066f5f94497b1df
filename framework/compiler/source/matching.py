"""`match`: over what is known Python's own choice, over traced numbers a choice between graphs, as with if and elif.

    pattern(value) -> whether it fits, a bool or a traced one, and the names that it binds

What a pattern asks of a value's structure (its class, its length, its keys) is known while the function is captured;
only the comparison with a number may not be.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...tensor import Tensor
from .frames import Frame, statement
from .operator_expressions import is_same, negated
from .paths import NEXT, Flow
from .statements import mark_dead
from .traced_numbers import TracedNumber, Value, compute

_Names = dict[str, Value]

#: Classes whose only sub-pattern takes the whole value.
_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@statement(ast.Match)
def _match(frame: Frame, node: ast.Match) -> Flow:
    """Run `match value:`."""
    return _choose(frame, node, frame.value(node.subject), node.cases)


def _choose(frame: Frame, node: ast.Match, value: Value, cases: list[ast.match_case]) -> Flow:
    if not cases:
        return NEXT
    case, *rest = cases
    frame.line = case.pattern.lineno
    names: _Names = {}
    fits = _fits(frame, case.pattern, value, names)

    def otherwise() -> Flow:
        return _choose(frame, node, value, rest)

    def taken() -> Flow:
        for name, part in names.items():
            frame.store(name, part)
        if case.guard is None:
            return frame.block(case.body)
        return _if(
            frame, node, frame.interpreter.condition(frame, case.guard), lambda: frame.block(case.body), otherwise
        )

    return _if(frame, node, fits, taken, otherwise)


def _if(frame: Frame, node: ast.Match, condition: Value, true: Callable[[], Flow], false: Callable[[], Flow]) -> Flow:
    if isinstance(condition, bool):
        return true() if condition else false()
    assert isinstance(condition, TracedNumber)
    split = frame.interpreter.capture.branch(condition, true, false)
    mark_dead(frame, node, split)
    return split


def _fits(frame: Frame, pattern: ast.pattern, value: Value, names: _Names) -> Value:
    """Return whether the value fits; the names that the pattern binds are noted."""
    found: Value = _PATTERNS[type(pattern)](frame, pattern, value, names)
    return found


def _both(a: Value, b: Value) -> Value:
    if isinstance(a, bool):
        return b if a else False
    return (a if b else False) if isinstance(b, bool) else compute("&", a, b)


def _value(frame: Frame, pattern: ast.MatchValue, value: Value, names: _Names) -> Value:
    del names
    return frame.interpreter.truth(frame.interpreter.operate("==", value, frame.value(pattern.value)))


def _singleton(frame: Frame, pattern: ast.MatchSingleton, value: Value, names: _Names) -> Value:
    del frame, names
    if isinstance(value, TracedNumber) and value.kind is bool and pattern.value is not None:
        return value if pattern.value else negated(value)
    return is_same(value, pattern.value)


def _capture(frame: Frame, pattern: ast.MatchAs, value: Value, names: _Names) -> Value:
    fits = True if pattern.pattern is None else _fits(frame, pattern.pattern, value, names)
    if pattern.name is not None and fits is not False:
        names[pattern.name] = value
    return fits


def _any(frame: Frame, pattern: ast.MatchOr, value: Value, names: _Names) -> Value:
    result: Value = False
    for part in pattern.patterns:
        bound: _Names = {}
        fits = _fits(frame, part, value, bound)
        if fits is True and result is False:
            names.update(bound)
            return True
        if bound and fits is not False:
            raise frame.unsupported(
                "a pattern with '|' that binds names and depends on traced values",
                "write one case for each alternative",
            )
        result = fits if result is False else compute("|", result, fits) if fits is not False else result
    return result


def _sequence(frame: Frame, pattern: ast.MatchSequence, value: Value, names: _Names) -> Value:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | Tensor):
        return False
    parts = list(frame.interpreter.iterate(frame, value))
    places = [number for number, part in enumerate(pattern.patterns) if isinstance(part, ast.MatchStar)]
    count = len(pattern.patterns)
    if len(parts) < count - 1 if places else len(parts) != count:
        return False
    if places:
        first, after = places[0], count - places[0] - 1
        middle = parts[first : len(parts) - after]
        frame.interpreter.capture.heap.created(middle)
        parts = [*parts[:first], middle, *parts[len(parts) - after :]]
    return _all(frame, pattern.patterns, parts, names)


def _all(frame: Frame, patterns: list[ast.pattern], parts: list[Value], names: _Names) -> Value:
    result: Value = True
    for pattern, part in zip(patterns, parts, strict=True):
        result = _both(result, _fits(frame, pattern, part, names))
        if result is False:
            return False
    return result


def _star(frame: Frame, pattern: ast.MatchStar, value: Value, names: _Names) -> Value:
    del frame
    if pattern.name is not None:
        names[pattern.name] = value
    return True


def _mapping(frame: Frame, pattern: ast.MatchMapping, value: Value, names: _Names) -> Value:
    if not isinstance(value, Mapping):
        return False
    keys = [frame.value(key) for key in pattern.keys]
    if not all(key in value for key in keys):
        return False
    result = _all(frame, pattern.patterns, [frame.interpreter.outside.item(value, key) for key in keys], names)
    if pattern.rest is not None and result is not False:
        rest = {key: frame.interpreter.outside.item(value, key) for key in value if key not in keys}
        frame.interpreter.capture.heap.created(rest)
        names[pattern.rest] = rest
    return result


def _class(frame: Frame, pattern: ast.MatchClass, value: Value, names: _Names) -> Value:
    kind = frame.value(pattern.cls)
    if not frame.interpreter.call(isinstance, (value, kind), {}):
        return False
    if kind in _WHOLE and len(pattern.patterns) == 1:
        return _fits(frame, pattern.patterns[0], value, names)
    known = getattr(kind, "__match_args__", ())
    if len(pattern.patterns) > len(known):
        raise TypeError(
            f"{kind.__name__}() accepts {len(known)} positional sub-patterns ({len(pattern.patterns)} given)"
        )
    attributes = [*known[: len(pattern.patterns)], *pattern.kwd_attrs]
    if not all(hasattr(value, attribute) for attribute in attributes):
        return False
    parts = [frame.interpreter.outside.attribute(value, attribute) for attribute in attributes]
    return _all(frame, [*pattern.patterns, *pattern.kwd_patterns], parts, names)


_PATTERNS: dict[type[ast.pattern], Callable[[Frame, Any, Value, _Names], Value]] = {
    ast.MatchValue: _value,
    ast.MatchSingleton: _singleton,
    ast.MatchAs: _capture,
    ast.MatchOr: _any,
    ast.MatchSequence: _sequence,
    ast.MatchStar: _star,
    ast.MatchMapping: _mapping,
    ast.MatchClass: _class,
}
