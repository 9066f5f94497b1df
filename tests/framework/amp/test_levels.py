"""Mixed precision: who computes in what, master weights, losses near those of float32, both modes."""

import numpy as np
import pytest
from mindscope.framework import DtypeError, Key, Tensor, amp, nn
from mindscope.framework.nn import Cell
from mindscope.framework.train import TrainStep


class Net(Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, key=Key(0))
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Dense(4, 3, key=Key(1))

    def construct(self, x):
        return self.head(nn.ReLU()(self.norm(self.conv(x))).mean((2, 3)))


def batch():
    generator = np.random.default_rng(0)
    return generator.standard_normal((8, 1, 6, 6)).astype(np.float32), generator.integers(0, 3, 8)


def seen_dtypes(net):
    """The dtypes of what goes into and out of each cell, as its hooks see them."""
    seen = {}
    for site, cell in net.cells_and_names():
        cell.register_forward_hook(lambda c, i, o, site=site: seen.update({site: (str(i[0].dtype), str(o.dtype))}))
    out = net(Tensor(batch()[0]))
    return seen, str(out.dtype)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("O0", {"conv": "float32", "norm": "float32", "head": "float32"}),
        ("O1", {"conv": "float16", "norm": "float32", "head": "float16"}),
        ("O2", {"conv": "float16", "norm": "float32", "head": "float16"}),
        ("O3", {"conv": "float16", "norm": "float16", "head": "float16"}),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_each_level_computes_where_it_says_and_returns_float32(level, expected, training):
    net = amp.auto_mixed_precision(Net(), level).set_train(training)
    seen, of_output = seen_dtypes(net)
    assert {site: seen[site][0] for site in expected} == expected
    assert of_output == "float32"
    assert {p.dtype for p in net.get_parameters()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
@pytest.mark.parametrize("jit", [False, True])
def test_a_training_in_half_precision_follows_that_in_float32(level, jit):
    losses = {}
    for name in ("O0", level):
        net = amp.auto_mixed_precision(Net(), name)
        step = TrainStep(
            net, nn.CrossEntropyLoss(), nn.Adam(net.trainable_params(), 1e-2), amp.amp_scaler(name), jit=jit
        )
        losses[name] = [float(step(*batch())) for _ in range(6)]
        assert {p.dtype for p in net.get_parameters()} == {np.dtype(np.float32)}
    np.testing.assert_allclose(losses[level], losses["O0"], rtol=5e-3)
    assert losses[level] != losses["O0"]
    assert losses[level][-1] < losses[level][0]


def test_gradients_come_back_in_the_dtype_of_the_master_weights():
    net = amp.auto_mixed_precision(Net().set_train(), "O2", "bfloat16")
    out = net(Tensor(batch()[0]))
    (out * out).sum().backward()
    assert {str(p.grad.dtype) for p in net.trainable_params()} == {"float32"}
    assert amp.amp_scaler("O2", "bfloat16") is None


def test_attributes_are_the_parameters_again_after_a_call_even_a_failing_one():
    dense = nn.Dense(3, 2, key=Key(0)).to_float("float16")
    assert dense(Tensor(np.ones((2, 3), np.float32))).dtype == np.float16
    with pytest.raises(ValueError, match="Dense expects input"):
        dense(Tensor(np.ones((2, 4), np.float32)))
    assert dense.weight is dense.trainable_params()[0]
    assert dense.to_float(None)(Tensor(np.ones((2, 3), np.float32))).dtype == np.float32


def test_lists_choose_cells_by_their_classes():
    net = amp.custom_mixed_precision(Net(), white_list=[nn.Dense])
    seen, _ = seen_dtypes(net)
    assert (seen["conv"][0], seen["head"][0]) == ("float32", "float16")
    net = amp.custom_mixed_precision(Net(), black_list=[nn.Dense], dtype="bfloat16")
    seen, _ = seen_dtypes(net)
    assert (seen["conv"][0], seen["head"][0]) == ("bfloat16", "float32")
    assert nn.Dense in amp.get_amp_white_list()
    assert nn.LayerNorm in amp.get_amp_black_list()


def test_what_makes_no_sense_is_refused_in_words():
    with pytest.raises(ValueError, match="one of O0, O1, O2, O3, got 'O4'"):
        amp.auto_mixed_precision(Net(), "O4")
    with pytest.raises(ValueError, match="a white_list or a black_list, and not both"):
        amp.custom_mixed_precision(Net())
    with pytest.raises(DtypeError, match="a floating-point dtype, got int32"):
        Net().to_float("int32")


def test_finite_means_all_of_them():
    assert amp.all_finite([Tensor(np.ones(2)), None, np.zeros(3)])
    assert not amp.all_finite([np.ones(2), np.array([1.0, np.nan])])
