"""Matrix products."""

from ... import ops
from ...tensor import Tensor
from ..call import Call
from ..registry import operator


@operator("MatMul")
def matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`a @ b`, as NumPy broadcasts it."""
    return ops.matmul(a, b)


@operator("Gemm")
def gemm(call: Call, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """`alpha a b + beta c`, either matrix transposed if asked for."""
    a = a.transpose(1, 0) if call.get("transA", 0) else a
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    is_layer = call.get("transB", 0) and alpha == beta == 1.0
    if is_layer and c is not None and c.shape == b.shape[:1] and a.dtype.kind == "f":
        return ops.linear(a, b, c)
    b = b.transpose(1, 0) if call.get("transB", 0) else b
    out = ops.matmul(a, b)
    if alpha != 1.0:
        out = ops.cast(out * alpha, a.dtype)
    if c is None or beta == 0.0:
        return out
    return out + (c if beta == 1.0 else ops.cast(c * beta, a.dtype))


@operator("Einsum")
def einsum(call: Call, *operands: Tensor) -> Tensor:
    """The sum of products that the equation describes."""
    left, _, result = _complete(call.get("equation").replace(" ", "")).partition("->")
    pairs = [_distinct(x, term) for x, term in zip(operands, left.split(","), strict=True)]
    return ops.einsum(f"{','.join(term for _, term in pairs)}->{result}", *(x for x, _ in pairs))


@operator("Det")
def determinant(call: Call, x: Tensor) -> Tensor:
    """The determinants of square matrices."""
    found: Tensor = ops.det(x)
    return found


def _complete(equation: str) -> str:
    """The equation with its result written out: letters that appear once, in the order of the alphabet."""
    if "->" in equation:
        return equation
    letters = equation.replace(",", "").replace("...", "")
    once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return f"{equation}->{'...' if '...' in equation else ''}{once}"


def _distinct(x: Tensor, term: str) -> tuple[Tensor, str]:
    """The operand and its letters, with a diagonal taken for every letter that stands there twice."""
    for letter in sorted(set(term) - {"."}):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            hidden = x.ndim - len(term.replace("...", ""))  # axes that the dots stand for
            places = [i + (hidden - 3 if "..." in term[:i] else 0) for i in (first, second)]
            x = ops.diagonal(x, 0, *places)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term
