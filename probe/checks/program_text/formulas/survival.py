"""Formulas of survival analysis and of rankings: who is at risk or left to choose from, whose event was observed."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import Function, called, functions_in
from ..expressions import assignments, calls_in, terms, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_TIMES: Final = frozenset({"time", "times", "duration", "durations", "t", "survtime", "survival", "followup", "y"})
_RISKS: Final = frozenset(
    {"risk", "risks", "hazard", "hazards", "theta", "eta", "h", "logits", "pred", "preds", "score", "scores", "out"}
)
_OBSERVED: Final = frozenset({"event", "events", "observed", "uncensored", "died", "death"})
_TURNED: Final = frozenset({"flip", "flipud", "reversed", "neg", "negative"})


def _risk_set(tree: ast.AST) -> Iterator[Found]:
    """At risk is who has not left yet: sums run from the longest time on (Katzman et al. 2018, arXiv:1606.00931)."""
    for function in functions_in(tree):
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


def _ranked_before(tree: ast.AST) -> Iterator[Found]:
    """The next of a ranking is chosen among those that are left (Xia et al. 2008, "Listwise approach", equation 8)."""
    for function in walked(tree):
        words = words_of(function.name) if isinstance(function, Function | ast.ClassDef) else set[str]()
        if not words & {"listmle", "plackett", "plackettluce"} and not {"list", "mle"} <= words:
            continue
        sums = list(calls_in(function, "logcumsumexp", "cumsum"))
        descends = [one for one in calls_in(function, "sort", "argsort") if _is_descending(one)]
        if sums and descends and not _is_turned(function):
            said = f"{ast.unparse(sums[0])} sums over those that rank before, not over those left"
            yield "formula", said, sums[0].lineno


def _censored_hazard(tree: ast.AST) -> Iterator[Found]:
    """All subjects, also those that left early, have survived their time (Klein and Moeschberger 2003, chapter 3.5)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for observed, gap in ((node.left, node.right), (node.right, node.left)):
            is_name = isinstance(observed, ast.Name | ast.Attribute)
            signs = {_hazard_kind(words_in(term)): sign for term, sign in terms(gap)}
            if is_name and words_in(observed) & _OBSERVED and signs.get("now", 0) * signs.get("summed", 0) < 0:
                words = f"{ast.unparse(node)} leaves out the cumulative hazard of those who were censored"
                yield "formula", words, node.lineno


def _hazard_kind(words: set[str]) -> str:
    """Return whether a term is a hazard at one time or the sum until then, by its words; empty for others."""
    if not words & {"hazard", "haz", "cumhaz", "h"}:
        return ""
    return "summed" if words & {"cum", "cumulative", "cumhaz", "integrated"} else "now"


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


def _is_turned(function: ast.AST) -> bool:
    text = ast.unparse(function)
    is_called = any(called(one) in _TURNED for one in walked(function))
    return is_called or "::-1" in text or (".sum(" in text.replace("cumsum(", "") and "- torch.cumsum" in text)


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_risk_set, _observed, _censored_hazard, _ranked_before)
