"""Mixed precision: scaled losses, casts that are kept, averages in few bits."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called, functions_in, names_given
from ..expressions import assignments, calls_in, name_of, names_in, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_AVERAGES: Final = frozenset({"ema", "averaged", "shadow", "polyak"})
_FEW_BITS: Final = frozenset({"bfloat16", "half", "float16", "bf16", "fp16"})
_KEPT: Final = (
    "and keeps its casts of the weights until it is left: steps inside of it change weights that no later forward reads"
)
_UPDATES: Final = ("lerp_", "lerp", "_foreach_lerp_", "mul_", "_foreach_mul_", "copy_", "update_parameters")


def _kept_casts(tree: ast.AST) -> Iterator[Found]:
    """Autocast keeps its casts of weights until it is left: a step inside of it changes weights that nobody reads.

    PyTorch, torch/amp/autocast_mode.py: the cache of casts is cleared on leaving the outermost context.
    """
    for function in functions_in(tree):
        for made in function.decorator_list:
            if _is_autocast(made) and _trains(function.body):
                yield "formula", f"autocast is around the whole of {function.name}, {_KEPT}", made.lineno
    for node in walked(tree):
        is_around = isinstance(node, ast.With) and any(_is_autocast(item.context_expr) for item in node.items)
        if is_around and isinstance(node, ast.With) and _trains(node.body):
            yield "formula", f"autocast is around a loop with steps of the optimizer, {_KEPT}", node.lineno


def _is_autocast(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or called(node) != "autocast":
        return False
    given = {one.arg: one.value for one in node.keywords}
    is_without = any(
        isinstance(value := given.get(name), ast.Constant) and value.value is False
        for name in ("cache_enabled", "enabled")
    )
    return not is_without and None not in given


def _trains(body: list[ast.stmt]) -> bool:
    """Return whether a loop calls something with gradients, differentiates and steps, all in its own text."""
    for statement in body:
        for loop in walked(statement):
            if isinstance(loop, ast.For | ast.While):
                names = {called(one) for one in walked(loop) if isinstance(one, ast.Call)}
                if {"backward", "step"} <= names and "autocast" not in names:
                    return True
    return False


def _scaled_penalty(tree: ast.AST) -> Iterator[Found]:
    """The gradient of a scaled output is divided by the scale before a penalty is made of it.

    PyTorch, notes/amp_examples, "Gradient penalty".
    """
    for function in functions_in(tree):
        asked = [call for call in calls_in(function, "grad") if _differentiates_scaled(call)]
        is_divided = next(calls_in(function, "get_scale", "unscale_", "_get_scale_async"), None) is not None
        is_divided |= "inv" in words_in(function)
        if asked and not is_divided and next(calls_in(function, "norm", "pow", "square"), None) is not None:
            words = (
                "a penalty is made of gradients of scaler.scale(...), and nothing divides them by scaler.get_scale(): "
                "they are as many times too large"
            )
            yield "formula", words, asked[0].lineno


def _differentiates_scaled(call: ast.Call) -> bool:
    given = {one.arg: one.value for one in call.keywords}
    keeps = given.get("create_graph")
    first = given.get("outputs", call.args[0] if call.args else None)
    is_kept = isinstance(keeps, ast.Constant) and keeps.value is True
    return is_kept and first is not None and next(calls_in(first, "scale"), None) is not None


def _average_in_few_bits(tree: ast.AST) -> Iterator[Found]:
    """An average that moves by 1 % of a difference needs more than the eight bits of bfloat16."""
    if next(calls_in(tree, *_UPDATES), None) is None:
        return
    for name, value, line in assignments(tree):
        if _is_average(name, value) and (cast := _cast_of(value)):
            yield "formula", _few_bits(name, cast), line
    for function in functions_in(tree):
        if not any(_is_average(name, value) for name, value, _ in assignments(function)):
            continue
        for node in walked(function):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and (cast := _cast_of(node.value)):
                owner = _owner(node.value)
                if owner is not None and words_in(owner) & _AVERAGES:
                    yield "formula", _few_bits(ast.unparse(owner), cast), node.lineno


def _is_average(name: str, value: ast.expr) -> bool:
    """Return whether an average begins as a copy of what is trained, and is no copy of an average."""
    copied = next(calls_in(value, "deepcopy"), None)
    return copied is not None and bool(words_of(name) & _AVERAGES) and not words_in(copied) & _AVERAGES


def _few_bits(name: str, cast: str) -> str:
    return f"{name} is kept in {cast}, whose few bits round away the small steps of a running average: it stops moving"


def _cast_of(value: ast.expr) -> str:
    """Return the type of few bits that a chain of calls ends in, `copy.deepcopy(net).eval().bfloat16()`; else none."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in ("bfloat16", "half") and not value.args:
            return "bfloat16" if value.func.attr == "bfloat16" else "float16"
        given = [*value.args, *(one.value for one in value.keywords)]
        if value.func.attr == "to" and any(name_of(one).rpartition(".")[2] in _FEW_BITS for one in given):
            return next(name_of(one).rpartition(".")[2] for one in given if name_of(one))
        if value.func.attr == "float":
            return ""
        value = value.func.value
    return ""


def _unscaled_loss(tree: ast.AST) -> Iterator[Found]:
    """A scaler steps with gradients of a loss that it has scaled, since it divides them by the scale."""
    if next(calls_in(tree, "GradScaler"), None) is None or next(calls_in(tree, "backward"), None) is None:
        return
    of_scalers = [call for call in calls_in(tree, "step", "scale", "unscale_") if "scaler" in words_in(_owner(call))]
    steps = [call for call in of_scalers if called(call) == "step" and call.args]
    if steps and all(called(call) != "scale" for call in of_scalers):
        words = (
            f"{ast.unparse(steps[0])} divides the gradients by a scale that no loss was multiplied with: no scale(loss)"
        )
        yield "formula", words, steps[0].lineno


def _owner(call: ast.Call) -> ast.expr | None:
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _rebound_input(tree: ast.AST) -> Iterator[Found]:
    """A captured graph reads the memory that it was captured with: its inputs are written in place, not bound anew.

    PyTorch, notes/cuda, "CUDA Graphs".
    """
    replays = next(calls_in(tree, "replay"), None)
    for node in walked(tree) if replays is not None else ():
        if not isinstance(node, ast.With) or not any(_captures(item.context_expr) for item in node.items):
            continue
        inside = set().union(*map(names_in, node.body)) - {name for name, _ in names_given(node.body)}
        for loop in walked(tree):
            if not isinstance(loop, ast.For | ast.While) or loop.lineno < node.lineno:
                continue
            if next(calls_in(loop, "replay"), None) is None:
                continue
            for name, _, line in assignments(loop):
                if name in inside and _is_read_only_inside(name, loop):
                    words = f"{name}, which the captured graph reads, is bound to another tensor before replay(); the "
                    yield "formula", f"{words}graph goes on with the old one: copy into it, {name}.copy_(...)", line


def _captures(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and called(node) == "graph" and "cuda" in ast.unparse(node.func)


def _is_read_only_inside(name: str, loop: ast.For | ast.While) -> bool:
    """Return whether the loop gives the name a value and does not read it."""
    return not any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load) for one in walked(loop)
    )


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _kept_casts,
    _scaled_penalty,
    _average_in_few_bits,
    _rebound_input,
    _unscaled_loss,
)
