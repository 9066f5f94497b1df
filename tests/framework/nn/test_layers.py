"""What single layers promise beyond the contract: independent formulas, PyTorch as a witness, refusals in words."""

import numpy as np
import pytest
from mindscope.framework import DtypeError, Key, ShapeError, Tensor, nn

try:
    import torch
except ModuleNotFoundError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed; it is the second witness")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_dense_is_a_product_and_a_sum():
    layer = nn.Dense(3, 2, key=Key(0), dtype=np.float64)
    x = normal(4, 3)
    np.testing.assert_allclose(
        layer(Tensor(x)).numpy(), x @ layer.weight.numpy().T + layer.bias.numpy(), rtol=1e-13, atol=1e-15
    )


def test_layer_norm_of_a_constant_row_is_its_bias():
    layer = nn.LayerNorm(4)
    layer.bias.set_data(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(layer(Tensor(np.full((2, 4), 7.0, np.float32))).numpy(), [[0, 1, 2, 3]] * 2)


def test_batch_norm_uses_the_batch_in_training_and_follows_it():
    layer = nn.BatchNorm2d(2, momentum=0.75, dtype=np.float64)
    x = normal(5, 2, 3, 3) * 4.0 + 1.0
    y = layer.set_train()(Tensor(x)).numpy()
    np.testing.assert_allclose(y.mean((0, 2, 3)), 0.0, atol=1e-12)
    np.testing.assert_allclose(y.var((0, 2, 3)), 1.0, rtol=1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.25 * x.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.75 + 0.25 * x.var((0, 2, 3), ddof=1), rtol=1e-12)
    before = layer.running_mean.asnumpy()
    layer.set_train(False)(Tensor(x))
    np.testing.assert_array_equal(layer.running_mean.numpy(), before)
    assert not layer.running_mean.requires_grad


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation"), [(7, 3, 1, 1), (7, 3, 2, 1), (8, 2, 1, 1), (8, 4, 3, 2), (5, 1, 2, 1)]
)
def test_same_padding_gives_one_pixel_per_stride(size, kernel, stride, dilation):
    layer = nn.Conv2d(1, 1, kernel, stride, dilation=dilation, key=Key(0))
    assert layer(Tensor(np.zeros((1, 1, size, size), np.float32))).shape[2:] == (-(-size // stride),) * 2


def test_dropout_keeps_the_mean_and_draws_anew_each_call():
    layer = nn.Dropout(0.25, key=Key(2)).set_train()
    x = Tensor(np.ones(20_000, np.float32))
    first, second = layer(x).numpy(), layer(x).numpy()
    assert set(np.unique(first)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert first.mean() == pytest.approx(1.0, abs=0.02)
    assert (first == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert not np.array_equal(first, second)
    assert layer.set_train(False)(x) is x


def test_a_causal_position_does_not_see_what_comes_after_it():
    layer = nn.MultiHeadSelfAttention(8, 2, key=Key(1), dtype=np.float64)
    x = normal(1, 5, 8)
    changed = x.copy()
    changed[0, 3] += 1.0
    before, after = layer(Tensor(x)).numpy(), layer(Tensor(changed)).numpy()
    np.testing.assert_array_equal(before[0, :3], after[0, :3])
    assert not np.allclose(before[0, 3:], after[0, 3:])


def test_one_projection_or_three_give_the_same_attention():
    apart = nn.MultiHeadSelfAttention(8, 2, key=Key(1), dtype=np.float64)
    fused = nn.MultiHeadSelfAttention(8, 2, is_fused=True, dtype=np.float64)
    for kind in ("weight", "bias"):
        parts = [getattr(getattr(apart, name), kind).numpy() for name in ("q_proj", "k_proj", "v_proj")]
        getattr(fused.qkv_proj, kind).set_data(np.concatenate(parts))
        getattr(fused.out_proj, kind).set_data(getattr(apart.out_proj, kind).numpy())
    x = Tensor(normal(2, 4, 8))
    np.testing.assert_allclose(apart(x).numpy(), fused(x).numpy(), rtol=1e-12, atol=1e-14)


def test_embedding_gradients_add_up_over_repeated_indices():
    layer = nn.Embedding(4, 2, key=Key(0), dtype=np.float64)
    layer(Tensor(np.array([1, 1, 3]))).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy(), [[0, 0], [2, 2], [0, 0], [1, 1]])


@needs_torch
@pytest.mark.parametrize("heads", [1, 4])
def test_attention_agrees_with_pytorch(heads):
    layer = nn.MultiHeadSelfAttention(8, heads, key=Key(4), dtype=np.float64)
    twin = torch.nn.MultiheadAttention(8, heads, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for kind in ("weight", "bias"):
            parts = [getattr(getattr(layer, n), kind).numpy() for n in ("q_proj", "k_proj", "v_proj")]
            getattr(twin, f"in_proj_{kind}").copy_(torch.tensor(np.concatenate(parts)))
            getattr(twin.out_proj, kind).copy_(torch.tensor(getattr(layer.out_proj, kind).asnumpy()))
    x = normal(2, 5, 8)
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    theirs, _ = twin(*[torch.tensor(x)] * 3, attn_mask=mask, need_weights=False)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), theirs.detach().numpy(), rtol=1e-10, atol=1e-12)


@needs_torch
def test_a_strided_grouped_dilated_convolution_agrees_with_pytorch():
    layer = nn.Conv2d(4, 6, (3, 2), (2, 1), "pad", (1, 2), (2, 1), 2, key=Key(3), dtype=np.float64)
    x = normal(2, 4, 9, 7)
    theirs = torch.nn.functional.conv2d(
        torch.tensor(x), *[torch.tensor(p.asnumpy()) for p in (layer.weight, layer.bias)], (2, 1), (1, 2), (2, 1), 2
    )
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), theirs.numpy(), rtol=1e-10, atol=1e-12)


TWINS = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, 2, "pad", 2, 2, 2, key=Key(3), dtype=np.float64), (2, 4, 9)),
    "Conv3d": (lambda: nn.Conv3d(2, 4, (2, 3, 1), 1, "pad", (1, 0, 0), key=Key(3), dtype=np.float64), (2, 2, 3, 4, 2)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4, dtype=np.float64), (3, 4, 5)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, dtype=np.float64), (2, 3, 4, 4)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3, dtype=np.float64), (6, 3)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(3, dtype=np.float64), (2, 3, 2, 2, 2)),
    "LayerNorm": (lambda: nn.LayerNorm((3, 4), dtype=np.float64), (2, 3, 4)),
}


def twin_of(name, layer):
    if name.startswith("Conv"):
        pads = layer.padding
        arguments = (layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, pads, layer.dilation)
        return getattr(torch.nn, name)(*arguments, layer.group)
    sizes = {"GroupNorm": (2, 4), "InstanceNorm2d": (3, 1e-5, 0.1, True), "LayerNorm": ((3, 4),)}
    return getattr(torch.nn, name)(*sizes.get(name, (3,)))


@needs_torch
@pytest.mark.parametrize("name", TWINS)
def test_a_layer_and_its_gradients_agree_with_pytorch(name):
    make, shape = TWINS[name]
    layer = make().set_train()
    twin = twin_of(name, layer).double()
    for parameter, other in zip(layer.trainable_params(), twin.parameters(), strict=True):
        values = np.random.default_rng(parameter.size).uniform(0.5, 1.5, parameter.shape)
        parameter.set_data(values)
        other.data = torch.tensor(values)
    x, weights = normal(*shape), None
    mine, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, z = layer(mine), twin(theirs)
    weights = normal(*y.shape, seed=1)
    (y * Tensor(weights)).sum().backward()
    (z * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-8, atol=1e-10)
    for parameter, other in zip(layer.trainable_params(), twin.parameters(), strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), other.grad.numpy(), rtol=1e-8, atol=1e-10)


@needs_torch
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_transposed_convolution_agrees_with_pytorch(axes):
    kind = f"Conv{axes}dTranspose"
    layer = getattr(nn, kind)(4, 2, 3, 2, "pad", 1, group=2, output_padding=1, key=Key(1), dtype=np.float64)
    x = normal(2, 4, *(3, 4, 2)[:axes])
    function = getattr(torch.nn.functional, f"conv_transpose{axes}d")
    values = [torch.tensor(p.asnumpy()) for p in (layer.weight, layer.bias)]
    theirs = function(torch.tensor(x), *values, 2, 1, 1, 2)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), theirs.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(64, 50, 3), (64, 50, 2, 2), (64, 50, 1, 2, 2)])
def test_dropout_of_channels_drops_whole_ones(shape):
    layer = getattr(nn, f"Dropout{len(shape) - 2}d")(0.25, key=Key(1)).set_train()
    flat = layer(Tensor(np.ones(shape, np.float32))).numpy().reshape(*shape[:2], -1)
    assert (flat == flat[..., :1]).all()
    assert (flat[..., 0] == 0.0).mean() == pytest.approx(0.25, abs=0.03)
    assert set(np.unique(flat)) == {np.float32(0.0), np.float32(1 / 0.75)}


@pytest.mark.parametrize(
    ("layer", "shape", "words"),
    [
        (nn.Dense(3, 2, key=Key(0)), (4, 5), r"Dense expects input \(..., 3\), got \(4, 5\)"),
        (nn.Dense(3, 2, key=Key(0)), (), r"Dense expects input \(..., 3\), got \(\)"),
        (nn.Conv2d(3, 2, 3, key=Key(0)), (2, 1, 5, 5), r"Conv2d expects input \(batch, 3, height, width\)"),
        (nn.LayerNorm(3), (2, 4), r"LayerNorm expects input \(..., 3\), got \(2, 4\)"),
        (nn.BatchNorm2d(3), (2, 4, 2, 2), r"BatchNorm2d expects input \(batch, 3, height, width\)"),
        (nn.BatchNorm2d(3).set_train(), (1, 3, 1, 1), "more than one value per channel in training"),
        (nn.BatchNorm1d(3), (2, 4), r"BatchNorm1d expects input \(batch, 3\) or \(batch, 3, length\), got \(2, 4\)"),
        (nn.Conv1d(3, 2, 3, key=Key(0)), (2, 3), r"Conv1d expects input \(batch, 3, length\), got \(2, 3\)"),
        (nn.Conv3dTranspose(3, 2, 3, key=Key(0)), (2, 3, 4), r"Conv3dTranspose expects input \(batch, 3, depth"),
        (nn.GroupNorm(1, 3), (2, 4), r"GroupNorm expects input \(batch, 3, ...\), got \(2, 4\)"),
        (nn.InstanceNorm2d(3), (2, 3, 4), r"InstanceNorm2d expects input \(batch, 3, height, width\)"),
        (nn.Dropout2d(0.5).set_train(), (2, 3, 4), r"Dropout2d expects input \(batch, channels, height, width\)"),
        (nn.MultiHeadSelfAttention(8, 2, key=Key(0)), (3, 8), r"expects input \(batch, positions, 8\), got \(3, 8\)"),
    ],
)
def test_inputs_of_the_wrong_shape_are_refused_in_words(layer, shape, words):
    with pytest.raises(ShapeError, match=words):
        layer(Tensor(np.zeros(shape, np.float32)))


def test_an_embedding_wants_integers_that_exist():
    layer = nn.Embedding(4, 2, key=Key(0))
    with pytest.raises(DtypeError, match="integer indices, got float32"):
        layer(Tensor(np.zeros(2, np.float32)))
    with pytest.raises(ShapeError, match="4"):
        layer(Tensor(np.array([4])))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.Dense(0, 2), "Dense expects in_channels of 1 or more, got 0"),
        (lambda: nn.Conv2d(2, 2, 0), r"kernel_size \(height\) of 1 or more, got 0"),
        (lambda: nn.Conv2d(3, 2, 3, group=2), "divisible by group 2, got 3 and 2"),
        (lambda: nn.Conv2d(2, 2, 3, pad_mode="full"), "one of same, valid, pad, got 'full'"),
        (lambda: nn.Conv2d(2, 2, 3, padding=1), "padding only with pad_mode='pad'"),
        (lambda: nn.LayerNorm(()), "one length or more, got"),
        (lambda: nn.GroupNorm(2, 5), "channels divisible by groups, got 5 and 2"),
        (lambda: nn.Conv1d(2, 2, (3, 3)), r"kernel_size to be one number or 1, got \(3, 3\)"),
        (lambda: nn.Conv3d(2, 2, 3, stride=0), r"stride \(depth\) of 1 or more, got 0"),
        (lambda: nn.MaxPool3d((2, 2)), "kernel_size to be one number or 3"),
        (lambda: nn.BatchNorm2d(2, momentum=2.0), r"momentum in \[0, 1\], got 2.0"),
        (lambda: nn.MaxPool2d(2, padding=2), "padding of 0 up to half the window"),
        (lambda: nn.Dropout(1.0), r"p in \[0, 1\), got 1.0"),
        (lambda: nn.MultiHeadSelfAttention(6, 4), "width divisible by heads, got 6 and 4"),
        (lambda: nn.FeedForward(4, activation="elu"), "one of gelu, relu, silu, got 'elu'"),
        (lambda: nn.TransformerBlock(4, 2, norm="batch"), "one of layer, rms, got 'batch'"),
        (lambda: nn.MSELoss("average"), "one of mean, sum, none, got 'average'"),
        (lambda: nn.CrossEntropyLoss(label_smoothing=2.0), r"label_smoothing in \[0, 1\]"),
    ],
)
def test_layers_that_make_no_sense_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
