"""The demo's networks: shapes, sites, and that they learn."""

import numpy as np
import pytest
from mindscope.cli.demo.demo_models import ByteTransformer, DigitsCNN
from mindscope.framework import ShapeError, Tensor
from mindscope.framework.nn import Adam, CrossEntropyLoss
from mindscope.framework.train import TrainStep


def _tokens(batch, positions, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (batch, positions))


def test_the_sites_of_the_cnn():
    sites = ["conv1", "act1", "pool1", "conv2", "act2", "pool2", "flatten", "hidden", "act3", "head"]
    assert [site for site, _ in DigitsCNN().cells_and_names()] == ["", *sites]
    assert DigitsCNN()(Tensor(np.zeros((3, 1, 8, 8), np.float32))).shape == (3, 10)


def test_the_sites_of_the_transformer():
    sites = [site for site, _ in ByteTransformer(width=16, heads=2, layers=2, context=8).cells_and_names()]
    assert sites[:4] == ["", "token", "position", "decoder"]
    assert {"decoder.1.attn.q_proj", "decoder.1.mlp.act", "decoder.0.norm2", "norm", "head"} <= set(sites)


@pytest.mark.parametrize("make", [DigitsCNN, lambda seed: ByteTransformer(16, 2, 2, 8, seed=seed)])
def test_a_seed_decides_all_weights(make):
    first, again, other = ([p.numpy() for p in make(seed=seed).get_parameters()] for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_the_transformer_sees_no_byte_that_comes_later(activation):
    model = ByteTransformer(16, 2, 2, 8, activation=activation, dtype=np.float64)
    tokens = _tokens(1, 8)
    changed = tokens.copy()
    changed[0, 5] = (changed[0, 5] + 1) % 256
    before, after = model(Tensor(tokens)).numpy(), model(Tensor(changed)).numpy()
    assert before.shape == (1, 8, 256)
    np.testing.assert_array_equal(before[0, :5], after[0, :5])
    assert not np.allclose(before[0, 5:], after[0, 5:])


def test_a_text_longer_than_the_context_is_refused():
    with pytest.raises(ShapeError, match=r"tokens \(batch, up to 8\), got \(1, 9\)"):
        ByteTransformer(16, 2, 1, 8)(Tensor(_tokens(1, 9)))


def test_both_learn_a_batch_by_heart():
    generator = np.random.default_rng(0)
    images, digits = generator.standard_normal((16, 1, 8, 8)).astype(np.float32), generator.integers(0, 10, 16)
    tokens = _tokens(2, 9)
    for model, x, y in (
        (DigitsCNN(channels=8), images, digits),
        (ByteTransformer(32, 2, 2, 8), tokens[:, :-1], tokens[:, 1:]),
    ):
        step = TrainStep(model, CrossEntropyLoss(), Adam(model.trainable_params(), 1e-2), clip_norm=1.0)
        losses = [float(step(x, y)) for _ in range(60)]
        assert losses[0] > 2.0
        assert losses[-1] < 0.1
