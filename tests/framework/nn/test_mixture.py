"""A mixture of experts against a loop over tokens; balance in its closed forms."""

import numpy as np
import pytest
from mindscope.framework import Key, ShapeError, Tensor, nn


def layer(**options):
    arguments = {"router_init": nn.Normal(1.0), "key": Key(3), "dtype": np.float64, **options}
    return nn.MixtureOfExperts(4, 6, 5, **arguments)


def by_token(moe, tokens):
    """Each token by itself through each of its experts."""
    out = np.zeros_like(tokens)
    weights = moe.router.weight.numpy()
    for n, token in enumerate(tokens):
        scores = np.exp(weights @ token)
        belief = scores / scores.sum()
        chosen = sorted(range(moe.experts), key=lambda e: -belief[e])[: moe.top_k]
        total = sum(belief[e] for e in chosen) if moe.normalizes_gates else 1.0
        for e in chosen:
            up = token @ moe.up.numpy()[e]
            if moe.gate is None:
                inner = np.maximum(up, 0.0)
            else:
                gate = token @ moe.gate.numpy()[e]
                inner = gate / (1.0 + np.exp(-gate)) * up
            out[n] += belief[e] / total * (inner @ moe.down.numpy()[e])
    return out


@pytest.mark.parametrize("top_k", [1, 2, 5])
@pytest.mark.parametrize("activation", ["swiglu", "relu"])
@pytest.mark.parametrize("normalizes_gates", [False, True])
def test_every_token_goes_through_its_experts_and_none_is_dropped(top_k, activation, normalizes_gates):
    moe = layer(top_k=top_k, activation=activation, normalizes_gates=normalizes_gates)
    tokens = np.random.default_rng(0).standard_normal((17, 4))
    y, _, _ = moe(Tensor(tokens))
    np.testing.assert_allclose(y.numpy(), by_token(moe, tokens), rtol=1e-10, atol=1e-12)


def test_balance_is_one_when_even_and_the_number_of_experts_when_one_gets_all():
    moe = layer(top_k=5)
    _, balance, _ = moe(Tensor(np.random.default_rng(0).standard_normal((64, 4))))
    assert float(balance) == pytest.approx(1.0)  # every token goes everywhere
    one = layer(top_k=1)
    one.router.weight.set_data(np.array([[100.0] * 4, *[[0.0] * 4] * 4]))
    _, balance, of_logits = one(Tensor(np.ones((9, 4))))
    assert float(balance) == pytest.approx(5.0)
    assert float(of_logits) == pytest.approx(400.0**2)


def test_the_loss_of_balance_pushes_tokens_apart():
    moe = layer(top_k=1)
    x = Tensor(np.random.default_rng(0).standard_normal((64, 4)) + 2.0)
    before = float(moe(x)[1])
    for _ in range(150):
        _, balance, _ = moe(x)
        balance.backward()
        weight = moe.router.weight
        weight.set_data(weight.numpy() - 1.0 * weight.grad.numpy())
        weight.grad = None
    assert before > 1.5
    assert float(moe(x)[1]) < 0.75 * before


def test_what_makes_no_sense_is_refused_in_words():
    with pytest.raises(ValueError, match="top_k of at most 5 experts, got 6"):
        layer(top_k=6)
    with pytest.raises(ValueError, match="one of swiglu, gelu, relu, silu, got 'elu'"):
        layer(activation="elu")
    with pytest.raises(ShapeError, match=r"expects input \(..., 4\), got \(2, 5\)"):
        layer()(Tensor(np.zeros((2, 5))))
