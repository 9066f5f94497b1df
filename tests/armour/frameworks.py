"""One small convolution-free network in every framework that can be attacked, all with the same weights."""

import numpy as np
import pytest
from mindscope.framework import Parameter, nn, ops

GENERATOR = np.random.default_rng(3)
HIDDEN = (GENERATOR.standard_normal((12, 16)) / 2).astype(np.float32)
OUTPUT = (GENERATOR.standard_normal((16, 3)) / 2).astype(np.float32)
BIAS = (GENERATOR.standard_normal(3) / 4).astype(np.float32)


class EngineNet(nn.Cell):
    """Two layers and a child, so that there are modes to keep apart."""

    def __init__(self, dtype=np.float32):
        super().__init__()
        self.first = _Layer(HIDDEN.astype(dtype))
        self.output = Parameter(OUTPUT.astype(dtype))
        self.bias = Parameter(BIAS.astype(dtype))

    def construct(self, x):
        return ops.matmul(ops.maximum(self.first(x.reshape(x.shape[0], 12)), 0.0), self.output) + self.bias


class _Layer(nn.Cell):
    def __init__(self, weight):
        super().__init__()
        self.weight = Parameter(weight.copy())

    def construct(self, x):
        return ops.matmul(x, self.weight)


def engine(dtype=np.float32):
    """The network as a cell in evaluation mode."""
    return EngineNet(dtype).set_train(False)


def torch_module(dtype=np.float32):
    """The network as a torch module in evaluation mode; skips where PyTorch is missing."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.set_num_threads(1)  # on a busy machine threads that wait for each other take thirty times as long
    first, second = torch.nn.Linear(12, 16, bias=False), torch.nn.Linear(16, 3)
    with torch.no_grad():
        first.weight.copy_(torch.from_numpy(HIDDEN.T.copy()))
        second.weight.copy_(torch.from_numpy(OUTPUT.T.copy()))
        second.bias.copy_(torch.from_numpy(BIAS))
    return (
        torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.ReLU(), second)
        .to(getattr(torch, np.dtype(dtype).name))
        .eval()
    )


MAKE = {"engine": engine, "torch": torch_module}


def inputs(samples=80):
    """Inputs of the box, shape `(n, 3, 4)`."""
    return np.random.default_rng(5).uniform(0, 1, (samples, 3, 4)).astype(np.float32)


def logits(x):
    """What the network must return."""
    return np.maximum(x.reshape(len(x), -1) @ HIDDEN, 0) @ OUTPUT + BIAS


def modes(model):
    """Whether each module is in training mode."""
    if isinstance(model, nn.Cell):
        return [cell.training for _, cell in model.cells_and_names()]
    return [module.training for module in model.modules()]


def parameters(model):
    """Copies of all parameters, and their gradients."""
    if isinstance(model, nn.Cell):
        return [(p.asnumpy(), p.grad) for p in model.get_parameters()]
    return [(p.detach().numpy().copy(), p.grad) for p in model.parameters()]
