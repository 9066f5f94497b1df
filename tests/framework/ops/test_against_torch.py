"""The same numbers as PyTorch, forward and back, for what networks are made of."""

import numpy as np
import pytest
from mindscope.framework import Tensor, ops

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
F = torch.nn.functional

_random = np.random.default_rng(11)
_labels = _random.integers(0, 7, 50)
_labels[3] = -100
_table = _random.integers(0, 9, (4, 5))


def real(*shape, scale=1.0):
    return (_random.standard_normal(shape) * scale).astype(np.float32)


def _heads(query, key):
    return [real(2, 3, n, 8) for n in (query, key, key)]


CASES = {
    "gelu": (ops.gelu, lambda x: F.gelu(x, approximate="tanh"), [real(9, 70, scale=4)]),
    "gelu_exact": (lambda x: ops.gelu(x, approximate=False), F.gelu, [real(9, 70, scale=4)]),
    "silu": (ops.silu, F.silu, [real(9, 70, scale=4)]),
    "leaky_relu": (lambda x: ops.leaky_relu(x, 0.1), lambda x: F.leaky_relu(x, 0.1), [real(9, 70)]),
    "softplus": (ops.softplus, F.softplus, [real(9, 70, scale=4)]),
    "softmax": (lambda x: ops.softmax(x, 1), lambda x: F.softmax(x, 1), [real(4, 7, 5)]),
    "log_softmax": (lambda x: ops.log_softmax(x, 0), lambda x: F.log_softmax(x, 0), [real(4, 7)]),
    "layer_norm": (ops.layer_norm, lambda x, w, b: F.layer_norm(x, (70,), w, b), [real(9, 70), real(70), real(70)]),
    "rms_norm": (ops.rms_norm, lambda x, w: F.rms_norm(x, (70,), w, 1e-6), [real(9, 70), real(70)]),
    "batch_norm": (
        lambda x, w, b: ops.batch_norm(x, w, b)[0],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [real(10, 7, 4, 3), real(7), real(7)],
    ),
    "linear": (ops.linear, F.linear, [real(2, 5, 8), real(6, 8), real(6)]),
    "conv2d": (
        lambda x, w, b: ops.conv2d(x, w, b, stride=2, padding=1, groups=2),
        lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 2),
        [real(5, 4, 9, 8), real(6, 2, 3, 3), real(6)],
    ),
    "conv2d_same": (
        lambda x, w: ops.conv2d(x, w, padding=2, dilation=2),
        lambda x, w: F.conv2d(x, w, padding=2, dilation=2),
        [real(70, 8, 9, 8), real(6, 8, 3, 3)],
    ),
    "max_pool2d": (lambda x: ops.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1), [real(5, 4, 9, 8)]),
    "avg_pool2d": (lambda x: ops.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1), [real(5, 4, 9, 8)]),
    "embedding": (
        lambda t: ops.gather(t, Tensor(_table)),
        lambda t: F.embedding(torch.tensor(_table), t),
        [real(9, 6)],
    ),
    "cross_entropy": (
        lambda x: ops.cross_entropy(x, Tensor(_labels), label_smoothing=0.1),
        lambda x: F.cross_entropy(x, torch.tensor(_labels), label_smoothing=0.1),
        [real(50, 7)],
    ),
    "nll": (
        lambda x: ops.nll(ops.log_softmax(x), Tensor(abs(_labels) % 7)),
        lambda x: F.nll_loss(F.log_softmax(x, 1), torch.tensor(abs(_labels) % 7)),
        [real(50, 7)],
    ),
    "bce_with_logits": (
        lambda x: ops.bce_with_logits(x, Tensor((_labels > 3).astype("f4"))),
        lambda x: F.binary_cross_entropy_with_logits(x, torch.tensor((_labels > 3).astype("f4"))),
        [real(50, scale=4)],
    ),
    "mse": (ops.mse, F.mse_loss, [real(5, 6), real(5, 6)]),
    "kl_divergence": (
        lambda a, b: ops.kl_divergence(a, b, reduction="sum"),
        lambda a, b: F.kl_div(F.log_softmax(a, 1), F.log_softmax(b, 1), reduction="sum", log_target=True),
        [real(5, 6), real(5, 6)],
    ),
    "attention": (
        ops.scaled_dot_product_attention,
        F.scaled_dot_product_attention,
        _heads(10, 12),
    ),
    "causal_attention": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        _heads(10, 10),
    ),
    "masked_attention": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, mask=Tensor(np.tri(10, dtype=bool))),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor(np.tri(10, dtype=bool))),
        _heads(10, 10),
    ),
    "max": (lambda x: x.max(1), lambda x: x.amax(1), [np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32)]),
    "tile": (lambda x: ops.tile(x, (2, 3)), lambda x: x.repeat(2, 3), [real(2, 3)]),
    "stack": (lambda a, b: ops.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1), [real(2, 3), real(2, 3)]),
    "split": (
        lambda x: ops.concat(ops.split(x, 2, 1)[::-1], 1),
        lambda x: torch.cat(x.split(2, 1)[::-1], 1),
        [real(2, 5)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_torch(name):
    mine, theirs, arrays = CASES[name]
    xs = [Tensor(a.copy(), requires_grad=True) for a in arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in arrays]
    y, t = mine(*xs), theirs(*ts)
    weight = np.random.default_rng(3).standard_normal(y.shape).astype(np.float32)
    y.backward(Tensor(weight))
    t.backward(torch.tensor(weight))
    np.testing.assert_allclose(y.numpy(), t.detach().numpy(), rtol=1e-4, atol=1e-5)
    for x, s in zip(xs, ts, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), s.grad.numpy(), rtol=1e-4, atol=3e-5)
