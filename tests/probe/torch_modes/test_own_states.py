"""Calls that the monitor makes of a program's modules change no random generator and no counter of the program."""

import ast
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import mindscope  # noqa: E402  it is there anyway
from mindscope.probe.aside import same_random_numbers  # noqa: E402

PACKAGE = Path(str(mindscope.__file__)).parent
#: A model whose forward draws or counts by `{draw}`, made by `{made}`.
SCRIPT = """
import random
import numpy
from collections import deque
class Noise:
    def __init__(self):
        self.draws, self.count, self.seen = random.Random(2), 0, deque([0.0], maxlen=3)
    def __call__(self):
        self.count += 1
        self.seen.append(self.draws.gauss(0.0, 0.05))
        return sum(self.seen) + 0.1 * numpy.sin(self.count)
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.scores = nn.Linear(6, 16), nn.Linear(16, 3)
        {made}
    def forward(self, x):
        return self.scores(torch.relu(self.hidden(x + {draw})))
{before}
model = Noisy()
"""
TRAINED = """
optimizer = torch.optim.SGD(model.parameters(), 0.1)
inputs = torch.randn(300, 6)
labels = inputs[:, :3].argmax(1)
for _ in range(steps):
    rows = torch.randperm(300)[:32]
    loss = functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
DRAWS = {
    "torch, of a module": ("self.own = torch.Generator().manual_seed(3)", "torch.rand(6, generator=self.own)", ""),
    "NumPy, of a module": ("self.own = numpy.random.default_rng(3)", "self.own.normal(0.0, 0.1)", ""),
    "NumPy's old one": ("self.own = [numpy.random.RandomState(3)]", "self.own[0].normal(0.0, 0.1)", ""),
    "Python, of a module": ("self.own = {'draws': random.Random(3)}", "self.own['draws'].gauss(0.0, 0.1)", ""),
    "torch, global": ("", "torch.rand(6, generator=OWN)", "OWN = torch.Generator().manual_seed(3)"),
    "NumPy, global": ("", "OWN.normal(0.0, 0.1)", "OWN = numpy.random.default_rng(3)"),
    "a global list": ("", "OWN[0].normal(0.0, 0.1)", "OWN = [numpy.random.default_rng(3)]"),
    "an object that counts": ("self.noise = Noise()", "self.noise()", ""),
    "a global object that draws": ("", "0.1 * OWN.draws.random()", "OWN = Noise()"),
    "the process's own": ("", "0.1 * torch.rand(6) + 0.1 * numpy.random.rand() + 0.1 * random.random()", ""),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_model_that_draws_or_counts_trains_as_it_does_alone(run_alike, name) -> None:
    made, draw, before = DRAWS[name]
    text = SCRIPT.format(made=made or "pass", draw=draw, before=f"random.seed(0); numpy.random.seed(0)\n{before}")
    store, run, _ = run_alike(text + TRAINED, steps=90)
    assert run.last_step == 89
    checks = {event.data["check"] for event in store.events(run.id, kind="check")}
    assert "columns_are_used" in checks, "the model was never called by the monitor"


def test_the_generators_of_devices_go_on_from_where_they_were(monkeypatch) -> None:
    """A device's generator is any of torch's; here those of the processor stand for two devices."""
    devices = [torch.Generator().manual_seed(7), torch.Generator().manual_seed(8)]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "default_generators", devices)
    before = [one.get_state() for one in devices]
    drawn = []
    for _ in range(2):
        with same_random_numbers(0):
            drawn.append([torch.rand(3, generator=one).tolist() for one in devices])
    assert drawn[0] == drawn[1]
    with same_random_numbers():
        torch.rand(3, generator=devices[0])
    assert all(torch.equal(one.get_state(), state) for one, state in zip(devices, before, strict=True))


def test_nothing_seeds_the_devices_of_the_process() -> None:
    """`torch.manual_seed` seeds all of them, also later ones, and `fork_rng` restores only those that it is told."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.glob("probe/**/*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.manual_seed", "torch.random.fork_rng")
    ]
    assert found == []


#: Ways to put a function in the place of a model's forward, which a copy of the model has as well.
WRAPPED = {
    "a closure over the bound method": "old = model.forward\nmodel.forward = lambda x: old(x)",
    "a function with a default": "model.forward = lambda x, old=model.forward: old(x)",
    "a partial function": "model.forward = functools.partial(type(model).forward, model)",
    "a partial function of the method": "model.forward = functools.partial(model.forward)",
    "a wrapped method": "model.forward = types.MethodType(wrapped(type(model).forward), model)",
    "a name of the script": "model.forward = lambda x: model[1](model[0](x))",
    "of a part": "old = model[0].forward\nmodel[0].forward = lambda x: old(x)",
}
FORWARD = """
import functools, types
def wrapped(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)
    return call
model = nn.Sequential(nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1)), nn.Linear(16, 3))
{wrap}
"""
STATISTICS = "losses += model[0][1].running_mean.tolist() + model[0][1].running_var.tolist()"


@pytest.mark.parametrize("name", WRAPPED)
def test_a_function_in_the_place_of_forward_is_not_called_on_the_original(run_alike, name) -> None:
    store, run, _ = run_alike(FORWARD.format(wrap=WRAPPED[name]) + TRAINED + STATISTICS, steps=60)
    broken = {e.data["check"] for e in store.events(run.id, kind="check") if e.data["outcome"] == "broken"}
    assert not broken
