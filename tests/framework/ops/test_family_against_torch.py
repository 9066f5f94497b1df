"""The whole family against PyTorch: values and gradients in float64, on shapes drawn at random."""

import os

import numpy as np
import pytest
from mindscope.framework import Tensor, ops
from mindscope.framework.dtype import is_inexact

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
F = torch.nn.functional
_SEEDS = range(12 if os.environ.get("MINDSCOPE_TEST_ALL") else 2)


class Draw:
    """Arrays for one call: lengths and values from one seed."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.n, self.m, self.k = (int(n) for n in self.random.integers(1, 5, 3))

    def real(self, *shape, low=-2.0, high=2.0):
        return self.random.uniform(low, high, shape)

    def some(self, low=-2.0, high=2.0, least=1):
        """A tensor of one to three axes."""
        shape = self.random.integers(least, 5, self.random.integers(1, 4))
        return self.real(*shape, low=low, high=high)

    def whole(self, high, *shape):
        return self.random.integers(0, high, shape)

    def like(self, x, low=-2.0, high=2.0):
        return self.real(*x.shape, low=low, high=high)


def unary(low=-2.0, high=2.0):
    return lambda d: [d.some(low, high)]


def two(low=-2.0, high=2.0, other_low=-2.0):
    def arrays(d):
        x = d.some(low, high)
        rows = x[..., :1] if d.n % 2 else x[0]
        return [x, d.like(rows, other_low, high)]

    return arrays


def same(count, low=-2.0, high=2.0):
    def arrays(d):
        x = d.some(low, high)
        return [x, *(d.like(x, low, high) for _ in range(count - 1))]

    return arrays


def matrices(d):
    batch = (d.k,) if d.n % 2 else ()
    x = d.real(*batch, d.m, d.m)
    return [x + 3 * np.eye(d.m)]


def positive(d):
    x = matrices(d)[0]
    return [x @ x.swapaxes(-1, -2)]


def last(call):
    """Along the last axis, of which the rows are told apart."""
    return lambda x: call(x, -1)


def images(d):
    return [d.real(d.n, 2 * d.m, d.k + 1, d.k + 2)]


SAME_NAME = {
    "abs": unary(), "acos": unary(-0.9, 0.9), "acosh": unary(1.2, 3.0), "asin": unary(-0.9, 0.9), "asinh": unary(),
    "atan": unary(), "atanh": unary(-0.9, 0.9), "ceil": unary(), "cos": unary(), "cosh": unary(), "deg2rad": unary(),
    "digamma": unary(0.2, 5.0), "erf": unary(), "erfc": unary(), "erfinv": unary(-0.95, 0.95), "exp": unary(),
    "exp2": unary(), "expm1": unary(), "floor": unary(), "frac": unary(), "lgamma": unary(-2.9, 5.0),
    "log": unary(0.1), "log10": unary(0.1), "log1p": unary(-0.9), "log2": unary(0.1), "logit": unary(0.1, 0.9),
    "rad2deg": unary(), "reciprocal": unary(0.2), "round": unary(), "rsqrt": unary(0.2), "sigmoid": unary(-9, 9),
    "sign": unary(), "sin": unary(), "sinh": unary(), "sqrt": unary(0.1), "square": unary(), "tan": unary(-1.2, 1.2),
    "tanh": unary(), "trunc": unary(), "relu": unary(), "triu": lambda d: [d.real(d.n, d.m, d.k)],
    "tril": lambda d: [d.real(d.n, d.m)], "add": two(), "atan2": two(), "copysign": two(), "divide": two(-2, 2, 0.3),
    "fmod": two(-5, 5, 0.6), "hypot": two(), "logaddexp": two(-9, 9), "maximum": two(), "minimum": two(),
    "multiply": two(), "remainder": two(-5, 5, 0.6), "subtract": two(), "xlogy": two(0.1, 2.0, 0.1), "det": matrices,
    "outer": lambda d: [d.real(d.n), d.real(d.m)], "dot": lambda d: [d.real(d.n)] * 2, "ravel": unary(),
    "kron": lambda d: [d.real(d.n, d.m), d.real(d.k, 2)], "trace": lambda d: [d.real(d.n, d.m)],
    "mv": lambda d: [d.real(d.n, d.m), d.real(d.m)], "bmm": lambda d: [d.real(d.k, d.n, d.m), d.real(d.k, d.m, 2)],
    "vdot": lambda d: [d.real(d.n)] * 2, "inner": lambda d: [d.real(d.n, d.m), d.real(d.k, d.m)],
    "prod": unary(), "logdet": positive,
}  # fmt: skip
FUNCTIONAL = {
    "celu": unary(), "elu": unary(), "hardtanh": unary(), "hardshrink": unary(), "hardsigmoid": unary(-5, 5),
    "hardswish": unary(-5, 5), "logsigmoid": unary(-9, 9), "mish": unary(-9, 9), "relu6": unary(-9, 9),
    "selu": unary(), "silu": unary(), "softplus": unary(-9, 9), "softshrink": unary(), "softsign": unary(),
    "tanhshrink": unary(), "l1_loss": same(2), "smooth_l1_loss": same(2, -3, 3), "huber_loss": same(2, -3, 3),
    "poisson_nll_loss": same(2, 0.2), "pairwise_distance": lambda d: [d.real(d.n, d.m), d.real(d.n, d.m)],
    "gaussian_nll_loss": same(3, 0.2), "margin_ranking_loss": same(3),
    "triplet_margin_loss": lambda d: [d.real(d.n, d.m) for _ in range(3)],
    "cosine_similarity": lambda d: [d.real(d.n, d.m), d.real(d.n, d.m)],
}  # fmt: skip

#: Ours, theirs, and the arrays.
CASES = {
    "lerp": (ops.lerp, torch.lerp, same(3)),
    "nan_to_num": (
        lambda x: ops.nan_to_num(ops.log(x), 1.0, 2.0, 3.0),
        lambda x: torch.nan_to_num(torch.log(x), 1.0, 2.0, 3.0),
        lambda d: [np.array([0.5, -1.0])],
    ),
    "embedding": (
        lambda i, t: ops.embedding(i, t, -1),
        lambda i, t: F.embedding(i, t, -1),
        lambda d: [d.whole(3, d.n, d.m), d.real(3, d.k)],
    ),
    "glu": (ops.glu, F.glu, lambda d: [d.real(d.n, 2 * d.m)]),
    "prelu": (ops.prelu, F.prelu, lambda d: [d.real(d.n, d.m), d.real(1)]),
    "threshold": (lambda x: ops.threshold(x, 0.3, -1.0), lambda x: F.threshold(x, 0.3, -1.0), unary()),
    "leaky_relu": (lambda x: ops.leaky_relu(x, 0.1), lambda x: F.leaky_relu(x, 0.1), unary()),
    "gelu": (lambda x: ops.gelu(x, False), F.gelu, unary(-4, 4)),
    "clip": (lambda x: ops.clip(x, -0.5, 1.0), lambda x: x.clamp(-0.5, 1.0), unary()),
    "clip_by_tensors": (lambda x, a, b: ops.clip(x, a, b), lambda x, a, b: torch.clamp(x, a, b), same(3)),
    "where": (lambda a, b: ops.where(a > b, a, b * 2), lambda a, b: torch.where(a > b, a, b * 2), same(2)),
    "power": (ops.power, torch.pow, two(0.2, 2.0, -2.0)),
    "polygamma": (lambda x: ops.polygamma(x, 2), lambda x: torch.polygamma(2, x), unary(0.3, 4.0)),
    "xlogy_at_zero": (ops.xlogy, torch.xlogy, lambda d: [np.zeros(d.n), np.zeros(d.n) + 0.5]),
    "logsumexp": (last(ops.logsumexp), last(torch.logsumexp), unary(-9, 9)),
    "std": (lambda x: ops.std(x, -1, ddof=1), lambda x: x.std(-1), lambda d: [d.some(least=2)]),
    "var": (lambda x: ops.var(x, -1), lambda x: x.var(-1, correction=0), unary()),
    "prod_with_zeros": (last(ops.prod), last(torch.prod), lambda d: [d.whole(3, d.n, 4).astype(float)]),
    "norm_3": (lambda x: ops.vector_norm(x, 3, -1), lambda x: torch.linalg.vector_norm(x, 3, -1), unary()),
    "norm_inf": (
        lambda x: ops.vector_norm(x, np.inf, -1),
        lambda x: torch.linalg.vector_norm(x, np.inf, -1),
        unary(),
    ),
    "nuclear": (lambda x: ops.matrix_norm(x, "nuc"), lambda x: torch.linalg.matrix_norm(x, "nuc"), matrices),
    "frobenius": (ops.norm, torch.linalg.norm, unary()),
    "cumsum": (last(ops.cumsum), last(torch.cumsum), unary()),
    "cumprod": (last(ops.cumprod), last(torch.cumprod), unary()),
    "cumprod_zeros": (last(ops.cumprod), last(torch.cumprod), lambda d: [d.whole(3, d.n, 5).astype(float)]),
    "cummax": (lambda x: ops.cummax(x, -1)[0], lambda x: torch.cummax(x, -1)[0], unary()),
    "cummin": (lambda x: ops.cummin(x, -1)[0], lambda x: torch.cummin(x, -1)[0], unary()),
    "logcumsumexp": (last(ops.logcumsumexp), last(torch.logcumsumexp), unary(-5, 5)),
    "sort": (lambda x: ops.sort(x, -1, True)[0], lambda x: torch.sort(x, -1, True)[0], unary()),
    "argsort": (last(ops.argsort), last(torch.argsort), unary()),
    "topk": (lambda x: ops.topk(x, 1)[0], lambda x: torch.topk(x, 1)[0], unary()),
    "kthvalue": (lambda x: ops.kthvalue(x, 1)[0], lambda x: torch.kthvalue(x, 1)[0], unary()),
    "quantile": (lambda x: ops.quantile(x, 0.3, -1), lambda x: torch.quantile(x, 0.3, -1), unary()),
    "gather_elements": (
        lambda x, i: ops.gather_elements(x, i, 1),
        lambda x, i: torch.gather(x, 1, i),
        lambda d: [d.real(d.n, d.m), d.whole(d.m, d.n, 3)],
    ),
    "index_add": (
        lambda x, i, u: ops.index_add(x, 0, i, u),
        lambda x, i, u: x.index_add(0, i, u),
        lambda d: [d.real(d.n, d.m), d.whole(d.n, 3), d.real(3, d.m)],
    ),
    "scatter_amax": (
        lambda x, i, u: ops.scatter_elements(x, i, u, 0, "max"),
        lambda x, i, u: x.scatter_reduce(0, i, u, "amax"),
        lambda d: [d.real(d.n, d.m), d.whole(d.n, 3, d.m), d.real(3, d.m)],
    ),
    "scatter_mul": (
        lambda x, i, u: ops.scatter_elements(x, i, u, 0, "mul"),
        lambda x, i, u: x.scatter_reduce(0, i, u, "prod"),
        lambda d: [d.real(d.n, d.m), d.whole(d.n, 3, d.m), d.real(3, d.m)],
    ),
    "take_along_axis": (
        lambda x, i: ops.take_along_axis(x, i, 1),
        lambda x, i: torch.take_along_dim(x, i, 1),
        lambda d: [d.real(d.n, d.m), d.whole(d.m, 1, 3)],
    ),
    "index_by_arrays": (
        lambda x, i: x[i, :, i],
        lambda x, i: x[i, :, i],
        lambda d: [d.real(4, d.m, 4), d.whole(4, d.n)],
    ),
    "masked_select": (
        lambda x: ops.masked_select(x, x > 0),
        lambda x: torch.masked_select(x, x > 0),
        unary(),
    ),
    "masked_fill": (lambda x: ops.masked_fill(x, x > 0, 5.0), lambda x: x.masked_fill(x > 0, 5.0), unary()),
    "roll": (lambda x: ops.roll(x, (1, -2), (0, 1)), lambda x: x.roll((1, -2), (0, 1)), lambda d: [d.real(d.n, d.m)]),
    "flip": (lambda x: ops.flip(x, (0, 1)), lambda x: x.flip((0, 1)), lambda d: [d.real(d.n, d.m, d.k)]),
    "rot90": (lambda x: ops.rot90(x, 3), lambda x: torch.rot90(x, 3), lambda d: [d.real(d.n, d.m, d.k)]),
    "repeat": (lambda x: ops.repeat(x, 3, 0), lambda x: x.repeat_interleave(3, 0), unary()),
    "moveaxis": (lambda x: ops.moveaxis(x, 0, -1), lambda x: x.movedim(0, -1), unary()),
    "pixel_shuffle": (
        lambda x: ops.pixel_shuffle(x, 2),
        lambda x: F.pixel_shuffle(x, 2),
        lambda d: [d.real(d.n, 4 * d.m, d.k, 2)],
    ),
    "pad": (
        lambda x: ops.pad(x, ((1, 2), (-1, 1)), value=3.0),
        lambda x: F.pad(x, (-1, 1, 1, 2), value=3.0),
        lambda d: [d.real(d.n, d.m + 1)],
    ),
    "pad_reflect": (
        lambda x: ops.pad(x, ((0, 0), (0, 0), (2, 1)), "reflect"),
        lambda x: F.pad(x, (2, 1), "reflect"),
        lambda d: [d.real(d.n, d.m, 4)],
    ),
    "pad_circular": (
        lambda x: ops.pad(x, ((0, 0), (0, 0), (2, 1)), "circular"),
        lambda x: F.pad(x, (2, 1), "circular"),
        lambda d: [d.real(d.n, d.m, 4)],
    ),
    "diagonal": (
        lambda x: ops.diagonal(x, 1, 0, 2),
        lambda x: x.diagonal(1, 0, 2),
        lambda d: [d.real(d.n, d.m, d.k + 1)],
    ),
    "diag_embed": (lambda x: ops.diag_embed(x, -1), lambda x: torch.diag_embed(x, -1), unary()),
    "cross": (lambda a, b: ops.cross(a, b), lambda a, b: torch.linalg.cross(a, b), lambda d: [d.real(d.n, 3)] * 2),
    "tensordot": (
        lambda a, b: ops.tensordot(a, b, ((1, 2), (0, 1))),
        lambda a, b: torch.tensordot(a, b, ((1, 2), (0, 1))),
        lambda d: [d.real(2, d.n, d.m), d.real(d.n, d.m, d.k)],
    ),
    "einsum_diagonal": (
        lambda a, b: ops.einsum("iij,j->i", a, b),
        lambda a, b: torch.einsum("iij,j->i", a, b),
        lambda d: [d.real(d.n, d.n, d.m), d.real(d.m)],
    ),
    "einsum_ellipsis": (
        lambda a, b: ops.einsum("...ij,jk", a, b),
        lambda a, b: torch.einsum("...ij,jk", a, b),
        lambda d: [d.real(d.k, 2, d.n, d.m), d.real(d.m, 3)],
    ),
    "inv": (ops.inv, torch.linalg.inv, matrices),
    "slogdet": (lambda x: ops.slogdet(x)[1], lambda x: torch.linalg.slogdet(x)[1], matrices),
    "solve": (ops.solve, torch.linalg.solve, lambda d: [*matrices(d), d.real(d.m, 2)]),
    "triangular_solve": (
        lambda a, b: ops.triangular_solve(a, b, lower=False),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
        lambda d: [*matrices(d), d.real(d.m, 2)],
    ),
    "cholesky": (ops.cholesky, torch.linalg.cholesky, positive),
    "matrix_power": (lambda x: ops.matrix_power(x, -3), lambda x: torch.linalg.matrix_power(x, -3), matrices),
    "pinv": (ops.pinv, torch.linalg.pinv, lambda d: [d.real(d.n, d.m) + np.eye(d.n, d.m) * 3]),
    "lstsq": (
        ops.lstsq,
        lambda a, b: torch.linalg.lstsq(a, b).solution,
        lambda d: [d.real(5, d.m) + np.eye(5, d.m) * 3, d.real(5, 2)],
    ),
    "eigvalsh": (ops.eigvalsh, torch.linalg.eigvalsh, positive),
    "eigh_projector": (
        lambda x: (lambda v: v @ v.T)(ops.eigh(x)[1][:, :1]),
        lambda x: (lambda v: v @ v.T)(torch.linalg.eigh(x)[1][:, :1]),
        lambda d: [(lambda x: x @ x.T)(d.real(d.m, d.m))],
    ),
    "svd": (
        lambda x: (lambda u, s, v: u[:, :1] @ v[:1])(*ops.svd(x)),
        lambda x: (lambda u, s, v: u[:, :1] @ v[:1])(*torch.linalg.svd(x, full_matrices=False)),
        lambda d: [d.real(d.n, d.m)],
    ),
    "qr": (lambda x: ops.abs(ops.qr(x)[1]), lambda x: torch.linalg.qr(x)[1].abs(), lambda d: [d.real(d.n, d.m)]),
    "fft": (ops.fft, torch.fft.fft, unary()),
    "ifft_complex": (
        lambda a, b: ops.ifft(ops.complex(a, b), 5, 0),
        lambda a, b: torch.fft.ifft(torch.complex(a, b), 5, 0),
        same(2),
    ),
    "fft2": (lambda x: ops.fft2(x, norm="ortho"), lambda x: torch.fft.fft2(x, norm="ortho"), images),
    "rfft": (lambda x: ops.rfft(x, 6), lambda x: torch.fft.rfft(x, 6), unary()),
    "irfft": (
        lambda a, b: ops.irfft(ops.complex(a, b), 5),
        lambda a, b: torch.fft.irfft(torch.complex(a, b), 5),
        same(2),
    ),
    "rfft2": (ops.rfft2, torch.fft.rfft2, images),
    "fftshift": (ops.fftshift, torch.fft.fftshift, unary()),
    "complex_division": (
        lambda a, b: ops.complex(a, b) / ops.complex(b, a) * (2 + 1j),
        lambda a, b: torch.complex(a, b) / torch.complex(b, a) * (2 + 1j),
        same(2, 0.2),
    ),
    "complex_abs_and_angle": (
        lambda a, b: ops.abs(ops.complex(a, b)) * ops.angle(ops.complex(a, b)),
        lambda a, b: torch.complex(a, b).abs() * torch.complex(a, b).angle(),
        same(2),
    ),
    "group_norm": (lambda x: ops.group_norm(x, 2), lambda x: F.group_norm(x, 2), images),
    "instance_norm": (ops.instance_norm, F.instance_norm, images),
    "local_response_norm": (
        lambda x: ops.local_response_norm(x, 3, 0.1, 0.7, 2.0),
        lambda x: F.local_response_norm(x, 3, 0.1, 0.7, 2.0),
        images,
    ),
    "normalize": (lambda x: ops.normalize(x, axis=-1), lambda x: F.normalize(x, dim=-1), unary()),
    "cross_entropy_weighted": (
        lambda x, y, w: ops.cross_entropy(x, y, weight=w.detach(), label_smoothing=0.2, ignore_index=1),
        lambda x, y, w: F.cross_entropy(x, y, weight=w.detach(), label_smoothing=0.2, ignore_index=1),
        lambda d: [d.real(5, 4), np.array([0, 1, 2, 3, 2]), d.real(4, low=0.2)],
    ),
    "cross_entropy_of_images": (
        lambda x, y: ops.cross_entropy(x, y, axis=1, reduction="none"),
        lambda x, y: F.cross_entropy(x, y, reduction="none"),
        lambda d: [d.real(d.n, 4, d.m), d.whole(4, d.n, d.m)],
    ),
    "cross_entropy_soft": (
        lambda x, y: ops.cross_entropy(x, ops.softmax(y), label_smoothing=0.1),
        lambda x, y: F.cross_entropy(x, F.softmax(y, 1), label_smoothing=0.1),
        lambda d: [d.real(d.n, 4), d.real(d.n, 4)],
    ),
    "nll_weighted": (
        lambda x, y, w: ops.nll(x, y, weight=w.detach(), ignore_index=1),
        lambda x, y, w: F.nll_loss(x, y, weight=w.detach(), ignore_index=1),
        lambda d: [d.real(5, 4), np.array([0, 1, 2, 3, 2]), d.real(4, low=0.2)],
    ),
    "bce": (ops.bce, F.binary_cross_entropy, same(2, 0.05, 0.95)),
    "bce_with_logits": (
        lambda x, y, w: ops.bce_with_logits(x, y, pos_weight=w.detach()),
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w.detach()),
        same(3, 0.05, 0.95),
    ),
    "kl_div": (
        lambda a, b: ops.kl_div(a, b, reduction="sum"),
        lambda a, b: F.kl_div(a, b, reduction="sum"),
        same(2, 0.1, 0.9),
    ),
    "soft_margin": (
        lambda a, b: ops.soft_margin_loss(a, b.detach()),
        lambda a, b: F.soft_margin_loss(a, b.detach()),
        same(2),
    ),
    "cosine_embedding": (
        lambda a, b: ops.cosine_embedding_loss(a, b, Tensor(np.array([1, -1, 1])), margin=0.1),
        lambda a, b: F.cosine_embedding_loss(a, b, torch.tensor([1, -1, 1]), margin=0.1),
        lambda d: [d.real(3, 4), d.real(3, 4)],
    ),
    "hinge_embedding": (
        lambda x: ops.hinge_embedding_loss(x, Tensor(np.array([1, -1, 1]))),
        lambda x: F.hinge_embedding_loss(x, torch.tensor([1, -1, 1])),
        lambda d: [d.real(3)],
    ),
    "multi_margin": (ops.multi_margin_loss, F.multi_margin_loss, lambda d: [d.real(d.n, d.m), d.whole(d.m, d.n)]),
    "triplet_swapped": (
        lambda *x: ops.triplet_margin_loss(*x, swap=True, margin=0.5),
        lambda *x: F.triplet_margin_loss(*x, swap=True, margin=0.5),
        lambda d: [d.real(d.n, d.m) for _ in range(3)],
    ),
    "ctc": (
        lambda x, y: ops.ctc_loss(ops.log_softmax(x), y, Tensor([7, 5]), Tensor([3, 1])),
        lambda x, y: F.ctc_loss(F.log_softmax(x, -1), y, torch.tensor([7, 5]), torch.tensor([3, 1])),
        lambda d: [d.real(7, 2, 4), 1 + d.whole(3, 2, 3)],
    ),
    "attention": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda d: [d.real(2, d.k, 70 + d.n, 8) for _ in range(3)],
    ),
    "attention_of_shared_heads": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda d: [d.real(2, 4, 9, 8), d.real(2, 2, 5, 8), d.real(2, 2, 5, 3)],
    ),
    "attention_with_a_bias": (
        lambda q, k, v, b: ops.scaled_dot_product_attention(q, k, v, mask=b),
        lambda q, k, v, b: F.scaled_dot_product_attention(q, k, v, attn_mask=b),
        lambda d: [d.real(2, 3, 6, 4), d.real(2, 3, 5, 4), d.real(2, 3, 5, 4), d.real(6, 5)],
    ),
}
for _name, _arrays in SAME_NAME.items():
    CASES[_name] = (getattr(ops, _name), getattr(torch, _name), _arrays)
for _name, _arrays in FUNCTIONAL.items():
    CASES[_name] = (getattr(ops, _name), getattr(F, _name), _arrays)


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_torch(name, seed):
    mine, theirs, arrays = CASES[name]
    given = arrays(Draw(seed * 1000 + len(name)))
    xs = [Tensor(a.copy(), requires_grad=is_inexact(a.dtype)) for a in given]
    ts = [torch.tensor(a, requires_grad=is_inexact(a.dtype)) for a in given]
    y, t = mine(*xs), theirs(*ts)
    np.testing.assert_allclose(y.numpy(), t.detach().numpy(), rtol=1e-9, atol=1e-10)
    if not t.requires_grad or not y.requires_grad:
        assert not y.requires_grad  # what has no gradient here has none, or only zeros, there
        return
    weight = np.random.default_rng(3).standard_normal(y.shape).astype(y.dtype)
    y.backward(Tensor(weight))
    t.backward(torch.tensor(weight))
    for x, s in zip(xs, ts, strict=True):
        if s.grad is None:
            continue
        if x.grad is None:
            assert not s.grad.any()
            continue
        np.testing.assert_allclose(x.grad.numpy(), s.grad.numpy(), rtol=1e-7, atol=1e-8)
