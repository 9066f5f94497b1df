"""Attention in blocks is attention: against the composed one, and with rows that see nothing."""

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, ShapeError, Tensor, grad, ops
from mindscope.framework.ops.attention_ops import _BLOCK, _compose


def _heads(seed, n, m, width=5):
    random = np.random.default_rng(seed)
    return [Tensor(random.standard_normal(shape)) for shape in ((2, 3, n, 4), (2, 3, m, 4), (2, 3, m, width))]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (_BLOCK, _BLOCK), (_BLOCK + 3, 2 * _BLOCK + 1), (3, 200)])
@pytest.mark.parametrize("is_masked", [False, True])
def test_blocks_agree_with_the_composition_and_so_do_their_gradients(n, m, causal, is_masked):
    heads = _heads(n, n, m)
    mask = [Tensor(np.random.default_rng(m).random((n, m)) < 0.8)] if is_masked else []
    weight = Tensor(np.random.default_rng(0).standard_normal((2, 3, n, 5)))
    how = {"causal": causal, "scale": 0.4}

    def fused(*qkv):
        return (PRIMITIVES["attention"].several(*qkv, *mask, **how)[0] * weight).sum()

    def plain(*qkv):
        out = _compose(*qkv, *mask, **how)[0]
        return (ops.where(out == out, out, 0.0) * weight).sum()  # where nothing is seen the softmax is 0 / 0

    assert fused(*heads).item() == pytest.approx(plain(*heads).item())
    seen = np.broadcast_to(mask[0].numpy(), (n, m)) if mask else np.ones((n, m), bool)
    if (seen & (np.tri(n, m, m - n, dtype=bool) if causal else True)).any(1).all():
        for found, expected in zip(grad(fused, (0, 1, 2))(*heads), grad(plain, (0, 1, 2))(*heads), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-10)


def test_a_query_that_sees_nothing_gets_0_and_sends_none_back():
    q, k, v = (Tensor(x.numpy(), requires_grad=True) for x in _heads(1, 3, 3))
    mask = Tensor(np.array([[True, False, True], [False] * 3, [True] * 3]))
    out = ops.scaled_dot_product_attention(q, k, v, mask=mask)
    assert (out.numpy()[..., 1, :] == 0).all()
    out.sum().backward()
    assert (q.grad.numpy()[..., 1, :] == 0).all()
    assert all(np.isfinite(x.grad.numpy()).all() for x in (q, k, v))


def test_the_output_lies_in_memory_as_the_queries_do():
    rows = Tensor(np.random.default_rng(0).standard_normal((2, 6, 3 * 4)).astype(np.float32))
    q = rows.reshape(2, 6, 3, 4).swapaxes(1, 2)
    joined = ops.scaled_dot_product_attention(q, q, q).swapaxes(1, 2).reshape(2, 6, 12)
    assert joined.numpy().base is not None  # a view: joining the heads costs no copy


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 3), (2, 4), (2, 3)), "attention expects queries"),
        (((2, 3), (2, 3), (4, 3)), "attention expects queries"),
        (((3,), (2, 3), (2, 3)), "two axes or more"),
        (((4, 2, 3), (3, 2, 3), (3, 2, 3)), "do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes, words):
    with pytest.raises(ShapeError, match=words):
        ops.scaled_dot_product_attention(*(Tensor(np.ones(shape)) for shape in shapes))
