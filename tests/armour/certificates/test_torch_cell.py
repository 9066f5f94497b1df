"""Torch modules as engine cells: the same numbers, the same bounds as the engine's own model, refusals by name."""

import numpy as np
import pytest
from mindscope.armour import InvalidModel
from mindscope.armour.certificates import certified_radius, certify
from mindscope.framework import Tensor

from tests.armour.frameworks import engine, inputs, logits, torch_module

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch.set_num_threads(1)
nn, functional = torch.nn, torch.nn.functional

from mindscope.armour.certificates.torch_cell import TorchCell  # noqa: E402  needs torch

METHODS = ("ibp", "crown")


class Residual(nn.Module):
    """Modules, functions and methods: normalisation, a residual branch, pooling of three kinds, dropout that rests."""

    def __init__(self):
        super().__init__()
        self.first, self.branch = nn.Conv2d(1, 3, 3, stride=2, padding=(1, 0)), nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.slope, self.mean = nn.BatchNorm2d(3), nn.LeakyReLU(0.1), nn.AdaptiveAvgPool2d((None, 2))
        self.rest, self.head = nn.Dropout(), nn.Linear(24, 3)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        x = self.slope(self.first((x - 0.5) / 0.25))
        x = functional.relu(self.norm(self.branch(x)) + x)
        x = functional.avg_pool2d(functional.max_pool2d(x, 2, 1, 1), 2, 1)
        x = self.mean(x).view(x.size(0), -1)
        return self.head(functional.dropout(self.rest(x), training=self.training))


def rows():
    """A network of rows, with every option of a sequence."""
    layers = [nn.Conv1d(2, 4, 3, padding="same"), nn.ReLU6(), nn.AvgPool1d(2), nn.MaxPool1d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.BatchNorm1d(8), nn.Linear(8, 3))


def made(make):
    torch.manual_seed(0)
    return make().double().eval()


NETWORKS = {"residual": (Residual, (2, 1, 8, 9)), "rows": (rows, (2, 2, 8))}


@pytest.mark.parametrize(("make", "shape"), NETWORKS.values(), ids=NETWORKS)
def test_a_cell_computes_what_its_module_computes(make, shape):
    module, x = made(make), np.random.default_rng(0).uniform(0, 1, shape)
    expected = module(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(TorchCell(module)(Tensor(x)).numpy(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_bounds_are_those_of_the_same_network_in_the_engine(method, norm):
    x = inputs(4)
    labels = logits(x).argmax(axis=1)
    found, expected = (
        certify(model, x, labels, [0.0, 0.05], norm=norm, method=method).margins for model in (torch_module(), engine())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("make", "shape"), NETWORKS.values(), ids=NETWORKS)
def test_no_sampled_point_is_below_the_bound(make, shape, method):
    module, generator = made(make), np.random.default_rng(1)
    x = generator.uniform(0, 1, shape)
    labels = module(torch.from_numpy(x)).argmax(dim=1).numpy()
    margins = certify(module, x, labels, [0.0, 0.03], method=method).margins
    for number, epsilon in enumerate((0.0, 0.03)):
        for sample, label, margin in zip(x, labels, margins[number], strict=True):
            noise = generator.choice([-1.0, 0.0, 1.0], (300, *shape[1:]))
            z = module(torch.from_numpy(np.clip(sample + epsilon * noise, 0, 1))).detach().numpy()
            seen = np.min(z[:, [label]] - np.delete(z, label, axis=1))
            assert margin <= seen + 1e-9
            if epsilon == 0:
                assert margin == pytest.approx(seen, abs=1e-9)


def test_the_radius_of_a_module_is_that_of_its_twin():
    x = inputs(2)
    labels = logits(x).argmax(axis=1)
    np.testing.assert_allclose(certified_radius(torch_module(), x, labels), certified_radius(engine(), x, labels))


class Peeking(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Restless(nn.Module):
    def forward(self, x):
        return functional.dropout(x)


class Odd(nn.Module):
    def forward(self, x):
        return torch.add(x, x, alpha=2)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (
            nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Sequential(nn.Softmax(1))),
            "no bounds are known for GELU at '1', Softmax at '2.0'; certificates by bounds support Linear, .*smooth",
        ),
        (nn.Sequential(nn.Conv2d(1, 1, 3, padding_mode="circular")), "Conv2d at '0'"),
        (nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False)), "BatchNorm1d at '0'"),
        (Peeking(), "the graph of Peeking cannot be read by torch.fx"),
        (nn.Bilinear(3, 3, 3), "expects a model of one input, Bilinear takes input1, input2"),
        (Restless(), "dropout in evaluation mode; pass training=self.training"),
        (Odd(), "no bounds are known for 'add' as the model calls it"),
    ],
    ids=["layers", "padding", "statistics", "branch", "inputs", "dropout", "options"],
)
def test_what_has_no_bounds_is_named(module, words):
    with pytest.raises(InvalidModel, match=words):
        certify(module.eval(), [[0.5, 0.5, 0.5]], [0], 0.1)


def test_a_module_in_training_mode_is_refused():
    with pytest.raises(InvalidModel, match=r"Linear is in training mode; call eval\(\)"):
        certify(nn.Linear(3, 3), [[0.5, 0.5, 0.5]], [0], 0.1)
