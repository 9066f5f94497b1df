"""Attention and transformers: PyTorch as a witness, closed forms, refusals in words."""

import numpy as np
import pytest
from mindscope.framework import Key, ShapeError, Tensor, nn

torch = pytest.importorskip("torch")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def copy_attention(mine, theirs):
    with torch.no_grad():
        for kind in ("weight", "bias"):
            parts = [torch.tensor(getattr(p, kind).asnumpy()) for p in (mine.q_proj, mine.k_proj, mine.v_proj)]
            if kind == "bias" or theirs._qkv_same_embed_dim:
                getattr(theirs, f"in_proj_{kind}").copy_(torch.cat(parts))
            else:
                for name, part in zip("qkv", parts, strict=True):
                    getattr(theirs, f"{name}_proj_weight").copy_(part)
            getattr(theirs.out_proj, kind).copy_(torch.tensor(getattr(mine.out_proj, kind).asnumpy()))


def copy_layer(mine, theirs):
    with torch.no_grad():
        copy_attention(mine.self_attn, theirs.self_attn)
        if hasattr(mine, "multihead_attn"):
            copy_attention(mine.multihead_attn, theirs.multihead_attn)
        pairs = [(mine.feed.linear1, theirs.linear1), (mine.feed.linear2, theirs.linear2)]
        pairs += [(getattr(mine, n), getattr(theirs, n)) for n in ("norm1", "norm2", "norm3") if hasattr(theirs, n)]
        for a, b in pairs:
            b.weight.copy_(torch.tensor(a.weight.asnumpy()))
            b.bias.copy_(torch.tensor(a.bias.asnumpy()))


def masks(kind, targets=3, sources=4, batch=2, heads=2):
    generator = np.random.default_rng(3)
    free = generator.random((batch * heads, targets, sources)) < 0.4
    free[..., 0] = False
    padded = np.zeros((batch, sources), bool)
    padded[1, -1] = True
    return {
        "none": (None, None),
        "bool": (free[0], None),
        "bool-by-head": (free, None),
        "numbers": (generator.standard_normal((targets, sources)), None),
        "padding": (None, padded),
        "both": (free[0], padded),
    }[kind]


@pytest.mark.parametrize("kind", ["none", "bool", "bool-by-head", "numbers", "padding", "both"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_and_its_weights_agree_with_pytorch(kind, batch_first, need_weights):
    mine = nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=batch_first, key=Key(0), dtype=np.float64)
    theirs = torch.nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=batch_first, dtype=torch.float64)
    copy_attention(mine, theirs)
    q, k, v = normal(3, 2, 8), normal(4, 2, 5, seed=1), normal(4, 2, 6, seed=2)
    given = [x.swapaxes(0, 1) if batch_first else x for x in (q, k, v)]
    mask, padding = masks(kind)
    out, weights = mine(
        *map(Tensor, given),
        None if padding is None else Tensor(padding),
        need_weights,
        None if mask is None else Tensor(mask),
        average_attn_weights=False,
    )
    expected, of_theirs = theirs(
        *map(torch.tensor, given),
        key_padding_mask=None if padding is None else torch.tensor(padding),
        need_weights=need_weights,
        attn_mask=None if mask is None else torch.tensor(mask),
        average_attn_weights=False,
    )
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-11)
    assert (weights is None) == (of_theirs is None)
    if need_weights:
        np.testing.assert_allclose(weights.numpy(), of_theirs.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_agrees_with_pytorch(norm_first, activation):
    options = {"dim_feedforward": 12, "dropout": 0.0, "activation": activation, "norm_first": norm_first}
    mine = nn.TransformerEncoderLayer(8, 2, **options, key=Key(0), dtype=np.float64)
    theirs = torch.nn.TransformerEncoderLayer(8, 2, **options, dtype=torch.float64)
    copy_layer(mine, theirs)
    x, padding = normal(4, 2, 8), np.array([[False] * 4, [False] * 3 + [True]])
    expected = theirs(torch.tensor(x), src_key_padding_mask=torch.tensor(padding)).detach().numpy()
    np.testing.assert_allclose(mine(Tensor(x), None, Tensor(padding)).numpy(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder_layer_agrees_with_pytorch(norm_first):
    options = {"dim_feedforward": 12, "dropout": 0.0, "norm_first": norm_first, "batch_first": True}
    mine = nn.TransformerDecoderLayer(8, 2, **options, key=Key(0), dtype=np.float64)
    theirs = torch.nn.TransformerDecoderLayer(8, 2, **options, dtype=torch.float64)
    copy_layer(mine, theirs)
    x, memory, mask = normal(2, 3, 8), normal(2, 5, 8, seed=1), np.triu(np.ones((3, 3), bool), 1)
    expected = theirs(torch.tensor(x), torch.tensor(memory), tgt_mask=torch.tensor(mask)).detach().numpy()
    out = mine(Tensor(x), Tensor(memory), Tensor(mask))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-9, atol=1e-11)


def test_a_causal_flag_is_a_mask_above_the_diagonal():
    layer = nn.MultiheadAttention(8, 2, batch_first=True, key=Key(0), dtype=np.float64)
    x = Tensor(normal(2, 4, 8))
    masked, weights = layer(x, x, x, attn_mask=Tensor(np.triu(np.ones((4, 4), bool), 1)))
    flagged, of_flag = layer(x, x, x, is_causal=True)
    fused, _ = layer(x, x, x, need_weights=False, is_causal=True)
    np.testing.assert_allclose(flagged.numpy(), masked.numpy(), rtol=1e-12)
    np.testing.assert_allclose(fused.numpy(), masked.numpy(), rtol=1e-12)
    np.testing.assert_allclose(of_flag.numpy(), weights.numpy(), rtol=1e-12)


def test_as_many_key_heads_as_heads_are_plain_attention():
    grouped = nn.GroupedQueryAttention(8, 4, 4, has_bias=True, key=Key(0), dtype=np.float64)
    plain = nn.MultiHeadSelfAttention(8, 4, key=Key(1), dtype=np.float64)
    for a, b in zip(plain.get_parameters(), grouped.get_parameters(), strict=True):
        a.set_data(b.numpy())
    x = Tensor(normal(2, 5, 8))
    np.testing.assert_allclose(grouped(x).numpy(), plain(x).numpy(), rtol=1e-12, atol=1e-14)


def test_shared_key_heads_are_plain_attention_with_repeated_weights():
    grouped = nn.GroupedQueryAttention(8, 4, 2, key=Key(0), dtype=np.float64)
    plain = nn.GroupedQueryAttention(8, 4, 4, key=Key(0), dtype=np.float64)
    for name in ("k_proj", "v_proj"):
        rows = getattr(grouped, name).weight.numpy().reshape(2, 1, 2, 8)
        getattr(plain, name).weight.set_data(np.repeat(rows, 2, 1).reshape(8, 8))
    for name in ("q_proj", "out_proj"):
        getattr(plain, name).weight.set_data(getattr(grouped, name).weight.numpy())
    x = Tensor(normal(2, 5, 8))
    np.testing.assert_allclose(grouped(x).numpy(), plain(x).numpy(), rtol=1e-12, atol=1e-14)


def test_turned_pairs_are_products_with_complex_numbers_of_length_one():
    rope, x = nn.RotaryEmbedding(6, 32, base=100.0), normal(2, 5, 6)
    turned = rope(Tensor(x), offset=3).numpy()
    pairs = x[..., :3] + 1j * x[..., 3:]
    expected = pairs * np.exp(1j * np.outer(np.arange(3, 8), 100.0 ** (-np.arange(3) / 3)))
    np.testing.assert_allclose(turned[..., :3] + 1j * turned[..., 3:], expected, rtol=1e-12)


def test_products_of_turned_vectors_depend_on_their_distance_only():
    rope, q, k = nn.RotaryEmbedding(8, 64), normal(1, 8), normal(1, 8, seed=1)
    products = [float((rope(Tensor(q), i).numpy() * rope(Tensor(k), i + 5).numpy()).sum()) for i in (0, 7, 40)]
    assert products == pytest.approx([products[0]] * 3, rel=1e-9)


def test_layers_made_by_a_function_begin_differently_and_copies_alike():
    copies = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, key=Key(0)), 2)
    made = nn.TransformerEncoder(lambda: nn.TransformerEncoderLayer(8, 2, 8), 2)
    weights = [[layer.feed.linear1.weight.numpy() for layer in stack.layers] for stack in (copies, made)]
    np.testing.assert_array_equal(*weights[0])
    assert not np.shares_memory(*weights[0])
    assert not np.array_equal(*weights[1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.MultiheadAttention(6, 4), "embed_dim divisible by num_heads, got 6 and 4"),
        (lambda: nn.GroupedQueryAttention(8, 4, 3), "heads divisible by kv_heads, got 4 and 3"),
        (lambda: nn.GroupedQueryAttention(9, 4, 2), "width divisible by heads, got 9 and 4"),
        (lambda: nn.RotaryEmbedding(3), "an even width, got 3"),
        (lambda: nn.RotaryEmbedding(4, base=0.0), "base above 0"),
        (lambda: nn.TransformerBlock(8, 2, is_fused=True, kv_heads=1), "without kv_heads and rope"),
        (lambda: nn.TransformerEncoderLayer(8, 2, activation="silu"), "one of relu, gelu, got 'silu'"),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0), "num_layers of 1 or more, got 0"),
    ],
)
def test_layers_that_make_no_sense_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.RotaryEmbedding(4, 8)(Tensor(np.zeros((9, 4)))), "tables for 8 positions, got 0 to 9"),
        (lambda: nn.RotaryEmbedding(4, 8)(Tensor(np.zeros((2, 6)))), r"\(..., positions, 4\), got \(2, 6\)"),
        (lambda: attend(np.zeros((3, 2, 7))), "as many keys as values, got"),
        (lambda: attend(mask=np.zeros((2, 2), bool)), r"attn_mask of \(3, 3\) or \(4, 3, 3\), got \(2, 2\)"),
        (lambda: attend(padding=np.zeros((2, 3))), r"bool of \(2, 3\), got float64"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_in_words(call, words):
    with pytest.raises(ShapeError, match=words):
        call()


def attend(key=None, *, mask=None, padding=None):
    x = np.zeros((3, 2, 8))
    layer = nn.MultiheadAttention(8, 2, key=Key(0), dtype=np.float64)
    key = x if key is None else key
    return layer(
        *map(Tensor, (x, key, x)),
        None if padding is None else Tensor(padding),
        attn_mask=None if mask is None else Tensor(mask),
    )
