"""Formulas of survival analysis: who is at risk, and whose event was observed."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import Function, called
from ..expressions import assignments, calls_in, words_in
from ..names import words_of
from .pattern import Found, Pattern

_TIMES: Final = frozenset({"time", "times", "duration", "durations", "t", "survtime", "survival", "followup", "y"})
_RISKS: Final = frozenset(
    {"risk", "risks", "hazard", "hazards", "theta", "eta", "h", "logits", "pred", "preds", "score", "scores", "out"}
)
_OBSERVED: Final = frozenset({"event", "events", "observed", "uncensored", "died", "death"})
_TURNED: Final = frozenset({"flip", "flipud", "reversed", "neg", "negative"})


def _risk_set(tree: ast.AST) -> Iterator[Found]:
    """At risk is who has not left yet: sums run from the longest time on (Katzman et al. 2018, arXiv:1606.00931)."""
    for function in ast.walk(tree):
        if not isinstance(function, Function):
            continue
        sums = [one for one in calls_in(function, "cumsum", "logcumsumexp")]
        is_of_risks = [one for one in sums if words_in(one) & _RISKS or any(calls_in(one, "exp"))]
        if not is_of_risks or not words_in(function) & _OBSERVED | _words_of_arguments(function) & _OBSERVED:
            continue
        for call in calls_in(function, "sort", "argsort"):
            is_of_times = bool(_owner_words(call) & _TIMES)
            if is_of_times and not _is_descending(call) and not _is_turned(function):
                words = f"{ast.unparse(is_of_risks[0])} sums over those who left earlier: {ast.unparse(call)} ascends"
                yield "formula", words, call.lineno


def _observed(tree: ast.AST) -> Iterator[Found]:
    """An event that was observed is 1, and its name says so."""
    for name, value, line in assignments(tree):
        is_rest = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
        if not isinstance(value, ast.BinOp) or not is_rest or ast.unparse(value.left) not in ("1", "1.0"):
            continue
        same = words_of(name) & words_in(value.right) & _OBSERVED
        if same and not any("cens" in word and word != "uncensored" for word in words_in(value.right) | words_of(name)):
            yield "formula", f"{name} = {ast.unparse(value)} is the opposite of what its name says", line


def _words_of_arguments(function: Function) -> set[str]:
    return set[str]().union(*(words_of(one.arg) for one in function.args.args))


def _owner_words(call: ast.Call) -> set[str]:
    """Return the words of what is sorted."""
    is_method = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) not in ("torch", "np", "numpy")
    arguments = call.func.value if is_method and isinstance(call.func, ast.Attribute) else None
    given = arguments if arguments is not None else next(iter(call.args), None)
    return set() if isinstance(given, ast.UnaryOp) else words_in(given)  # by the negative it descends


def _is_descending(call: ast.Call) -> bool:
    named = [one for one in call.keywords if one.arg == "descending"]
    if named:
        return not (isinstance(named[0].value, ast.Constant) and named[0].value.value is False)
    return any(isinstance(one, ast.Constant) and one.value is True for one in call.args)


def _is_turned(function: Function) -> bool:
    text = ast.unparse(function)
    is_called = any(called(one) in _TURNED for one in ast.walk(function))
    return is_called or "::-1" in text or (".sum(" in text.replace("cumsum(", "") and "- torch.cumsum" in text)


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_risk_set, _observed)
