"""An optimizer that is made under way, and given to nobody, is watched in the place of the one that was given."""

import mindscope
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, optim = torch.nn, torch.optim

STEPS = 6


def training(next_optimizers, *, before=lambda net, optimizer: None):
    """Trains; `next_optimizers(number, net)` gives those that step from this step on, or None for the same."""

    def train(watching):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        given = optim.Adam(net.parameters(), lr=1e-2)
        stepping, losses = before(net, given) or [given], []
        with watching(net, given):
            for number in range(STEPS):
                stepping = next_optimizers(number, net) or stepping
                net.zero_grad()
                loss = net(torch.randn(5, 4)).square().mean()
                loss.backward()
                for one in stepping:
                    one.step()
                losses.append(loss.item())
        return losses, net

    return train


def test_its_steps_are_steps_with_its_state_and_its_rate(alike):
    def sgd_then_adam(number, net):
        if number == 3:
            return [optim.SGD(net.parameters(), lr=0.5, momentum=0.9)]
        return [optim.Adam(net.parameters(), lr=0.25)] if number == 5 else None

    seen = alike(training(sgd_then_adam))
    assert seen.values("", "scalar/loss").tolist() == seen.losses
    assert seen.values("", "scalar/learning_rate").tolist() == [1e-2] * 3 + [0.5] * 2 + [0.25]
    assert len(seen.values("0.weight", "optimizer/momentum_buffer/l2_norm")) == 2
    assert len(seen.values("0.weight", "optimizer/exp_avg/l2_norm")) == 4
    assert len(seen.values("0.weight", "update/l2_norm")) == STEPS
    told = [(one.step, one.data["optimizer_kind"], one.data["before"]) for one in seen.events("optimizer_changed")]
    assert told == [(3, "SGD", ["Adam"]), (5, "Adam", ["SGD"])]
    assert seen.faults() == []


def test_it_takes_the_place_at_its_first_step_of_a_model_that_has_a_new_head(alike):
    def new_head(number, net):
        if number == 3:
            net[2] = nn.Linear(8, 2)
            return [optim.Adam(net.parameters(), lr=1e-2)]
        return None

    seen = alike(training(new_head))
    assert seen.values("", "scalar/loss").tolist() == seen.losses
    assert len(seen.events("optimizer_changed")) == 1


def test_one_that_never_steps_gives_its_place_to_the_one_that_does(alike):
    seen = alike(training(lambda number, net: None, before=lambda net, _: [optim.SGD(net.parameters(), lr=0.1)]))
    assert seen.values("", "scalar/learning_rate").tolist()[-1] == 0.1
    assert len(seen.values("", "scalar/loss")) >= STEPS - 1


def test_one_that_steps_only_some_of_the_parameters_is_said_once(alike):
    def of_the_head(number, net):
        return [optim.SGD(net[2].parameters(), lr=0.1)] if number == 3 else None

    seen = alike(training(of_the_head))
    (fault,) = seen.faults()
    assert "an optimizer that is not watched (SGD) steps 2 parameters of Sequential" in fault["error"]
    assert len(seen.events("optimizer_changed")) == 0


def test_what_steps_inside_of_a_watched_optimizer_or_beside_it_takes_no_place(alike):
    class Outer(optim.SGD):
        """Has another optimizer step, a new one each time."""

        def step(self, closure=None):
            optim.SGD([one for group in self.param_groups for one in group["params"]], lr=0.1).step()

    def train(watching):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        outer, losses = Outer(net.parameters(), lr=0.1), []
        beside = optim.SGD(net.parameters(), lr=1e-3)
        with watching(net, outer):
            for _ in range(STEPS):
                net.zero_grad()
                loss = net(torch.randn(5, 4)).square().mean()
                loss.backward()
                outer.step()
                beside.step()
                losses.append(loss.item())
        return losses, net

    seen = alike(train)
    assert seen.values("", "scalar/loss").tolist() == seen.losses
    assert len(seen.events("optimizer_changed")) == 0
    assert seen.store.structure(seen.run).optimizers[0].kind == "Outer"


@pytest.mark.parametrize(("made_at", "steps"), [(1, STEPS - 1), (3, STEPS)])  # so early it might be one of two
def test_where_none_was_given_a_new_one_takes_the_place_of_the_one_that_turned_up(made_at, steps):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    with mindscope.open_store("memory:") as store:
        with mindscope.watch(net, store=store) as monitor:
            for number in range(STEPS):
                if number in (0, made_at):
                    optimizer = optim.Adam(net.parameters(), lr=1e-2 / (1 + number))
                net.zero_grad()
                net(torch.randn(5, 4)).square().mean().backward()
                optimizer.step()
        run = monitor.run.id
        rates = store.series(run, "", "scalar/learning_rate").values
        assert rates[-1] == pytest.approx(1e-2 / (1 + made_at))
        (event,) = store.events(run, kind="optimizer_changed")
        assert (event.data["optimizer_kind"], event.data["before"]) == ("Adam", ["Adam"])
        assert len(store.structure(run).optimizers) == 1
        assert monitor.step == steps


def test_where_none_was_given_networks_with_an_optimizer_each_keep_both():
    parts = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    with mindscope.open_store("memory:") as store:
        with mindscope.watch(parts, store=store) as monitor:
            both = [optim.SGD(part.parameters(), 0.1) for part in parts]
            for _ in range(STEPS):
                for part, optimizer in zip(parts, both, strict=True):
                    optimizer.zero_grad()
                    part(torch.ones(1, 2)).sum().backward()
                    optimizer.step()
        assert store.events(monitor.run.id, kind="optimizer_changed") == ()
        assert len(store.structure(monitor.run.id).optimizers) == 2


#: Optimizers whose `step` takes something else first; what is called there may also be asked for its attributes.
OTHER_STEPS = """
class Along(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
    def step(self, direction, g=None, options=None):
        for at, p in enumerate(self.param_groups[0]["params"]):
            p.data.add_(direction[at] if isinstance(direction, list) else direction[at : at + 1].view(1, 1), alpha=0.1)
        return options["closure"]() if options else None
class OfModel(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
    def step(self, network):
        for p in network.inner.parameters():
            p.data.sub_(0.1 * p.grad)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1, bias=False)
    def forward(self, x):
        return self.inner(x)
model = Net()
optimizer = {optimizer}(model.parameters())
for _ in range(steps):
    loss = (model(torch.randn(8, 3)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step({given})
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(
    ("optimizer", "given"),
    [
        ("Along", "[-p.grad for p in model.parameters()], g=3"),
        ("Along", "-model.inner.weight.grad.mean().view(1), options={'closure': lambda: 1}"),
        ("OfModel", "model"),
        ("torch.optim.LBFGS", "lambda: (model(torch.ones(2, 3)) - 1).square().mean()"),
    ],
)
def test_a_step_that_takes_something_else_first_gets_it_as_it_is(run_alike, optimizer, given):
    text = OTHER_STEPS.replace("{optimizer}", optimizer).replace("{given}", given)
    _, _, losses = run_alike(text)
    assert len(set(losses)) > 1


#: All iterations in one call of the optimizer, as programs of physics-informed networks make them.
ONE_CALL = """
x = torch.linspace(-1, 1, 32)[:, None]
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=150, tolerance_change=0, tolerance_grad=0)
def closure():
    optimizer.zero_grad()
    loss = (model(x) - torch.sin(3 * x)).square().mean()
    loss.backward()
    losses.append(loss.item())
    return loss
optimizer.step(closure)
trained = [model]
"""


def test_each_evaluation_of_a_long_search_is_a_step(run_alike):
    store, run, losses = run_alike(ONE_CALL)
    recorded = store.series(run.id, "", "scalar/loss")
    assert len(losses) == 150
    assert recorded.values.tolist() == pytest.approx([losses[0], *losses[64:]])
    assert len(store.series(run.id, "0.weight", "gradient/l2_norm").steps) == len(recorded.steps)
