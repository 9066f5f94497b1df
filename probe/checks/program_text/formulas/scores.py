"""Scores of pairs: similarities, divided by their temperature."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import assignments, calls_in, find, name_of, operand, rest_of_one, words_in
from ..known_values import known_numbers
from ..names import words_of
from ..operations import axis_of
from ..trees import walked
from .pattern import Found, Pattern

_TEMPERATURES: Final = frozenset({"temperature", "temp", "tau"})
_PRODUCTS: Final = ("matmul", "mm", "bmm", "einsum", "cosine_similarity", "CosineSimilarity")
_NORMS: Final = ("normalize", "norm", "vector_norm", "cosine_similarity", "CosineSimilarity", "rsqrt", "pdist", "cdist")
_MASKS: Final = frozenset(
    {"mask", "masks", "masked", "seen", "padding", "pad", "causal", "blocked", "invalid", "hidden"}
)
_INFINITIES: Final = ("float('inf')", "float('-inf')", "torch.inf", "math.inf", "np.inf", "numpy.inf")
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


def _similarities_of_any_length(tree: ast.AST) -> Iterator[Found]:
    """What is divided by a temperature below one are cosines (Chen et al. 2020, arXiv:2002.05709, equation 1).

    Told where all rows are compared with all rows of the same vectors, and nothing in the program takes a norm.
    """
    numbers = known_numbers(tree)
    if next(calls_in(tree, *_NORMS), None) is not None or next(calls_in(tree, *_CHOICES), None) is None:
        return
    for node in walked(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_of_itself(node.left):
            name = name_of(node.right)
            if words_of(name) & _TEMPERATURES and 0.0 < numbers.get(name, 1.0) < 1.0:
                words = f"{ast.unparse(node)} compares vectors of any length, and nothing normalises them"
                yield "formula", words, node.lineno


def _is_of_itself(node: ast.expr) -> bool:
    """Return whether an expression is `z @ z.T`, or the like."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        left, right = node.left, node.right
    elif isinstance(node, ast.Call) and called(node) in ("matmul", "mm") and operand(node, 1) is not None:
        left, right = operand(node) or node, operand(node, 1) or node
    else:
        return False
    own = ast.unparse(left)
    return isinstance(left, ast.Name) and ast.unparse(right) in (f"{own}.T", f"{own}.t()", f"{own}.mT")


def _zero_times_infinity(tree: ast.AST) -> Iterator[Found]:
    """A mask that is multiplied by infinity is not a number wherever it is zero (IEEE 754-2019, section 7.2)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if ast.unparse(one).lstrip("-").lstrip("(").startswith(_INFINITIES) and _is_of_zeros(other):
                words = f"{ast.unparse(node)} multiplies by infinity, and gives NaN wherever the mask is zero"
                yield "formula", words, node.lineno


def _is_of_zeros(node: ast.expr) -> bool:
    """Return whether a factor is a mask as numbers, `mask.float()`, or what is left of one, `1 - mask`."""
    is_number = isinstance(node, ast.Call) and called(node) in ("float", "to", "type", "astype", "double", "half")
    is_rest = rest_of_one(node) is not None
    is_mask = bool(words_in(node) & _MASKS)
    return (is_number or is_rest) and is_mask and next(calls_in(node, "ones", "full", "ones_like"), None) is None


def _is_product(node: ast.AST) -> bool:
    is_matrix = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    return is_matrix or (isinstance(node, ast.Call) and next(calls_in(node, *_PRODUCTS), None) is not None)


def _softmax_over_others(tree: ast.AST) -> Iterator[Found]:
    """What is chosen among classes was made a share of all classes: one axis for both."""
    shares = {name: value for name, value, _ in assignments(tree) if called(value) == "softmax"}
    for call in calls_in(tree, "max", "argmax", "topk"):
        chosen = operand(call)
        value = shares.get(name_of(chosen))
        axes = [axis_of(one) for one in (value, call)] if isinstance(value, ast.Call) else []
        if axes == ["0", "1"] or axes == ["0", "-1"]:
            words = f"{ast.unparse(call)} chooses along another axis than {ast.unparse(value or call)} has shared"
            yield "formula", words, call.lineno


def _correction_added(tree: ast.AST) -> Iterator[Found]:
    """Sampled scores lose the logarithm of their chance to be sampled (Bengio and Senecal 2008; Yi et al. 2019)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        for scores, added in ((node.left, node.right), (node.right, node.left)):
            base = added.value if isinstance(added, ast.Subscript) else added
            is_chance = name_of(base).lower() in ("log_q", "logq", "log_sampling_prob", "log_sample_prob")
            if is_chance and not find(scores, lambda one: "kl" in words_of(name_of(one))):
                words = f"{ast.unparse(node)} adds the logarithm of the chance to be sampled, which is to be taken off"
                yield "formula", words, node.lineno


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _multiplied_temperature,
    _similarities_of_any_length,
    _zero_times_infinity,
    _softmax_over_others,
    _correction_added,
)
