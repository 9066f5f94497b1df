"""Rates over the steps, and settings of optimizers."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import calls_in, is_difference, operand, words_in
from ..trees import walked
from .pattern import Found, Pattern

_STEPS: Final = frozenset({"step", "steps", "it", "iter", "iteration", "epoch", "i", "t"})
_ENDS: Final = frozenset({"total", "max", "num", "n", "end", "final", "epochs"})
_WARMUP: Final = frozenset({"warmup", "warm", "warming"})


def _inverted_warmup(tree: ast.AST) -> Iterator[Found]:
    """A warm-up rises as step / warm-up steps (Goyal et al. 2017, arXiv:1706.02677, section 2.2)."""
    for call in calls_in(tree, "min"):
        sides = [one for one in call.args if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div)]
        ones = [one for one in call.args if ast.unparse(one) in ("1", "1.0")]
        for side in sides if ones else ():
            is_turned = "warmup" in words_in(side.left) or {"warm", "up"} <= words_in(side.left)
            below = words_in(side.right)
            if is_turned and below & _STEPS and not below & {"warmup", "warm"}:
                words = f"{ast.unparse(call)} is 1 while it should rise, and falls behind: the ratio is turned round"
                yield "formula", words, call.lineno


def _inverted_cosine(tree: ast.AST) -> Iterator[Found]:
    """A cosine decay runs through pi times step / steps (Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5)."""
    for call in calls_in(tree, "cos"):
        given = operand(call)
        if not isinstance(given, ast.BinOp) or not isinstance(given.op, ast.Div) or "pi" not in words_in(given.left):
            continue
        above, below = words_in(given.left) - {"pi", "math", "np", "torch"}, words_in(given.right)
        if above & _ENDS and above & (_STEPS | {"epochs"}) and below & _STEPS and not below & _ENDS:
            yield "formula", f"{ast.unparse(call)} divides all steps by those that were taken", call.lineno


def _exchanged_betas(tree: ast.AST) -> Iterator[Found]:
    """The second moment is averaged over longer than the first (Kingma and Ba 2015, arXiv:1412.6980, section 2)."""
    for call in (one for one in walked(tree) if isinstance(one, ast.Call) and "Adam" in called(one)):
        given = next((one.value for one in call.keywords if one.arg == "betas"), None)
        parts = given.elts if isinstance(given, ast.Tuple | ast.List) else []
        values = [one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, float)]
        if len(values) == len(parts) == 2 and values[0] > values[1]:
            words = f"betas={ast.unparse(given or call)} keeps gradients for longer than their squares: exchanged"
            yield "formula", words, call.lineno


def _share_of_the_warmup(tree: ast.AST) -> Iterator[Found]:
    """Behind a warm-up, progress is a share of the steps that are left: (step - warm-up) / (all - warm-up)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not is_difference(node.left):
            continue
        gone = node.left.right if isinstance(node.left, ast.BinOp) else node.left
        divisors = [node.right, *_at_least(node.right)]
        is_warmup = isinstance(gone, ast.Name | ast.Attribute) and words_in(gone) & _WARMUP
        if is_warmup and any(ast.dump(one) == ast.dump(gone) for one in divisors):
            words = f"{ast.unparse(node)} is a share of the warm-up, and passes 1 long before the training ends"
            yield "formula", words, node.lineno


def _at_least(node: ast.expr) -> list[ast.expr]:
    """Return `x` of `max(1, x)`; nothing of anything else."""
    given = node.args if isinstance(node, ast.Call) and called(node) in ("max", "float") else []
    others = [one for one in given if not isinstance(one, ast.Constant)]
    return others if len(others) == 1 else []


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _inverted_warmup,
    _inverted_cosine,
    _exchanged_betas,
    _share_of_the_warmup,
)
