"""A mixture of experts without dropped tokens."""

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import (
    argsort,
    bincount,
    floor_divide,
    gather,
    gelu,
    grouped_matmul,
    logsumexp,
    mean,
    relu,
    scatter_add,
    silu,
    softmax,
    square,
    topk,
)
from ..random import Key, split
from ..tensor import Parameter, Tensor
from .basic_layers import Dense
from .cell import Cell
from .initializers import HeUniform, Initializer, Normal
from .parameters import keys_for, positive

Activation = Literal["swiglu", "gelu", "relu", "silu"]

_ACTIVATIONS = {"swiglu": silu, "gelu": gelu, "relu": relu, "silu": silu}


class MixtureOfExperts(Cell):
    """Every token goes through the `top_k` feed-forward parts that a router finds best for it, weighted by its belief.

    No token is dropped and none is padded: the tokens are sorted by their experts, and each expert multiplies the run
    that is its own. `balance_loss`, to be added to the loss with a factor of about 0.01, is 1 when the router spreads
    tokens and belief evenly, and up to the number of experts when all go to one.

    Args:
        width: Length of the last axis.
        hidden: Length inside an expert.
        experts: How many there are.
        top_k: How many a token goes through.
        activation: `swiglu` (gated, three matrices an expert), `gelu`, `relu` or `silu` (two).
        normalizes_gates: Whether the weights of a token's experts are made to add up to 1.
        router_init: First weights of the router; normal with standard deviation 0.02 by default.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        `(..., width) -> (..., width)` and two numbers: the loss of balance and that of the router's logits.

    Reference:
        Shazeer et al. 2017, arXiv:1701.06538; Gale et al. 2023, arXiv:2211.15841 (no dropping); Fedus et al. 2022,
        arXiv:2101.03961, eq. 4 (balance); Zoph et al. 2022, arXiv:2202.08906, eq. 5 (logits).
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        experts: int,
        top_k: int = 2,
        activation: Activation = "swiglu",
        *,
        normalizes_gates: bool = True,
        router_init: Initializer | None = None,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, width=width, hidden=hidden, experts=experts, top_k=top_k)
        if top_k > experts:
            raise ValueError(f"MixtureOfExperts expects top_k of at most {experts} experts, got {top_k}")
        if activation not in _ACTIVATIONS:
            raise ValueError(
                f"MixtureOfExperts expects activation to be one of {', '.join(_ACTIVATIONS)}, got {activation!r}"
            )
        self.width, self.experts, self.top_k = width, experts, top_k
        self.activation, self.normalizes_gates = activation, normalizes_gates
        of_router, of_gate, of_up, of_down = keys_for(key, 4)
        self.router = Dense(
            width, experts, weight_init=router_init or Normal(0.02), has_bias=False, key=of_router, dtype=dtype
        )
        self.gate: Parameter | None = None
        if activation == "swiglu":
            self.gate = _matrices(experts, width, hidden, of_gate, dtype)
        self.up = _matrices(experts, width, hidden, of_up, dtype)
        self.down = _matrices(experts, hidden, width, of_down, dtype)

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the output, the loss of balance and the loss of the logits."""
        if x.ndim < 1 or x.shape[-1] != self.width:
            raise ShapeError(f"MixtureOfExperts expects input (..., {self.width}), got {x.shape}")
        tokens = x.reshape(-1, self.width)
        logits = self.router(tokens)
        belief = softmax(logits, -1)
        gates, chosen = topk(belief, self.top_k, -1)
        if self.normalizes_gates:
            gates = gates / gates.sum(-1, keepdims=True)
        chosen = chosen.reshape(-1)
        order = argsort(chosen)
        counts = bincount(chosen, self.experts)
        of_token = floor_divide(order, self.top_k)
        outputs = self._experts(gather(tokens, of_token), counts)
        weighted = outputs * gather(gates.reshape(-1), order).reshape(-1, 1)
        y = scatter_add(weighted, of_token, tokens.shape[0]).reshape(x.shape)
        share = counts.astype(belief.dtype) / chosen.shape[0]
        balance = (share * mean(belief, 0)).sum() * self.experts
        return y, balance, mean(square(logsumexp(logits, -1)))

    def _experts(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Return what the experts make of the rows, which are sorted by them."""
        up = grouped_matmul(rows, self.up, counts)
        if self.gate is None:
            inner = _ACTIVATIONS[self.activation](up)
        else:
            inner = silu(grouped_matmul(rows, self.gate, counts)) * up
        return grouped_matmul(inner, self.down, counts)

    def describe(self) -> str:
        """Return width, experts and how many a token goes through."""
        return f"{self.width}, experts={self.experts}, top_k={self.top_k}"


def _matrices(count: int, rows: int, columns: int, key: Key, dtype: DTypeLike) -> Parameter:
    """Return a matrix `(in, out)` for each expert, drawn as the weight of a `Dense` is."""
    draw = HeUniform(5.0**0.5)
    drawn = [draw((columns, rows), of_one, dtype).T for of_one in split(key, count)]
    return Parameter(np.ascontiguousarray(np.stack(drawn)))
