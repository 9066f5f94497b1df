"""Every optimizer of torch is watched with its slots by their own names, however it is called."""

import inspect
from contextlib import suppress

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional

OPTIMIZERS = {
    name: one
    for name, one in vars(torch.optim).items()
    if inspect.isclass(one) and issubclass(one, torch.optim.Optimizer) and one is not torch.optim.Optimizer
}
OPTIONS = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.5, "centered": True}, "Adafactor": {"beta2_decay": -0.8}}
#: Slots that each must show; of those that are not named here, whatever they keep.
SLOTS = {
    "SGD": {"momentum_buffer"},
    "Adam": {"exp_avg", "exp_avg_sq"},
    "AdamW": {"exp_avg", "exp_avg_sq"},
    "Adamax": {"exp_avg", "exp_inf"},
    "Adagrad": {"sum"},
    "Adadelta": {"square_avg", "acc_delta"},
    "RMSprop": {"square_avg", "grad_avg", "momentum_buffer"},
    "Rprop": {"prev", "step_size"},
    "LBFGS": {"d", "prev_flat_grad"},
}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8, bias=False), nn.Tanh(), nn.Linear(8, 2, bias=False))


def training(build, *, steps=3, closure=False, model=network, each=lambda number, optimizer: None):
    def train(watching):
        net = model()
        optimizer = build(net)
        losses = []

        def evaluate():
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            return loss

        with watching(net, optimizer):
            for number in range(steps):
                x = torch.randn(5, 4)
                if closure:
                    losses.append(optimizer.step(evaluate).item())
                else:
                    losses.append(evaluate().item())
                    optimizer.step()
                each(number, optimizer)
        return losses, net

    return train


@pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - {"SparseAdam"}))
def test_slots_of_every_optimizer_have_their_own_names(alike, name):
    build = OPTIMIZERS[name]
    options = OPTIONS.get(name, {})
    seen = alike(training(lambda net: build(net.parameters(), lr=1e-2, **options), closure=name == "LBFGS"))
    metrics = seen.store.metrics(seen.run)
    slots = {metric.split("/")[1] for metric in metrics if metric.startswith("optimizer/")}
    assert SLOTS.get(name, slots) <= slots
    assert slots
    assert seen.values("", "scalar/loss").tolist() == seen.losses
    assert len(seen.values("0.weight", "gradient/l2_norm")) == 3
    assert seen.store.structure(seen.run).optimizers[0].kind == name
    assert seen.faults() == []


@pytest.mark.parametrize("kept", ["both", "alone"])
def test_a_slot_that_is_a_number_in_some_steps_is_recorded_in_the_others(alike, kept):
    class Steps(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            self.count = getattr(self, "count", 0) + 1
            for at, parameter in enumerate(self.param_groups[0]["params"]):
                size = parameter.grad.norm()  # as the step size of L-BFGS with a line search
                is_number = self.count == 2 and (kept == "alone" or at == 0)
                self.state[parameter]["t"] = size.item() if is_number else size.reshape(1)

    seen = alike(training(lambda net: Steps(net.parameters(), lr=1e-2, momentum=0.9)))
    assert seen.faults() == []
    steps = seen.store.series(seen.run, "0.weight", "optimizer/t/l2_norm").steps
    assert list(steps) == [0, 2]
    other = seen.store.series(seen.run, "2.weight", "optimizer/t/l2_norm")
    assert len(other.steps) == (2 if kept == "alone" else 3)


class Halved(torch.optim.SGD):
    """Steps twice by the half of its rate, by `super().step()`, and refuses a step now and then."""

    refuses = False

    @torch.no_grad()
    def step(self, closure=None):
        for _ in range(2):
            super().step(closure)
        if self.refuses:
            raise ZeroDivisionError


@pytest.mark.parametrize("refused", [(), (1,)], ids=["all well", "one refused"])
def test_an_optimizer_that_steps_by_its_base_class_makes_one_step(alike, refused):
    torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1)  # from here on torch calls the hooks in the base class too

    def train(watching):
        net = network()
        optimizer, losses = Halved(net.parameters(), lr=1e-2), []
        with watching(net, optimizer):
            for number in range(4):
                optimizer.zero_grad()
                loss = net(torch.randn(5, 4)).square().mean()
                loss.backward()
                optimizer.refuses = number in refused
                with suppress(ZeroDivisionError):
                    optimizer.step()
                losses.append(loss.item())
        return losses, net

    seen = alike(train)
    assert seen.faults() == []
    recorded = seen.store.series(seen.run, "", "scalar/learning_rate").steps
    assert len(recorded) == 4 - len(refused)
    assert seen.store.find_run(seen.run).last_step == 3 - len(refused)


@pytest.mark.parametrize("history", [2, 100])
def test_of_the_histories_of_lbfgs_the_newest_entries_are_recorded_from_the_first_step_on(alike, history):
    kept = []

    def keep(_, optimizer):
        state = optimizer.state[optimizer.param_groups[0]["params"][0]]
        kept.append([state[name][-1].norm().item() for name in ("old_dirs", "old_stps")])

    def build(net):
        return torch.optim.LBFGS(net.parameters(), lr=1e-2, max_iter=3, history_size=history)

    seen = alike(training(build, closure=True, each=keep))
    slots = {one.split("/")[1] for one in seen.store.metrics(seen.run) if one.startswith("optimizer/")}
    histories = {"old_dirs[-1]", "old_stps[-1]", "ro[-1]", "al[-1]"}
    assert slots == {"d", "H_diag", "prev_flat_grad"} | histories
    for at, name in enumerate(("old_dirs", "old_stps")):
        recorded = seen.values("0.weight", f"optimizer/{name}[-1]/l2_norm")
        np.testing.assert_allclose(recorded, [two[at] for two in kept[3:]], rtol=1e-6)


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}, {"capturable": False}])
def test_the_ways_adam_is_computed_are_watched_alike(alike, options):
    seen = alike(training(lambda net: torch.optim.AdamW(net.parameters(), 1e-2, **options)))
    assert len(seen.values("2.weight", "optimizer/exp_avg_sq/std")) == 3


@pytest.mark.parametrize("name", ["SGD", "AdamW", "LBFGS"])
def test_a_closure_is_looked_at_once_with_the_gradients_it_has_found(alike, name):
    found = []

    def train(watching):
        net = network()
        optimizer = OPTIMIZERS[name](net.parameters(), lr=0.1)
        losses, evaluations = [], []
        with watching(net, optimizer):
            for _ in range(3):
                x, first = torch.randn(5, 4), []

                def evaluate(x=x, first=first):
                    optimizer.zero_grad()
                    loss = net(x).square().mean()
                    loss.backward()
                    evaluations.append(loss.item())
                    first.append(net[0].weight.grad.norm().item())
                    return loss

                losses.append(optimizer.step(evaluate).item())
                found.append(first[0])
        assert len(evaluations) > 3 or name != "LBFGS"
        return losses, net

    seen = alike(train)
    np.testing.assert_allclose(seen.values("0.weight", "gradient/l2_norm"), found[3:], rtol=1e-6)
    assert [(record.step, record.micro_step) for record in seen.records()] == [(0, 0), (1, 0), (2, 0)]
    assert [seen.calls("0", step) for step in range(3)] == [1, 1, 1]
    assert [seen.calls("0", step, "activation_grad") for step in range(3)] == [1, 1, 1]
    assert (seen.values("0.weight", "update/l2_norm") > 0).all()
    assert seen.events("gradient_before_forward") == ()


def test_a_closure_by_keyword_and_an_optimizer_that_turns_up_by_itself(alike):
    def train(watching):
        net = network()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        losses = []
        with watching(net):
            for _ in range(2):

                def evaluate():
                    optimizer.zero_grad()
                    loss = net(torch.ones(2, 4)).square().mean()
                    loss.backward()
                    return loss

                losses.append(optimizer.step(closure=evaluate).item())
        return losses, net

    seen = alike(train)
    assert len(seen.values("2.weight", "gradient/l2_norm")) == 2
    assert seen.values("", "scalar/loss").tolist() == seen.losses


def test_sparse_adam_is_watched_with_its_sparse_gradients(alike):
    def train(watching):
        torch.manual_seed(0)
        net = nn.Embedding(10, 4, sparse=True)
        optimizer = torch.optim.SparseAdam(net.parameters(), 0.1)
        losses = []
        with watching(net, optimizer):
            for _ in range(3):
                optimizer.zero_grad()
                loss = net(torch.tensor([1, 2])).square().sum()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, net

    seen = alike(train)
    assert len(seen.values("weight", "optimizer/exp_avg/std")) == 3
    assert len(seen.values("weight", "update/l2_norm")) == 3
    assert len(seen.values("weight", "gradient/l2_norm")) == 3
    assert not seen.faults()


def test_groups_have_their_own_rates_and_a_group_may_join_later(alike):
    def build(net):
        return torch.optim.SGD([{"params": net[0].parameters(), "lr": 0.1}], lr=0.5, momentum=0.9)

    def join(number, optimizer):
        if number == 0:
            optimizer.add_param_group({"params": joining[-1][2].parameters(), "lr": 0.01})

    joining = []
    seen = alike(training(build, steps=4, model=lambda: joining.append(network()) or joining[-1], each=join))
    assert seen.values("", "scalar/learning_rate").tolist() == [0.1] * 4
    assert seen.values("", "scalar/learning_rate/1").tolist() == [0.01] * 3
    assert len(seen.values("2.weight", "optimizer/momentum_buffer/std")) == 3
    groups = {one.site: one.group for one in seen.store.structure(seen.run).parameters}
    assert groups == {"0.weight": (0, 0), "2.weight": (0, 1)}


def test_rates_follow_their_scheduler_and_gradients_are_recorded_after_clipping(alike):
    def train(watching):
        net = network()
        optimizer = torch.optim.SGD(net.parameters(), 0.8)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        losses = []
        with watching(net, optimizer):
            for _ in range(3):
                optimizer.zero_grad()
                loss = net(torch.full((2, 4), 9.0)).square().sum()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.25)
                optimizer.step()
                scheduler.step()
                losses.append(loss.item())
        return losses, net

    seen = alike(train)
    assert seen.values("", "scalar/learning_rate").tolist() == [0.8, 0.4, 0.2]
    norms = np.hypot(seen.values("0.weight", "gradient/l2_norm"), seen.values("2.weight", "gradient/l2_norm"))
    np.testing.assert_allclose(norms, 0.25, rtol=1e-4)


def test_frozen_and_tied_parameters(alike):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.body = nn.Embedding(6, 4), nn.Linear(4, 4)
            self.head = nn.Linear(4, 6, bias=False)
            self.head.weight = self.embedding.weight
            self.body.weight.requires_grad_(False)

        def forward(self, x):
            return self.head(self.body(self.embedding(x)))

    def train(watching):
        torch.manual_seed(0)
        net = Tied()
        optimizer = torch.optim.AdamW([one for one in net.parameters() if one.requires_grad], 1e-2)
        losses = []
        with watching(net, optimizer):
            for _ in range(3):
                optimizer.zero_grad()
                loss = functional.cross_entropy(net(torch.tensor([1, 2, 3])), torch.tensor([2, 3, 4]))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, net

    seen = alike(train)
    assert len(seen.values("embedding.weight", "gradient/l2_norm")) == 3
    assert len(seen.values("head.weight", "gradient/l2_norm")) == 0  # it is the same parameter
    assert len(seen.values("body.weight", "gradient/l2_norm")) == 0
    assert seen.values("body.weight", "update/l2_norm").tolist() == [0.0] * 3
    frozen = {one.site: one.requires_grad for one in seen.store.structure(seen.run).parameters}
    assert frozen["body.weight"] is False


TWO = """
first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
rates = (0.1, 0.2)
optimizers = [torch.optim.SGD(part.parameters(), rate) for part, rate in zip((first, second), rates)]
for step in range(4):
    for part, optimizer in zip((first, second), optimizers):
        loss = (part(torch.randn(8, 2)) - 1.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        first.weight.mul_(0.5)  # no optimizer does that
trained = [first, second]
"""


def test_each_of_several_optimizers_moves_its_own_weights(run_alike):
    store, found, _ = run_alike(TWO)
    for name, rate in (("first", 0.1), ("second", 0.2)):
        updates, gradients = (
            store.series(found.id, f"{name}.weight", f"{what}/l2_norm").values for what in ("update", "gradient")
        )
        assert len(updates) == 4
        assert updates == pytest.approx(rate * gradients, rel=1e-5)
