"""A compiled model stays one graph under the monitor; seen are its boundary, weights, gradients and optimizer."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own, inside of its compiler
BACKENDS = ["eager", "aot_eager", *(["inductor"] if os.environ.get("MINDSCOPE_TEST_ALL") else [])]


class Network(nn.Sequential):
    """A class of ours: torch leaves its own containers, called alone, as they are."""

    def forward(self, x):
        return super().forward(x)


def network():
    torch.manual_seed(0)
    return Network(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def wrapped(backend):
    return torch.compile(network(), backend=backend, fullgraph=True), None


def in_place(backend):
    model = network()
    model.compile(backend=backend, fullgraph=True)
    return model, None


def in_a_function(backend):
    model = network()
    return model, torch.compile(lambda x: model(x).square().mean(), backend=backend, fullgraph=True)


def training(build, backend, *, accumulate=1):
    def train(watching):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model, function = build(backend)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        losses = []
        with watching(model, optimizer):
            for _ in range(4):
                optimizer.zero_grad()
                for _ in range(accumulate):
                    x = torch.randn(5, 4)
                    loss = function(x) if function else model(x).square().mean()
                    loss.backward()
                    losses.append(loss.item())
                optimizer.step()
        return losses, model

    return train


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("build", [wrapped, in_place, in_a_function])
def test_a_compiled_model_is_one_graph_and_everything_outside_of_it_is_seen(alike, build, backend):
    seen = alike(training(build, backend), config={"every": 2})
    counters = torch._dynamo.utils.counters
    assert counters["stats"]["unique_graphs"] == 1  # neither broken, nor compiled anew as steps are due and not due
    assert not counters["graph_break"]
    assert seen.values("", "scalar/loss").tolist() == seen.losses[::2]
    for metric in ("weight/std", "gradient/l2_norm", "update/ratio_to_weight", "optimizer/exp_avg/std"):
        assert len(seen.values("0.weight", metric)) == 2, metric
    boundary = 1 if build is wrapped else 0
    assert [seen.calls(site) for site in ("", "0", "1", "2")] == [boundary, 0, 0, 0]
    assert seen.calls("", subject="activation_grad") == boundary


@pytest.mark.parametrize("build", [wrapped, in_place])
def test_micro_steps_of_a_compiled_model_are_told_apart(alike, build):
    seen = alike(training(build, "eager", accumulate=2), config={"accumulation_steps": 2})
    assert [(record.step, record.micro_step) for record in seen.records()][:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert seen.values("", "scalar/micro_loss").tolist() == seen.losses


def test_compiled_parts_of_a_model_keep_their_sites_and_are_seen_at_their_boundary(alike):
    def train(watching):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(0)
        model = nn.Sequential(torch.compile(network(), backend="eager"), nn.Linear(2, 2))
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        with watching(model, optimizer):
            loss = model(torch.ones(3, 4)).square().mean()
            loss.backward()
            optimizer.step()
        return [loss.item()], model

    seen = alike(train)
    assert {site: seen.calls(site) for site in ("0", "0.0", "0.2", "1", "")} == {
        "0": 1,
        "0.0": 0,
        "0.2": 0,
        "1": 1,
        "": 1,
    }
    assert len(seen.values("0.2.bias", "gradient/l2_norm")) == 1
    modules = {module.site: module for module in seen.store.structure(seen.run).modules}
    assert modules["0"].kind == "Network"
    assert modules["1"].inputs == ("0",)


def test_a_model_compiled_and_called_before_it_is_watched_runs_its_graph_on(alike):
    def train(watching):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model, _ = in_place("eager")
        model(torch.ones(5, 4)).sum().backward()
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        losses = []
        with watching(model, optimizer):
            for _ in range(2):
                optimizer.zero_grad()
                loss = model(torch.ones(5, 4)).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, model

    seen = alike(train)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert len(seen.values("0.weight", "gradient/l2_norm")) == 2
