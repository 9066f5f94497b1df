"""While a CUDA graph is captured nothing of ours runs: an operation that waits for the device would end the training.

A capture is acted here where there is no device: `capture_begin` and `capture_end` only note that one is under way, and
every function that reads a tensor refuses meanwhile. The last test needs a device.
"""

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.insight import diagnose  # noqa: E402  it is known that torch is there

nn, functional = torch.nn, torch.nn.functional
CAPTURING = []


@contextmanager
def graph():
    """As `torch.cuda.graph`."""
    one = object()
    torch.cuda.CUDAGraph.capture_begin(one)
    try:
        yield one
    finally:
        torch.cuda.CUDAGraph.capture_end(one)


@pytest.fixture(autouse=True)
def acted(monkeypatch):
    def refusing(original):
        def read(*arguments, **options):
            assert not CAPTURING, "a tensor was read while a graph was captured"
            return original(*arguments, **options)

        return read

    def graphed(module, sample):
        """As `torch.cuda.make_graphed_callables`, which refuses modules with hooks, warms up, and captures."""
        for part in module.modules():
            assert not any((part._forward_hooks, part._forward_pre_hooks, part._backward_hooks))
        module(*sample)
        with graph():
            module(*sample)
        return module

    def begin(one):
        CAPTURING.append(one)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", begin)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_end", lambda one: CAPTURING.remove(one))
    for owner in (torch.cuda, torch.cuda.graphs):
        monkeypatch.setattr(owner, "make_graphed_callables", graphed)
    for name in ("item", "tolist", "data_ptr", "cpu", "numpy", "__bool__", "__float__"):
        monkeypatch.setattr(torch.Tensor, name, refusing(getattr(torch.Tensor, name)))
    yield
    CAPTURING.clear()


def made():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs = torch.randn(64, 6)
    labels = torch.stack([inputs[:, k] for k in range(3)], 1).max(1).indices

    def step():
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, optimizer, inputs, step


def test_a_step_that_is_captured_is_not_looked_at(alike, forced):
    forced()

    def train(watching):
        model, optimizer, _, step = made()
        with watching(model, optimizer):
            kept = [step() for _ in range(4)]
            for _ in range(3):
                with graph():
                    kept.append(step())
            kept += [step() for _ in range(30)]
        return [loss.item() for loss in kept], model

    seen = alike(train)
    assert not seen.faults()
    assert len(seen.values("", "scalar/loss")) == 34, "the steps before and after the captures"
    assert len(seen.events("graph_captured")) == 1
    told = [finding.explanation for finding in diagnose(seen.store, seen.run).findings]
    assert any("has captured a CUDA graph" in words for words in told)


def test_a_capture_that_fails_leaves_the_monitor_on(alike):
    def train(watching):
        model, optimizer, _, step = made()
        losses = []
        with watching(model, optimizer):
            losses.append(step())
            with pytest.raises(ZeroDivisionError), graph():
                raise ZeroDivisionError
            losses += [step() for _ in range(3)]
        return [loss.item() for loss in losses], model

    seen = alike(train)
    assert not seen.faults()
    assert len(seen.values("", "scalar/loss")) == 4


def test_modules_that_torch_makes_graphs_of_have_none_of_our_hooks(alike):
    heard = []

    def train(watching):
        model, optimizer, inputs, step = made()
        losses = []
        with watching(model, optimizer):
            losses += [step() for _ in range(3)]
            before = [list(part._forward_hooks) for part in model.modules()]
            torch.cuda.make_graphed_callables(model, (inputs,))
            assert [list(part._forward_hooks) for part in model.modules()] == before
            handle = model.register_forward_hook(lambda *_: heard.append(1))
            losses += [step() for _ in range(3)]
            handle.remove()
        return [loss.item() for loss in losses], model

    seen = alike(train)
    assert not seen.faults()
    assert len(seen.values("", "scalar/loss")) == 6
    assert len(seen.values("0", "activation/mean")) == 6
    assert len(heard) == 6


def test_a_script_that_makes_a_graph_before_it_trains(run_alike):
    store, run, _ = run_alike(
        """
model = net(3, 8, 1)
torch.cuda.make_graphed_callables(model, (torch.randn(4, 3, requires_grad=True),))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(steps):
    loss = model(torch.randn(4, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
    )
    assert not store.events(run.id, kind="monitor_fault")
    assert run.last_step == 3
