"""Backward passes and the clearing of their gradients: what a pass computes is used before it is cleared."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called, functions_in
from ..expressions import assignments, blocks_in, names_in, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Calls that use no gradient.
_HARMLESS: Final = frozenset({"item", "print", "append", "update", "zero_grad", "backward", "detach", "float"})
#: Names of what steps beside an optimizer.
_BESIDE: Final = frozenset(
    {"sched", "scheduler", "schedule", "lr", "warmup", "scaler", "ema", "pbar", "bar", "progress", "profiler", "prof"}
)
_LIMITS: Final = frozenset({"clip", "bound", "max", "limit", "threshold"})
_NORMS: Final = frozenset({"norm", "norms"})
_AT_MOST: Final = frozenset({"min", "minimum", "clamp", "clamp_", "clip", "clamp_max", "where", "amin"})


def _cleared(tree: ast.AST) -> Iterator[Found]:
    """Gradients of several losses add up until the optimizer steps; clearing them between two passes drops the first.

    Told of statements that follow each other, where nothing else reads the gradients and no other optimizer steps.
    """
    for block in blocks_in(tree):
        if block is not getattr(tree, "body", None):
            yield from _dropped(block)


def _dropped(block: list[ast.stmt]) -> Iterator[Found]:
    first: ast.Call | None = None
    for at, statement in enumerate(block):
        call = _call_of(statement)
        if call is not None and called(call) == "backward":
            first = first or call
        elif call is not None and called(call) == "zero_grad" and first is not None:
            if _is_followed(block[at + 1 :], _owner(call)):
                words = f"{ast.unparse(call)} clears what {ast.unparse(first)} has computed, and no step has used it"
                yield "formula", words, call.lineno
            first = None
        elif not _is_harmless(statement):
            first = None


def _unclipped(tree: ast.AST) -> Iterator[Found]:
    """Gradients are clipped between the pass that computes them and the step (Pascanu et al. 2013, arXiv:1211.5063).

    Told of statements of one block that clears them, clips before its pass or behind its step, and nowhere else.
    """
    for block in blocks_in(tree):
        calls = list(_calls_of_a_step(block))
        order = ["clip" if called(call).startswith("clip_grad") else called(call) for call in calls]
        if sorted(order) != ["backward", "clip", "step", "zero_grad"]:
            continue
        clip = calls[order.index("clip")]
        at = order.index("clip")
        if order in (["zero_grad", "clip", "backward", "step"], ["clip", "zero_grad", "backward", "step"]):
            yield "formula", f"{called(clip)} clips gradients before backward() computes them", clip.lineno
        elif at > order.index("step") > order.index("backward") > order.index("zero_grad"):
            yield "formula", f"{called(clip)} clips gradients when the step has been made", clip.lineno


def _calls_of_a_step(block: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls that make a step, in their order; a branch or loop that holds one counts as one more."""
    for statement in block:
        is_plain = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr)
        for one in walked(statement):
            name = called(one)
            is_of_a_step = name in ("backward", "step", "zero_grad") or name.startswith("clip_grad")
            if isinstance(one, ast.Call) and is_of_a_step and not words_in(one.func) & _BESIDE:
                yield one
                if not is_plain:
                    yield one


def _is_followed(rest: list[ast.stmt], owner: str) -> bool:
    """Return whether another pass comes next, and no optimizer but this one steps behind it."""
    calls = [one for statement in rest for one in walked(statement) if isinstance(one, ast.Call)]
    first = next((one for one in calls if called(one) in ("backward", "step")), None)
    steppers = {_owner(one) for one in calls if called(one) == "step" and not words_in(one.func) & _BESIDE}
    return first is not None and called(first) == "backward" and steppers == {owner}


def _is_harmless(statement: ast.stmt) -> bool:
    """Return whether a statement reads no gradients and calls nothing that may."""
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
        return False
    calls = [one for one in walked(statement) if isinstance(one, ast.Call)]
    reads = any(isinstance(one, ast.Attribute) and one.attr == "grad" for one in walked(statement))
    return not reads and all(called(one) in _HARMLESS for one in calls)


def _call_of(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) else None


def _owner(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _clipped_without_limit(tree: ast.AST) -> Iterator[Found]:
    """Clipping by a norm multiplies by min(1, bound / norm) (Pascanu et al. 2013, arXiv:1211.5063, algorithm 1)."""
    for function in functions_in(tree):
        asked = {called(one) for one in walked(function) if isinstance(one, ast.Call)}
        has_branch = any(isinstance(one, ast.If | ast.IfExp | ast.Compare) for one in walked(function))
        if not words_of(function.name) & {"clip", "clipped", "clipping"} or asked & _AT_MOST or has_branch:
            continue
        for name, value, line in assignments(function):
            is_ratio = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div)
            if not is_ratio or not isinstance(value, ast.BinOp):
                continue
            is_limit = bool(words_in(value.left) & _LIMITS) and not names_in(value.left) & names_in(value.right)
            if is_limit and words_in(value.right) & _NORMS:
                words = f"{name} = {ast.unparse(value)} is more than 1 where the norm is small: it blows up, not clips"
                yield "formula", words, line


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _cleared,
    _unclipped,
    _clipped_without_limit,
)
