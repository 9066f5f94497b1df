"""What a forward hook writes out for plain outputs is what the longer way does, which every other output takes."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.adapters.torch import torch_module_hooks as module_hooks  # noqa: E402  torch is there
from mindscope.probe.adapters.torch.torch_hooks import Hook  # noqa: E402
from mindscope.probe.kernels import More, measure  # noqa: E402

nn = torch.nn


class Through(nn.Module):
    """Calls a layer, as often as asked, and does something to what it returns."""

    def __init__(self, work, times=1, dtype=torch.float32):
        super().__init__()
        self.layer, self.work, self.times = nn.Linear(6, 6, dtype=dtype), work, times

    def forward(self, x):
        for _ in range(self.times):
            x = self.work(self.layer(x))
        return x


class Works(nn.Module):
    def __init__(self, work):
        super().__init__()
        self.work = work

    def forward(self, x):
        return self.work(x)


def undefined(x):
    x = x.clone()
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), -float("inf")
    return x


NETS = {
    "float32": lambda: Through(lambda x: x),
    "float64": lambda: Through(lambda x: x, dtype=torch.float64),
    "bfloat16": lambda: Through(lambda x: x, dtype=torch.bfloat16),
    "float16 inside": lambda: nn.Sequential(nn.Linear(6, 6), Works(lambda x: x.half()), Works(lambda x: x.float())),
    "several calls": lambda: Through(torch.tanh, times=3),
    "changed in place": lambda: nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)),
    "with gaps": lambda: nn.Sequential(nn.Linear(6, 6), Works(lambda x: x[:, ::2]), nn.Linear(3, 2)),
    "transposed": lambda: nn.Sequential(Works(lambda x: x.t()), nn.Linear(4, 6), Works(lambda x: x.t())),
    "empty": lambda: nn.Sequential(nn.Linear(6, 6), Works(lambda x: x[:0]), nn.Linear(6, 2)),
    "whole numbers": lambda: nn.Sequential(nn.Linear(6, 6), Works(lambda x: x + Works(lambda y: y.long())(x))),
    "handed on": lambda: nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(6, 6)))),
    "a parameter": lambda: nn.Sequential(nn.Linear(6, 6), Parameter()),
    "no gradient": lambda: nn.Sequential(nn.Linear(6, 6), Works(lambda x: x + nn.Sequential(Works(_detached))(x))),
    "undefined": lambda: nn.Sequential(nn.Linear(6, 6), Works(undefined)),
}


def _detached(x):
    return x.detach() * 2.0


class Parameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.inner = Works(lambda _: self.scale)

    def forward(self, x):
        return x * self.inner(x)


def trained(build, steps=4):
    def train(watching):
        net = build()
        dtype = next(net.parameters()).dtype
        optimizer = torch.optim.SGD(net.parameters(), 1e-3)
        losses = []
        with watching(net, optimizer):
            for _ in range(steps):
                optimizer.zero_grad()
                loss = net(torch.linspace(-1.0, 1.0, 24, dtype=dtype).reshape(4, 6)).float().square().sum()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, net

    return train


def blocks(seen):
    return [
        (block.layout, block.values.tobytes(), None if block.present is None else block.present.tobytes())
        for record in seen.records()
        for block in record.blocks
        if block.layout.subject.startswith("activation")
    ]


@pytest.mark.parametrize("build", NETS.values(), ids=NETS)
def test_both_ways_record_the_same_bits(alike, monkeypatch, build):
    short = alike(trained(build))
    long_way = lambda hooks, site, _: Hook(hooks.hook(site), hooks.recorder.guard)  # noqa: E731
    monkeypatch.setattr(module_hooks, "OutputHook", long_way)
    long = alike(trained(build))
    assert blocks(short) == blocks(long)
    assert blocks(short)
    assert short.faults() == long.faults() == []


def test_hooks_of_the_user_run_in_their_order_and_may_change_the_gradient(alike):
    """Ours sees what it saw when it was put on by torch's own means: what hooks before it have made of the gradient."""

    def train(watching):
        torch.manual_seed(3)
        layer, seen = nn.Linear(6, 6), []
        layer.register_forward_hook(lambda *arguments: arguments[2].register_hook(lambda g: g * 2.0) and None)
        optimizer = torch.optim.SGD(layer.parameters(), 1e-3)
        with watching(layer, optimizer):
            output = layer(torch.ones(4, 6))
            handle = output.register_hook(seen.append)
            output.register_hook(lambda gradient: gradient * 10.0)
            gone = output.register_hook(lambda gradient: gradient * 1000.0)
            gone.remove()
            output.sum().backward()
            optimizer.step()
        handle.remove()
        assert [one.unique().tolist() for one in seen] == [[2.0]]
        assert torch.equal(layer.bias.grad, torch.full((6,), 80.0))
        return [output.sum().item()], layer

    seen = alike(train)
    assert seen.values("", "activation_grad/max").tolist() == [2.0]


def test_a_gradient_of_an_earlier_step_is_left_alone(alike):
    def train(watching):
        layer = nn.Linear(6, 6)
        optimizer = torch.optim.SGD(layer.parameters(), 1e-3)
        with watching(layer, optimizer):
            kept = layer(torch.ones(4, 6))
            for factor in (1.0, 2.0):
                (layer(torch.ones(4, 6)) * factor).sum().backward()
                optimizer.step()
            (kept * 100.0).sum().backward()
            optimizer.step()
        return [], layer

    assert alike(train).values("", "activation_grad/max").tolist() == [2.0]  # neither 1.0, of a later call, nor 100.0


BOTH, GRADIENTS = {"activation", "activation_grad"}, {"activation_grad"}


@pytest.mark.parametrize(("wrong", "faults"), [((1,), BOTH), ((3,), BOTH), ((2,), GRADIENTS), ((4, 5), GRADIENTS)])
def test_a_kernel_that_fails_costs_observations_and_no_step(alike, monkeypatch, wrong, faults):
    """The first step has histograms and so goes the longer way; of the second the kernel is asked again in that."""
    calls = []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) in wrong:
            raise ValueError("no")
        measure(*arguments)

    monkeypatch.setattr(More, "kernel", lambda _: fail)
    seen = alike(trained(NETS["float32"]), config={"subjects": list(BOTH)})
    assert {one["collector"] for one in seen.faults()} == faults
