"""Sums of products over named axes."""

from collections.abc import Sequence
from functools import reduce
from string import ascii_lowercase, ascii_uppercase

import numpy as np

from ..dtype import NARROW, promote
from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Spec
from ..tensor import Array, Tensor
from .constructed import diagonal
from .create import full
from .operands import cast_to, conjugate
from .reduce import broadcast_to

_LETTERS = ascii_lowercase + ascii_uppercase


def _terms(subscripts: str, count: int) -> tuple[list[str], str]:
    """Return the subscripts of the operands and of the result."""
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = "".join(terms)
    if not arrow or len(terms) != count or not all(part.isalpha() or not part for part in (*terms, result)):
        raise ShapeError(f"einsum expects 'ij,jk->ik' with {count} operands before the arrow, got {subscripts!r}")
    if any(len(set(part)) != len(part) for part in (*terms, result)) or not set(result) <= set(letters):
        raise ShapeError(f"einsum expects no letter twice in a term and none in the result alone, got {subscripts!r}")
    return terms, result


def _infer_einsum(*operands: Spec, subscripts: str) -> Spec:
    terms, result = _terms(subscripts, len(operands))
    lengths: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        if len(term) != x.ndim:
            raise ShapeError(f"einsum term '{term}' has {len(term)} letters for a tensor of shape {x.shape}")
        for letter, length in zip(term, x.shape, strict=True):
            if lengths.setdefault(letter, length) != length:
                raise ShapeError(f"einsum '{subscripts}': axis '{letter}' is {lengths[letter]} and {length}")
    return Spec(tuple(lengths[letter] for letter in result), operands[0].dtype)


def _einsum_of(*operands: Array, subscripts: str) -> Array:
    _infer_einsum(*(Spec(x.shape, x.dtype) for x in operands), subscripts=subscripts)
    if operands[0].dtype in NARROW:
        wide = (x.astype(np.float32) for x in operands)
        return np.asarray(np.einsum(subscripts, *wide, optimize=True)).astype(operands[0].dtype)
    # With one operand the result may be a view of it, and a sum must be an array of its own.
    return np.array(np.einsum(subscripts, *operands, optimize=len(operands) > 1))


def _einsum_gradient(
    needs: Sequence[bool], g: Tensor, _: None, *operands: Tensor, subscripts: str
) -> list[Tensor | None]:
    """Return for each operand the result's gradient and the other operands, summed to its letters."""
    terms, result = _terms(subscripts, len(operands))
    found: list[Tensor | None] = []
    for i, (need, x) in enumerate(zip(needs, operands, strict=True)):
        if not need:
            found.append(None)
            continue
        others = [*terms[:i], *terms[i + 1 :]]
        tensors = [conjugate(x) for x in (*operands[:i], *operands[i + 1 :])]
        alone = "".join(letter for letter in terms[i] if letter not in result + "".join(others))
        if alone:  # summed over in the forward direction, so repeated in the backward one
            others.append(alone)
            tensors.append(full([x.shape[terms[i].index(letter)] for letter in alone], 1, x.dtype))
        found.append(_einsum(g, *tensors, subscripts=f"{','.join([result, *others])}->{terms[i]}"))
    return found


_einsum: Primitive = Primitive("einsum", _einsum_of, _infer_einsum, _einsum_gradient)


def _explicit(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return terms of letters only, and the result's: an ellipsis becomes letters, a missing result those that occur
    once."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ShapeError(f"einsum '{equation}' names {len(terms)} operands, got {len(operands)}")
    free = [letter for letter in _LETTERS if letter not in equation]
    longest = 0
    for i, (term, x) in enumerate(zip(terms, operands, strict=True)):
        if "..." in term:
            hidden = x.ndim - len(term.replace("...", ""))
            if hidden < 0:
                raise ShapeError(f"einsum term '{term}' has more letters than the tensor of shape {x.shape} axes")
            longest = max(longest, hidden)
            terms[i] = term.replace("...", "".join(free[-hidden:]) if hidden else "")
    batch = "".join(free[-longest:]) if longest else ""
    letters = "".join(terms)
    if not arrow:
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1 and letter not in batch)
        return terms, batch + "".join(once)
    return terms, result.replace("...", batch)


def _without_repeats(term: str, x: Tensor) -> tuple[str, Tensor]:
    """Return the term with each letter once: of a repeated one the diagonal is taken."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = diagonal(x, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return term, x


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Return the sum of products that the equation describes, as in `"bqd,bkd->bqk"`.

    Args:
        equation: A letter for each axis. A letter twice in a term takes the diagonal, `...` stands for axes that
            broadcast, and without an arrow the letters that occur once are left, in alphabetical order.
        operands: One for each term.
    """
    terms, result = _explicit(equation, operands)
    dtype = reduce(promote, (x.dtype for x in operands))
    simple = [_without_repeats(term, cast_to(x, dtype)) for term, x in zip(terms, operands, strict=True)]
    lengths: dict[str, int] = {}
    for term, x in simple:
        for letter, length in zip(term, x.shape, strict=False):
            lengths[letter] = length if lengths.get(letter, 1) == 1 else lengths[letter]
    wide = [_repeated(term, x, lengths) for term, x in simple]
    return _einsum(*wide, subscripts=f"{','.join(term for term, _ in simple)}->{result}")


def _repeated(term: str, x: Tensor, lengths: dict[str, int]) -> Tensor:
    """Return axes of length 1 repeated to the length that their letter has elsewhere."""
    if len(term) != x.ndim:
        raise ShapeError(f"einsum term '{term}' has {len(term)} letters for a tensor of shape {x.shape}")
    shape = tuple(lengths[letter] if length == 1 else length for letter, length in zip(term, x.shape, strict=True))
    return x if shape == x.shape else broadcast_to(x, shape)
