"""One contract for every cell: shapes, gradients, modes, hooks, names, checkpoints.

`CELLS` has a line for each: how to make it in a dtype, and the inputs it is called with.
"""

import copy
import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, no_grad
from mindscope.framework.nn import Cell
from mindscope.framework.serialization import load_checkpoint, save_checkpoint

KEY = Key(7)


@dataclass(frozen=True, slots=True)
class Case:
    make: Any
    inputs: Any
    output: tuple[int, ...]
    is_random: bool = False


def images(*shape):
    return lambda g: (g.standard_normal(shape),)


def rows(*shape):
    return lambda g: (g.standard_normal(shape),)


def logits_and_labels(g):
    return g.standard_normal((4, 3)), np.array([0, 2, 1, 2])


def pair(g):
    return g.standard_normal((4, 3)), g.uniform(0.1, 0.9, (4, 3))


CELLS = {
    "Dense": Case(lambda d: nn.Dense(5, 3, key=KEY, dtype=d), rows(4, 5), (4, 3)),
    "Dense-3d-no-bias": Case(lambda d: nn.Dense(5, 3, has_bias=False, key=KEY, dtype=d), rows(2, 4, 5), (2, 4, 3)),
    "Conv2d-same": Case(lambda d: nn.Conv2d(2, 3, 3, key=KEY, dtype=d), images(2, 2, 5, 4), (2, 3, 5, 4)),
    "Conv2d-same-even": Case(lambda d: nn.Conv2d(2, 3, (2, 4), 2, key=KEY, dtype=d), images(2, 2, 5, 6), (2, 3, 3, 3)),
    "Conv2d-valid": Case(
        lambda d: nn.Conv2d(2, 2, 3, pad_mode="valid", has_bias=False, key=KEY, dtype=d),
        images(1, 2, 5, 5),
        (1, 2, 3, 3),
    ),
    "Conv2d-groups": Case(
        lambda d: nn.Conv2d(4, 6, 3, 2, "pad", 2, 2, 2, key=KEY, dtype=d), images(1, 4, 7, 7), (1, 6, 4, 4)
    ),
    "Conv1d": Case(lambda d: nn.Conv1d(2, 3, 3, 2, key=KEY, dtype=d), images(2, 2, 7), (2, 3, 4)),
    "Conv3d": Case(
        lambda d: nn.Conv3d(2, 2, (1, 2, 3), pad_mode="pad", padding=(0, 1, 1), key=KEY, dtype=d),
        images(1, 2, 2, 3, 4),
        (1, 2, 2, 4, 4),
    ),
    "Conv1dTranspose": Case(lambda d: nn.Conv1dTranspose(2, 3, 3, 2, key=KEY, dtype=d), images(2, 2, 4), (2, 3, 8)),
    "Conv2dTranspose": Case(
        lambda d: nn.Conv2dTranspose(4, 2, 3, 2, "pad", 1, group=2, output_padding=1, key=KEY, dtype=d),
        images(1, 4, 3, 4),
        (1, 2, 6, 8),
    ),
    "Conv3dTranspose": Case(
        lambda d: nn.Conv3dTranspose(2, 1, 2, 2, "valid", has_bias=False, key=KEY, dtype=d),
        images(1, 2, 2, 2, 2),
        (1, 1, 4, 4, 4),
    ),
    "GroupNorm": Case(lambda d: nn.GroupNorm(2, 4, dtype=d), images(2, 4, 3, 2), (2, 4, 3, 2)),
    "GroupNorm-plain": Case(lambda d: nn.GroupNorm(2, 6, affine=False, dtype=d), images(3, 6), (3, 6)),
    "InstanceNorm1d": Case(lambda d: nn.InstanceNorm1d(3, dtype=d), images(2, 3, 5), (2, 3, 5)),
    "InstanceNorm2d": Case(lambda d: nn.InstanceNorm2d(2, dtype=d), images(2, 2, 3, 3), (2, 2, 3, 3)),
    "InstanceNorm3d": Case(
        lambda d: nn.InstanceNorm3d(2, affine=False, dtype=d), images(1, 2, 2, 2, 3), (1, 2, 2, 2, 3)
    ),
    "BatchNorm1d": Case(lambda d: nn.BatchNorm1d(3, dtype=d), rows(5, 3), (5, 3)),
    "BatchNorm1d-sequences": Case(lambda d: nn.BatchNorm1d(3, dtype=d), images(4, 3, 2), (4, 3, 2)),
    "BatchNorm3d": Case(lambda d: nn.BatchNorm3d(2, dtype=d), images(2, 2, 2, 1, 3), (2, 2, 2, 1, 3)),
    "MaxPool1d": Case(lambda d: nn.MaxPool1d(3, 2, 1), images(2, 2, 7), (2, 2, 4)),
    "MaxPool3d": Case(lambda d: nn.MaxPool3d(2, 1), images(1, 2, 3, 3, 2), (1, 2, 2, 2, 1)),
    "AvgPool1d": Case(lambda d: nn.AvgPool1d(2, ceil_mode=True), images(2, 2, 5), (2, 2, 3)),
    "AvgPool3d": Case(lambda d: nn.AvgPool3d((1, 2, 2)), images(1, 2, 2, 4, 2), (1, 2, 2, 2, 1)),
    "Dropout1d": Case(lambda d: nn.Dropout1d(0.4), images(4, 6, 3), (4, 6, 3), is_random=True),
    "Dropout2d": Case(lambda d: nn.Dropout2d(0.4), images(4, 6, 2, 2), (4, 6, 2, 2), is_random=True),
    "Dropout3d": Case(lambda d: nn.Dropout3d(0.4), images(4, 6, 1, 2, 2), (4, 6, 1, 2, 2), is_random=True),
    "LayerNorm-two-axes": Case(lambda d: nn.LayerNorm((2, 3), dtype=d), rows(4, 2, 3), (4, 2, 3)),
    "RMSNorm-two-axes": Case(lambda d: nn.RMSNorm((2, 3), dtype=d), rows(4, 2, 3), (4, 2, 3)),
    "LayerNorm": Case(lambda d: nn.LayerNorm(6, dtype=d), rows(3, 6), (3, 6)),
    "RMSNorm": Case(lambda d: nn.RMSNorm((6,), dtype=d), rows(2, 3, 6), (2, 3, 6)),
    "BatchNorm2d": Case(lambda d: nn.BatchNorm2d(3, dtype=d), images(4, 3, 2, 2), (4, 3, 2, 2)),
    "MaxPool2d": Case(lambda d: nn.MaxPool2d(2), images(2, 2, 4, 6), (2, 2, 2, 3)),
    "AvgPool2d": Case(lambda d: nn.AvgPool2d(3, 2, 1), images(2, 2, 5, 5), (2, 2, 3, 3)),
    "GlobalAvgPool2d": Case(lambda d: nn.GlobalAvgPool2d(), images(2, 3, 4, 4), (2, 3)),
    "Dropout": Case(lambda d: nn.Dropout(0.4), rows(6, 8), (6, 8), is_random=True),
    "Embedding": Case(
        lambda d: nn.Embedding(9, 4, key=KEY, dtype=d), lambda g: (np.array([[1, 8, 1], [0, 3, 1]]),), (2, 3, 4)
    ),
    "Flatten": Case(lambda d: nn.Flatten(), rows(2, 3, 4), (2, 12)),
    "MultiHeadSelfAttention": Case(
        lambda d: nn.MultiHeadSelfAttention(8, 2, key=KEY, dtype=d), rows(2, 3, 8), (2, 3, 8)
    ),
    "MultiHeadSelfAttention-fused": Case(
        lambda d: nn.MultiHeadSelfAttention(8, 4, is_fused=True, is_causal=False, dropout=0.3, key=KEY, dtype=d),
        rows(2, 3, 8),
        (2, 3, 8),
        is_random=True,
    ),
    "GroupedQueryAttention": Case(
        lambda d: nn.GroupedQueryAttention(8, 4, 2, rope=nn.RotaryEmbedding(2, 8), dropout=0.3, key=KEY, dtype=d),
        rows(2, 3, 8),
        (2, 3, 8),
        is_random=True,
    ),
    "MultiheadAttention": Case(
        lambda d: nn.MultiheadAttention(8, 2, kdim=5, vdim=6, key=KEY, dtype=d),
        lambda g: (g.standard_normal((3, 2, 8)), g.standard_normal((4, 2, 5)), g.standard_normal((4, 2, 6))),
        (3, 2, 8),
    ),
    "MixtureOfExperts": Case(
        lambda d: nn.MixtureOfExperts(4, 6, 5, router_init=nn.Normal(1.0), key=KEY, dtype=d), rows(2, 7, 4), (2, 7, 4)
    ),
    "MixtureOfExperts-one-gelu": Case(
        lambda d: nn.MixtureOfExperts(
            4, 3, 2, 1, "gelu", normalizes_gates=False, router_init=nn.Normal(1.0), key=KEY, dtype=d
        ),
        rows(6, 4),
        (6, 4),
    ),
    "RotaryEmbedding": Case(lambda d: nn.RotaryEmbedding(4, 8), rows(2, 5, 4), (2, 5, 4)),
    "SwiGLU": Case(lambda d: nn.SwiGLU(4, key=KEY, dtype=d), rows(2, 3, 4), (2, 3, 4)),
    "TransformerEncoderLayer": Case(
        lambda d: nn.TransformerEncoderLayer(8, 2, 6, 0.2, key=KEY, dtype=d), rows(3, 2, 8), (3, 2, 8), is_random=True
    ),
    "TransformerEncoder": Case(
        lambda d: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 6, 0.0, "gelu", norm_first=True, key=KEY, dtype=d),
            2,
            nn.LayerNorm(4, dtype=d),
        ),
        rows(3, 2, 4),
        (3, 2, 4),
    ),
    "TransformerDecoderLayer": Case(
        lambda d: nn.TransformerDecoderLayer(8, 2, 6, 0.0, norm_first=True, key=KEY, dtype=d),
        lambda g: (g.standard_normal((3, 2, 8)), g.standard_normal((4, 2, 8))),
        (3, 2, 8),
    ),
    "TransformerDecoder": Case(
        lambda d: nn.TransformerDecoder(
            lambda: nn.TransformerDecoderLayer(4, 2, 6, 0.2, batch_first=True, key=KEY, dtype=d), 2
        ),
        lambda g: (g.standard_normal((2, 3, 4)), g.standard_normal((2, 5, 4))),
        (2, 3, 4),
        is_random=True,
    ),
    "TransformerBlock-llama": Case(
        lambda d: nn.TransformerBlock(
            8, 4, activation="swiglu", norm="rms", kv_heads=2, rope=nn.RotaryEmbedding(2, 8), key=KEY, dtype=d
        ),
        rows(2, 3, 8),
        (2, 3, 8),
    ),
    "FeedForward": Case(lambda d: nn.FeedForward(4, 6, "silu", key=KEY, dtype=d), rows(2, 3, 4), (2, 3, 4)),
    "TransformerBlock": Case(lambda d: nn.TransformerBlock(8, 2, 12, key=KEY, dtype=d), rows(2, 3, 8), (2, 3, 8)),
    "TransformerBlock-rms": Case(
        lambda d: nn.TransformerBlock(8, 2, 12, "relu", norm="rms", dropout=0.2, key=KEY, dtype=d),
        rows(2, 3, 8),
        (2, 3, 8),
        is_random=True,
    ),
    "SequentialCell": Case(
        lambda d: nn.SequentialCell(nn.Dense(4, 5, key=KEY, dtype=d), nn.Tanh(), nn.Dense(5, 2, key=KEY, dtype=d)),
        rows(3, 4),
        (3, 2),
    ),
    "ReLU": Case(lambda d: nn.ReLU(), rows(3, 4), (3, 4)),
    "LeakyReLU": Case(lambda d: nn.LeakyReLU(), rows(3, 4), (3, 4)),
    "GELU": Case(lambda d: nn.GELU(), rows(3, 4), (3, 4)),
    "GELU-exact": Case(lambda d: nn.GELU(approximate=False), rows(3, 4), (3, 4)),
    "SiLU": Case(lambda d: nn.SiLU(), rows(3, 4), (3, 4)),
    "Sigmoid": Case(lambda d: nn.Sigmoid(), rows(3, 4), (3, 4)),
    "Tanh": Case(lambda d: nn.Tanh(), rows(3, 4), (3, 4)),
    "Softmax": Case(lambda d: nn.Softmax(), rows(3, 4), (3, 4)),
    "LogSoftmax": Case(lambda d: nn.LogSoftmax(0), rows(3, 4), (3, 4)),
    "ReLU6": Case(lambda d: nn.ReLU6(), rows(3, 4), (3, 4)),
    "ELU": Case(lambda d: nn.ELU(0.7), rows(3, 4), (3, 4)),
    "CELU": Case(lambda d: nn.CELU(), rows(3, 4), (3, 4)),
    "SELU": Case(lambda d: nn.SELU(), rows(3, 4), (3, 4)),
    "HSigmoid": Case(lambda d: nn.HSigmoid(), rows(3, 4), (3, 4)),
    "HSwish": Case(lambda d: nn.HSwish(), rows(3, 4), (3, 4)),
    "Hardtanh": Case(lambda d: nn.Hardtanh(-0.5, 0.8), rows(3, 4), (3, 4)),
    "Mish": Case(lambda d: nn.Mish(), rows(3, 4), (3, 4)),
    "Softplus": Case(lambda d: nn.Softplus(2.0), rows(3, 4), (3, 4)),
    "Softsign": Case(lambda d: nn.Softsign(), rows(3, 4), (3, 4)),
    "LogSigmoid": Case(lambda d: nn.LogSigmoid(), rows(3, 4), (3, 4)),
    "Threshold": Case(lambda d: nn.Threshold(0.1, 3.0), rows(3, 4), (3, 4)),
    "HShrink": Case(lambda d: nn.HShrink(), rows(3, 4), (3, 4)),
    "SoftShrink": Case(lambda d: nn.SoftShrink(), rows(3, 4), (3, 4)),
    "Tanhshrink": Case(lambda d: nn.Tanhshrink(), rows(3, 4), (3, 4)),
    "Softmin": Case(lambda d: nn.Softmin(), rows(3, 4), (3, 4)),
    "Identity": Case(lambda d: nn.Identity(), rows(3, 4), (3, 4)),
    "PReLU": Case(lambda d: nn.PReLU(dtype=d), rows(3, 4), (3, 4)),
    "PReLU-channels": Case(lambda d: nn.PReLU(4, dtype=d), rows(3, 4), (3, 4)),
    "GLU": Case(lambda d: nn.GLU(), rows(3, 4), (3, 2)),
    "AdaptiveAvgPool1d": Case(lambda d: nn.AdaptiveAvgPool1d(3), images(2, 2, 7), (2, 2, 3)),
    "AdaptiveAvgPool2d": Case(lambda d: nn.AdaptiveAvgPool2d((2, 3)), images(2, 2, 5, 4), (2, 2, 2, 3)),
    "AdaptiveAvgPool3d": Case(lambda d: nn.AdaptiveAvgPool3d(2), images(1, 2, 3, 4, 2), (1, 2, 2, 2, 2)),
    "AdaptiveMaxPool1d": Case(lambda d: nn.AdaptiveMaxPool1d(3), images(2, 2, 7), (2, 2, 3)),
    "AdaptiveMaxPool2d": Case(lambda d: nn.AdaptiveMaxPool2d((2, 3)), images(2, 2, 5, 4), (2, 2, 2, 3)),
    "AdaptiveMaxPool3d": Case(lambda d: nn.AdaptiveMaxPool3d(2), images(1, 2, 3, 4, 2), (1, 2, 2, 2, 2)),
    "RNN": Case(lambda d: nn.RNN(3, 4, key=KEY, dtype=d, nonlinearity="relu"), rows(5, 2, 3), (5, 2, 4)),
    "GRU": Case(lambda d: nn.GRU(3, 4, key=KEY, dtype=d), rows(5, 2, 3), (5, 2, 4)),
    "LSTM": Case(lambda d: nn.LSTM(3, 4, key=KEY, dtype=d), rows(5, 2, 3), (5, 2, 4)),
    "LSTM-deep": Case(
        lambda d: nn.LSTM(3, 4, 2, batch_first=True, dropout=0.3, bidirectional=True, key=KEY, dtype=d),
        rows(2, 5, 3),
        (2, 5, 8),
        is_random=True,
    ),
    "RNNCell": Case(
        lambda d: nn.RNNCell(3, 4, key=KEY, dtype=d),
        lambda g: (g.standard_normal((2, 3)), g.standard_normal((2, 4))),
        (2, 4),
    ),
    "GRUCell": Case(lambda d: nn.GRUCell(3, 4, has_bias=False, key=KEY, dtype=d), rows(2, 3), (2, 4)),
    "LSTMCell": Case(lambda d: nn.LSTMCell(3, 4, key=KEY, dtype=d), rows(2, 3), (2, 4)),
    "BCELoss": Case(lambda d: nn.BCELoss(), lambda g: tuple(g.uniform(0.1, 0.9, (2, 4, 3))), ()),
    "KLDivLoss": Case(lambda d: nn.KLDivLoss("sum", log_target=True), pair, ()),
    "CTCLoss": Case(
        lambda d: nn.CTCLoss(),
        lambda g: (g.standard_normal((5, 2, 4)), np.array([[1, 2], [3, 0]]), np.array([5, 4]), np.array([2, 1])),
        (),
    ),
    "L1Loss": Case(lambda d: nn.L1Loss(), pair, ()),
    "SmoothL1Loss": Case(lambda d: nn.SmoothL1Loss(0.5, "none"), pair, (4, 3)),
    "HuberLoss": Case(lambda d: nn.HuberLoss("sum", 0.5), pair, ()),
    "PoissonNLLLoss": Case(lambda d: nn.PoissonNLLLoss(), pair, ()),
    "GaussianNLLLoss": Case(
        lambda d: nn.GaussianNLLLoss(full=True),
        lambda g: (*g.standard_normal((2, 4, 3)), g.uniform(0.5, 2.0, (4, 3))),
        (),
    ),
    "CosineEmbeddingLoss": Case(
        lambda d: nn.CosineEmbeddingLoss(0.1), lambda g: (*g.standard_normal((2, 4, 3)), np.array([1, -1, 1, -1])), ()
    ),
    "HingeEmbeddingLoss": Case(
        lambda d: nn.HingeEmbeddingLoss(), lambda g: (g.standard_normal(4), np.array([1, -1, 1, -1])), ()
    ),
    "MarginRankingLoss": Case(
        lambda d: nn.MarginRankingLoss(0.5), lambda g: (*g.standard_normal((2, 4)), np.array([1, -1, 1, -1])), ()
    ),
    "MultiMarginLoss": Case(lambda d: nn.MultiMarginLoss(2), logits_and_labels, ()),
    "SoftMarginLoss": Case(
        lambda d: nn.SoftMarginLoss(), lambda g: (g.standard_normal(4), np.array([1, -1, 1, -1])), ()
    ),
    "TripletMarginLoss": Case(
        lambda d: nn.TripletMarginLoss(swap=True), lambda g: tuple(g.standard_normal((3, 4, 3))), ()
    ),
    "CrossEntropyLoss-weighted": Case(
        lambda d: nn.CrossEntropyLoss(weight=np.array([1.0, 0.5, 2.0], d), axis=1), logits_and_labels, ()
    ),
    "CrossEntropyLoss": Case(lambda d: nn.CrossEntropyLoss(label_smoothing=0.1), logits_and_labels, ()),
    "MSELoss": Case(lambda d: nn.MSELoss(), pair, ()),
    "BCEWithLogitsLoss": Case(lambda d: nn.BCEWithLogitsLoss("sum"), pair, ()),
    "NLLLoss": Case(lambda d: nn.NLLLoss("none"), logits_and_labels, (4,)),
}
#: Cells that do nothing by themselves.
WITHOUT_CASE = {"Cell", "CellList", "GraphCell"}
every_cell = pytest.mark.parametrize("case", CELLS.values(), ids=CELLS)
MODES = pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])


def make(case, dtype=np.float64, *, training=False):
    return case.make(dtype).set_train(training)


def inputs_of(case, dtype=np.float64, *, requires_grad=False):
    arrays = case.inputs(np.random.default_rng(5))
    return tuple(
        Tensor(a.astype(dtype), requires_grad=requires_grad) if a.dtype.kind == "f" else Tensor(a) for a in arrays
    )


def fix_masks(cell):
    """Every dropout draws the masks of its first call again."""
    for number, (_, child) in enumerate(cell.cells_and_names()):
        if isinstance(child, nn.Dropout):
            child.key, child.calls = Key(number), 0


def shape_of(gradient):
    return None if gradient is None else gradient.shape


def first(output):
    """The output, or the first of several."""
    return output[0] if isinstance(output, tuple) else output


def weighted(cell, inputs):
    fix_masks(cell)
    out = first(cell(*inputs))
    weights = np.random.default_rng(9).standard_normal(out.shape)
    return (out * Tensor(weights)).sum()


def test_every_cell_of_the_catalogue_has_a_case():
    cells = {name for name in nn.__all__ if inspect.isclass(getattr(nn, name)) and issubclass(getattr(nn, name), Cell)}
    assert cells - WITHOUT_CASE == {name.partition("-")[0] for name in CELLS}


@every_cell
@MODES
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shape_and_dtype_of_the_output(case, training, dtype):
    out = first(make(case, dtype, training=training)(*inputs_of(case, dtype)))
    assert out.shape == case.output
    assert out.dtype == dtype


@every_cell
@MODES
def test_gradients_of_inputs_and_parameters_are_those_of_finite_differences(case, training):
    cell = make(case, training=training)
    inputs = inputs_of(case, requires_grad=True)
    weighted(cell, inputs).backward()
    leaves = [x for x in inputs if x.requires_grad] + cell.trainable_params()
    generator = np.random.default_rng(3)
    for leaf in leaves:
        direction = generator.standard_normal(leaf.shape)
        values, step = leaf.asnumpy(), 1e-6
        with no_grad():
            leaf.copy_(values + step * direction)
            above = weighted(cell, inputs).item()
            leaf.copy_(values - step * direction)
            below = weighted(cell, inputs).item()
            leaf.copy_(values)
        expected = (above - below) / (2 * step)
        found = 0.0 if leaf.grad is None else float((leaf.grad.numpy() * direction).sum())
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)


@every_cell
@MODES
def test_the_same_cell_gives_the_same_output_and_evaluation_is_deterministic(case, training):
    cell = make(case, training=training)
    outputs = []
    for _ in range(2):
        fix_masks(cell)
        outputs.append(first(cell(*inputs_of(case))).numpy())
    np.testing.assert_array_equal(*outputs)
    if case.is_random and training:
        fix_masks(cell)
        masks = [first(cell(*inputs_of(case))).numpy() for _ in range(2)]
        assert not np.array_equal(*masks)


@every_cell
@MODES
def test_hooks_of_all_kinds_see_the_call_and_change_no_bit(case, training):
    plain, hooked = make(case, training=training), make(case, training=training)
    seen = []
    handles = [
        hooked.register_forward_pre_hook(lambda c, i: seen.append(("pre", len(i)))),
        hooked.register_forward_hook(lambda c, i, o: seen.append(("forward", first(o).shape))),
        hooked.register_backward_pre_hook(lambda c, go: seen.append(("backward_pre", go[0].shape))),
        hooked.register_backward_hook(lambda c, gi, go: seen.append(("backward", [shape_of(g) for g in gi]))),
    ]
    gradients = []
    for cell in (plain, hooked):
        inputs = inputs_of(case, requires_grad=True)
        weighted(cell, inputs).backward()
        gradients.append([x.grad for x in (*inputs, *cell.get_parameters())])
    count = len(inputs)
    assert seen == [
        ("pre", count),
        ("forward", case.output),
        ("backward_pre", case.output),
        ("backward", [x.shape if x.requires_grad else None for x in inputs]),
    ]
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    for handle in handles:
        handle.remove()
    seen.clear()
    weighted(hooked, inputs_of(case, requires_grad=True)).backward()
    assert not seen


@every_cell
def test_a_checkpoint_of_the_cell_comes_back_bit_for_bit(case, tmp_path):
    cell, other = make(case, np.float32), make(case, np.float32)
    for number, parameter in enumerate(cell.get_parameters()):
        parameter.set_data(np.random.default_rng(number).uniform(0.5, 1.5, parameter.shape).astype(np.float32))
    save_checkpoint(cell, tmp_path / "cell.safetensors")
    load_checkpoint(tmp_path / "cell.safetensors", other)
    fix_masks(cell)
    fix_masks(other)
    inputs = inputs_of(case, np.float32)
    np.testing.assert_array_equal(first(cell(*inputs)).numpy(), first(other(*inputs)).numpy())


@every_cell
def test_names_are_dotted_and_each_parameter_knows_its_own(case):
    outer = nn.SequentialCell(make(case))
    for site, cell in outer.cells_and_names():
        assert isinstance(cell, Cell)
        assert site == "" or all(site.split("."))
    for site, parameter in outer.parameters_and_names():
        assert site.startswith("0.")
        assert parameter.name == site
    assert repr(outer).startswith("SequentialCell(\n  (0): ")


@every_cell
def test_a_deep_copy_shares_nothing(case):
    cell = make(case, np.float32)
    twin = copy.deepcopy(cell)
    inputs = inputs_of(case, np.float32)
    fix_masks(cell)
    fix_masks(twin)
    np.testing.assert_array_equal(first(cell(*inputs)).numpy(), first(twin(*inputs)).numpy())
    for a, b in zip(cell.get_parameters(), twin.get_parameters(), strict=True):
        assert a is not b
        assert not np.shares_memory(a.numpy(), b.numpy())


@every_cell
def test_modes_reach_every_cell_below(case):
    outer = nn.SequentialCell(make(case))
    assert not any(cell.training for _, cell in outer.cells_and_names())
    assert outer.set_train() is outer
    assert all(cell.training for _, cell in outer.cells_and_names())
    outer.set_train(False)
    assert not any(cell.training for _, cell in outer.cells_and_names())
