"""The same call in our mint and in PyTorch gives the same."""

import numpy as np
import pytest
from mindscope.framework import Tensor, mint, ops

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
_random = np.random.default_rng(5)


def real(*shape):
    return _random.uniform(-2, 2, shape)


X, Y, SQUARE = real(3, 4), real(3, 4), real(3, 3) + 3 * np.eye(3)
INDEX = np.array([[0, 2, 1, 0]])
CALLS = [
    ("sum", (X,), {"dim": 1, "keepdim": True}), ("mean", (X, 0), {}), ("cat", ([X, Y],), {"dim": 1}),
    ("stack", ([X, Y], 1), {}), ("sub", (X, Y), {}), ("mul", (X, Y), {}), ("div", (X, Y), {}), ("neg", (X,), {}),
    ("pow", (X, 2), {}), ("eq", (X, Y), {}), ("lt", (X, Y), {}), ("clamp", (X,), {"min": -1, "max": 0.5}),
    ("max", (X,), {}), ("max", (X, 1), {}), ("max", (X,), {"dim": 0, "keepdim": True}), ("max", (X, Y), {}),
    ("min", (X, 1), {}), ("argmax", (X,), {"dim": 1, "keepdim": True}), ("argmin", (X, 0), {}), ("var", (X,), {}),
    ("std", (X,), {"dim": 1}), ("var", (X,), {"dim": 0, "correction": 0}), ("transpose", (X, 0, 1), {}),
    ("permute", (real(2, 3, 4), (2, 0, 1)), {}), ("unsqueeze", (X, 1), {}), ("squeeze", (real(1, 3, 1), 0), {}),
    ("gather", (X, 0, INDEX), {}), ("scatter", (X, 0, INDEX, real(1, 4)), {}), ("cumsum", (X,), {"dim": 1}),
    ("scatter_add", (X, 0, INDEX, real(1, 4)), {}), ("index_select", (X, 1, np.array([3, 0])), {}),
    ("index_add", (X, 0, np.array([1, 1]), real(2, 4)), {}), ("cumprod", (X, 0), {}), ("sort", (X,), {"dim": 0}),
    ("topk", (X, 2), {"dim": 1}), ("flip", (X, (0, 1)), {}), ("roll", (X,), {"shifts": 1, "dims": 0}),
    ("repeat_interleave", (X, 2), {"dim": 0}), ("tril", (X,), {"diagonal": -1}), ("unbind", (X,), {"dim": 1}),
    ("split", (X, 2), {"dim": 1}), ("chunk", (X, 2, 1), {}), ("tile", (X, (2, 1)), {}), ("reshape", (X, (4, 3)), {}),
    ("flatten", (real(2, 3, 4), 1), {}), ("logsumexp", (X,), {"dim": 1, "keepdim": True}), ("prod", (X,), {"dim": 1}),
    ("any", (X > 0,), {"dim": 1}), ("all", (X > 0,), {}), ("where", (X > 0, X, Y), {}), ("isfinite", (X,), {}),
    ("matmul", (X, Y.T), {}), ("bmm", (real(2, 3, 4), real(2, 4, 2)), {}), ("einsum", ("ij,kj->ik", X, Y), {}),
    ("unique", (np.array([3, 1, 3]),), {"return_inverse": True, "return_counts": True}),
    ("polygamma", (2, X**2 + 1), {}),
    ("masked_select", (X, X > 0), {}), ("remainder", (X, 0.7), {}), ("bitwise_and", (np.array([6, 5]), 3), {}),
    ("diagonal", (X,), {}), ("trace", (SQUARE,), {}), ("searchsorted", (np.array([1.0, 2.0, 3.0]), Y), {"right": True}),
    ("linalg.inv", (SQUARE,), {}), ("linalg.norm", (X,), {}), ("linalg.solve", (SQUARE, real(3, 2)), {}),
    ("linalg.vector_norm", (X,), {"ord": 1, "dim": 1}), ("special.expit", (X,), {}),
    ("nn.functional.softmax", (X,), {"dim": 0}),
    ("nn.functional.cross_entropy", (real(2, 3, 4), INDEX.repeat(2, 0)), {}),
    ("nn.functional.nll_loss", (X, np.array([0, 3, 1])), {"reduction": "sum"}), ("nn.functional.elu", (X, 0.7), {}),
    ("nn.functional.mse_loss", (X, Y), {}), ("nn.functional.embedding", (INDEX, X), {}),
    ("nn.functional.normalize", (X,), {"p": 1, "dim": 1}), ("nn.functional.glu", (X,), {"dim": 1}),
    ("nn.functional.threshold", (X, 0.1, 20.0), {}), ("nn.functional.group_norm", (real(2, 4, 3),), {"num_groups": 2}),
]  # fmt: skip


def _find(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _given(value, make):
    if isinstance(value, np.ndarray):
        return make(value)
    return [make(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[f"{i}-{call[0]}" for i, call in enumerate(CALLS)])
def test_the_same_call_gives_the_same(number):
    name, args, keywords = CALLS[number]
    mine = _find(mint, name)(*(_given(x, Tensor) for x in args), **keywords)
    theirs = _find(torch, name)(*(_given(x, torch.tensor) for x in args), **keywords)
    pairs = zip(mine, theirs, strict=True) if isinstance(mine, tuple) else [(mine, theirs)]
    for y, t in pairs:
        np.testing.assert_allclose(y.numpy(), t.numpy(), rtol=1e-10, atol=1e-12)


def test_every_operation_has_a_name_in_mint():
    assert set(ops.__all__) <= set(dir(mint))
    assert all(callable(getattr(mint, name)) for name in dir(mint))


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(AttributeError, match="no operation 'cumsumm' in mint; did you mean 'cumsum'"):
        _ = mint.cumsumm
