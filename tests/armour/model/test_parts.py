"""Many samples pass through convolutions in parts, which nothing but the time tells."""

import numpy as np
import pytest
from mindscope.armour import wrap
from mindscope.armour.array_api import from_numpy, to_numpy
from mindscope.armour.model.classifier import part_size
from mindscope.framework import Tensor, nn

GENERATOR = np.random.default_rng(0)
KERNEL = GENERATOR.standard_normal((3, 1, 3, 3)).astype(np.float32)
WEIGHT = GENERATOR.standard_normal((4, 48)).astype(np.float32)


def engine():
    convolution, output = nn.Conv2d(1, 3, 3, has_bias=False, pad_mode="same"), nn.Dense(48, 4, has_bias=False)
    convolution.weight.set_data(Tensor(KERNEL))
    output.weight.set_data(Tensor(WEIGHT))
    return nn.SequentialCell(convolution, nn.ReLU(), nn.Flatten(), output).set_train(False)


def torch_module():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    convolution, output = torch.nn.Conv2d(1, 3, 3, padding=1, bias=False), torch.nn.Linear(48, 4, bias=False)
    with torch.no_grad():
        convolution.weight.copy_(torch.from_numpy(KERNEL))
        output.weight.copy_(torch.from_numpy(WEIGHT))
    return torch.nn.Sequential(convolution, torch.nn.ReLU(), torch.nn.Flatten(), output).eval()


@pytest.mark.parametrize("make", [engine, torch_module])
def test_parts_give_the_logits_and_gradients_of_single_samples(make):
    model = wrap(make())
    x = GENERATOR.uniform(0, 1, (401, 1, 4, 4)).astype(np.float32)
    weights = GENERATOR.standard_normal((401, 4)).astype(np.float32)
    native = model.native(x)
    logits, gradient = model.pullback(native, lambda values: from_numpy(weights, values))
    assert gradient.shape == native.shape
    for row in (0, 133, 134, 267, 268, 400):  # on both sides of where parts meet
        alone, slope = model.pullback(native[row : row + 1], lambda v, row=row: from_numpy(weights[row : row + 1], v))
        np.testing.assert_allclose(to_numpy(logits)[row], to_numpy(alone)[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(to_numpy(gradient)[row], to_numpy(slope)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_numpy(model.logits(native)), to_numpy(logits), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("samples", "size"), [(0, 0), (1, 1), (192, 192), (193, 97), (401, 134), (500, 167)])
def test_parts_are_as_equal_as_can_be(samples, size):
    assert part_size(samples) == size
