"""Scores of pairs: similarities, divided by their temperature."""

import ast
from collections.abc import Iterator
from typing import Final

from ..expressions import calls_in, find, known_numbers, name_of
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_TEMPERATURES: Final = frozenset({"temperature", "temp", "tau"})
_PRODUCTS: Final = ("matmul", "mm", "bmm", "einsum", "cosine_similarity", "CosineSimilarity")
_CHOICES: Final = ("cross_entropy", "CrossEntropyLoss", "softmax", "log_softmax", "logsumexp", "exp")


def _multiplied_temperature(tree: ast.AST) -> Iterator[Found]:
    """Similarities are divided by a temperature below one (Chen et al. 2020, arXiv:2002.05709, equation 1)."""
    numbers = known_numbers(tree)
    if not any(words_of(name) & _TEMPERATURES for name in numbers) or next(calls_in(tree, *_CHOICES), None) is None:
        return
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for one, other in ((node.left, node.right), (node.right, node.left)):
            name = name_of(one)
            if words_of(name) & _TEMPERATURES and 0.0 < numbers.get(name, 1.0) < 1.0 and find(other, _is_product):
                words = (
                    f"{ast.unparse(node)} multiplies similarities by the temperature {numbers[name]:g}, which makes "
                    "them smaller: a softmax of cosines is then nearly the same for all"
                )
                yield "formula", words, node.lineno


def _is_product(node: ast.AST) -> bool:
    is_matrix = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    return is_matrix or (isinstance(node, ast.Call) and next(calls_in(node, *_PRODUCTS), None) is not None)


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_multiplied_temperature,)
