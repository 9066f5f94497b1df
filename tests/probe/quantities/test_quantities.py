"""Quantities on real trainings: recorded where and when they are asked for, and never felt by the training."""

import math

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import Adam
from mindscope.probe import COLLECTORS, quantity, watch
from mindscope.probe.collectors.custom_quantities import QUANTITIES
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

MODEL_AWARE = ("attention", "router", "weight/spectrum", "update/direction", "gradient/signal", "gradient_noise_scale")
WRITES = (lambda one: one.mul_(2), lambda one: one.numpy().fill(2), lambda one: one.data.zero_())
EVERYTHING = {"subjects": dict.fromkeys(MODEL_AWARE, 1), "routers": [{"sites": ["*gate"], "top_k": 2}]}


@pytest.fixture
def taken():
    """`quantity`, and nothing left of it behind the test."""
    before = set(QUANTITIES)
    yield quantity
    for name in set(QUANTITIES) - before:
        del QUANTITIES[name], COLLECTORS[name]


class Net(torch.nn.Module):
    """Attention in three ways, and a router."""

    def __init__(self):
        super().__init__()
        self.mixed = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.own = OwnAttention()
        self.gate = torch.nn.Linear(8, 4)
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        x = x + self.mixed(x, x, x)[0]
        x = x + self.mixed(x, x, x, need_weights=False)[0]
        x = x + torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return self.relu(self.own(x)) * torch.softmax(self.gate(x), -1).max(-1, keepdim=True).values


class OwnAttention(torch.nn.Module):
    """Scores, softmax, values."""

    def forward(self, x):
        return torch.nn.functional.softmax(x @ x.transpose(-1, -2), dim=-1) @ x


def pytorch(config=None, steps=3, micro=1):
    """Losses, records and the events of a PyTorch training, which draws random numbers as it goes."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)

    def step():
        optimizer.zero_grad()
        for _ in range(micro):
            loss = net(torch.randn(3, 6, 8)).square().mean()
            loss.backward()
        optimizer.step()
        return loss.item()

    return trained(net, optimizer, step, config, steps)


def engine(config=None, steps=3):
    """The same of an engine training."""
    attention = nn.MultiHeadSelfAttention(8, 2, key=Key(0))
    mixture = nn.MixtureOfExperts(8, 16, 4, top_k=2, key=Key(1))
    net = Model(attention, mixture).set_train()
    optimizer = Adam(net.trainable_params(), 0.01)
    rng = np.random.default_rng(0)

    def step():
        optimizer.zero_grad()
        loss = net(Tensor(rng.standard_normal((3, 6, 8)).astype(np.float32)))
        loss.backward()
        optimizer.step()
        return loss.numpy().tobytes()

    return trained(net, optimizer, step, config, steps)


class Model(nn.Cell):
    """Attention, then experts."""

    def __init__(self, attention, mixture):
        super().__init__()
        self.attn, self.moe = attention, mixture

    def construct(self, x):
        y, balance, _ = self.moe(x + self.attn(x))
        return (y * y).mean() + 0.01 * balance


def trained(net, optimizer, step, config, steps):
    """Losses; (step, subject, site, call) -> {statistic: value}; scalars of every step; messages of faults."""
    if config is None:
        return [step() for _ in range(steps)], {}, [], []
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config) as monitor:
            losses = [step() for _ in range(steps)]
        records = list(store.replay(monitor.run.id))
    found = {}
    for record in records:
        for block in record.blocks:
            calls = block.layout.calls or (0,) * len(block.layout.sites)
            present = [True] * len(calls) if block.present is None else block.present
            for site, call, row, is_there in zip(block.layout.sites, calls, block.values, present, strict=True):
                if is_there:
                    key = record.step, block.layout.subject, site, call
                    found[key] = dict(zip(block.layout.statistics, row.tolist(), strict=True))
    faults = [event.data["error"] for record in records for event in record.events if event.kind == "monitor_fault"]
    return losses, found, [record.scalars for record in records], faults


@pytest.mark.parametrize("training", [pytorch, engine])
def test_all_of_them_together_leave_the_losses_as_they_are_and_torch_as_it_was(training):
    functions = torch.nn.functional.scaled_dot_product_attention, torch.nn.functional.softmax
    plain, *_ = training()
    config = EVERYTHING if training is pytorch else {"subjects": EVERYTHING["subjects"]}
    losses, found, _, faults = training(config)
    assert losses == plain
    assert faults == []
    assert (torch.nn.functional.scaled_dot_product_attention, torch.nn.functional.softmax) == functions
    assert {"attention", "router", "router/expert", "weight/spectrum", "update/direction"} <= {key[1] for key in found}


def test_those_that_cost_are_not_there_unless_they_are_asked_for():
    _, found, scalars, _ = pytorch({})
    assert not {subject for _, subject, _, _ in found} & {*MODEL_AWARE[2:]}
    assert "gradient_noise_scale" not in scalars[-1]


def test_torch_attention_is_seen_in_its_own_function_in_its_module_and_in_a_softmax():
    _, found, _, _ = pytorch({"subjects": {"attention": {"every": 2}}})
    calls = {(step, site, call) for step, subject, site, call in found if subject == "attention"}
    assert calls == {(s, *c) for s in (0, 2) for c in (("", 0), ("mixed", 0), ("mixed", 1), ("own", 0))}
    torch.manual_seed(0)
    net = Net()
    x = torch.randn(3, 6, 8)
    with torch.no_grad():
        first = net.mixed(x, x, x, average_attn_weights=False)[1].double()
    entropy = -(first * first.log()).sum(-1).mean().item()
    by_weights = found[0, "attention", "mixed", 0]
    assert 0.0 < by_weights["entropy"] <= math.log(6)
    assert by_weights["size"] > 0
    assert found[0, "attention", "", 0]["relative_entropy"] <= 1.0
    flat = found[0, "attention", "mixed", 1]  # through scaled_dot_product_attention: heads of one sample
    assert flat["size"] == 2 * 6
    assert by_weights["entropy"] == pytest.approx(entropy, rel=1e-5)  # all of it: few heads, few queries


def test_engine_attention_and_its_experts_are_seen_and_agree_with_the_weights():
    _, found, _, _ = engine({"subjects": {"attention": 1, "router": 1}})
    attention = found[0, "attention", "attn", 0]
    assert attention["size"] == 2 * 6
    assert 0.0 < attention["entropy"] < math.log(6)
    router = found[0, "router", "moe.router", 0]
    assert router["size"] == 18
    assert router["dropped"] == 0.0
    loads = [found[0, "router/expert", f"moe.router[{e}]", 0]["load"] for e in range(4)]
    assert sum(loads) == pytest.approx(1.0)
    assert max(loads) * 4 == pytest.approx(router["max_load"])


def test_the_spectrum_approaches_the_singular_values_of_the_weights():
    torch.manual_seed(0)
    net = torch.nn.Linear(6, 9)
    optimizer = torch.optim.SGD(net.parameters(), 0.0)

    def step():
        optimizer.zero_grad()
        net(torch.ones(1, 6)).sum().backward()
        optimizer.step()
        return 0.0

    _, found, _, _ = trained(net, optimizer, step, {"subjects": {"weight/spectrum": 1}}, 60)
    values = np.linalg.svd(net.weight.detach().numpy(), compute_uv=False)
    last = found[59, "weight/spectrum", "weight", 0]
    assert last["largest_singular_value"] == pytest.approx(values[0], rel=1e-3)
    assert last["stable_rank"] == pytest.approx((values**2).sum() / values[0] ** 2, rel=2e-3)
    assert (59, "weight/spectrum", "bias", 0) not in found


def test_the_direction_of_updates_and_signals_come_at_their_steps():
    _, found, _, _ = pytorch({"subjects": {"update/direction": 1, "gradient/signal": 1}}, steps=17)
    first, second = (found[step, "update/direction", "gate.weight", 0] for step in (0, 1))
    assert first["agreement"] == 1.0  # Adam's first update is against its first moment
    assert math.isnan(first["cosine_to_previous"])
    assert -1.0 <= second["cosine_to_previous"] <= 1.0
    assert {step for step, subject, _, _ in found if subject == "gradient/signal"} == {15}


def test_the_noise_scale_needs_micro_batches():
    config = {"subjects": {"gradient_noise_scale": 1}, "accumulation_steps": 4}
    _, _, scalars, _ = pytorch(config, steps=4, micro=4)
    assert sum("gradient_noise_scale" in one for one in scalars) == 4
    _, _, scalars, _ = pytorch({"subjects": {"gradient_noise_scale": 1}})
    assert not any("gradient_noise_scale" in one for one in scalars)


def test_routers_that_are_nowhere_and_attention_that_never_comes_are_said():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step():
        optimizer.zero_grad()
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()

    *_, faults = trained(net, optimizer, step, {"subjects": {"router": 1, "attention": 1}}, 4)
    assert any("no module has a child `router`" in fault for fault in faults)
    assert sum("attention was due" in fault for fault in faults) == 1


def test_of_a_router_with_another_number_of_experts_than_declared_nothing_is_recorded():
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Linear(8, 32))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    config = {"subjects": {"router": 1}, "routers": [{"sites": ["0", "1"], "experts": 8}]}
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config) as monitor:
            for _ in range(3):
                optimizer.zero_grad()
                net(torch.ones(2, 3)).sum().backward()
                optimizer.step()
        told = [(one.site, one.data["error"]) for one in store.events(monitor.run.id, kind="monitor_fault")]
        layouts = [one for one in store.layouts(monitor.run.id) if one.subject == "router/expert"]
    ((site, error),) = told
    assert site == "1"
    assert "expected 8 experts, as `routers` says, got 32 logits" in error
    assert {where for one in layouts for where in one.sites} == {f"0[{expert}]" for expert in range(8)}


def test_routers_that_stand_on_another_rank_are_no_fault_of_this_one(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    net = torch.nn.Sequential(torch.nn.Linear(3, 3))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    config = {"subjects": {"router": 1}, "routers": [{"sites": ["stage1.gate"]}]}
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config, rank=0, run_id="pipeline") as monitor:
            net(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        assert not store.events(monitor.run.id, kind="monitor_fault")


def test_a_user_quantity_of_the_step_may_be_a_number_a_mapping_or_one_of_sites(taken):
    @taken("answer")
    def answer(step):
        return step.number * 2.0

    @taken("norms", at="before_step")
    def norms(step):
        return {"gradient": np.linalg.norm(step.gradients["gate.bias"]), "loss": step.loss}

    @taken("my/mean", sites="gate.*")
    def mean(step):
        assert not step.weights["gate.weight"].flags.writeable
        return {site: array.mean() for site, array in step.weights.items()}

    losses, found, scalars, faults = pytorch({"subjects": {"norms": {"every": 2}}})
    assert faults == []
    assert [one["answer"] for one in scalars] == [0.0, 2.0, 4.0]
    assert [one.get("norms/loss") for one in scalars] == [pytest.approx(losses[0]), None, pytest.approx(losses[2])]
    sites = {site for _, subject, site, _ in found if subject == "quantity/my/mean"}
    assert sites == {"gate.weight", "gate.bias"}
    mean_of = found[2, "quantity/my/mean", "gate.bias", 0]["value"]
    assert mean_of == pytest.approx(found[2, "weight", "gate.bias", 0]["mean"], rel=1e-6)


@pytest.mark.parametrize("training", [pytorch, engine])
def test_a_user_quantity_of_the_forward_sees_the_tensor_and_of_the_backward_its_gradient(taken, training):
    plain, *_ = training()
    site = "relu" if training is pytorch else "attn"

    @taken("my/sparsity", at="forward", sites=site)
    def sparsity(tensor):
        torch.rand(3), np.random.rand(3)  # noqa: NPY002  numbers that the training must not miss
        return (tensor == 0).astype(np.float32).mean().item() if training is engine else (tensor == 0).double().mean()

    @taken("my/gradient", at="backward", sites=[site])
    def gradient(tensor):
        values = tensor.numpy()
        return {"largest": np.abs(values).max(), "smallest": np.abs(values).min()}

    losses, found, _, faults = training({})
    assert losses == plain
    assert faults == []
    assert found[1, "quantity/my/sparsity", site, 0]["value"] == pytest.approx(
        found[1, "activation", site, 0]["zeros"] / found[1, "activation", site, 0]["size"]
    )
    seen, exact = found[2, "quantity/my/gradient", site, 0], found[2, "activation_grad", site, 0]
    assert seen["largest"] == pytest.approx(max(exact["max"], -exact["min"]), rel=1e-6)


def test_a_user_quantity_that_fails_is_switched_off_and_reported_once(taken):
    calls = []

    @taken("broken", at="forward", sites="relu")
    def broken(tensor):
        calls.append(tensor)
        raise RuntimeError("no idea")

    @taken("wordy")
    def wordy(step):
        return "three"

    plain, *_ = pytorch()
    losses, _, _, faults = pytorch({})
    assert losses == plain
    assert len(calls) == 1
    assert sorted(faults)[0] == "RuntimeError: no idea"
    assert "quantity 'wordy' must return a number or a mapping of names to numbers, got str" in sorted(faults)[1]


@pytest.mark.parametrize("at", ["forward", "backward"])
@pytest.mark.parametrize("writes", WRITES)
def test_a_user_quantity_that_writes_is_off_before_it_sees_a_tensor_of_the_training(taken, writes, at):
    @taken("mutating", at=at, sites="relu")
    def mutating(tensor):
        writes(tensor)
        return 1.0

    plain, *_ = pytorch()
    losses, found, _, faults = pytorch({})
    assert losses == plain
    (fault,) = faults
    assert "quantity 'mutating' must not write into its tensor" in fault
    assert not any(subject == "quantity/mutating" for _, subject, _, _ in found)


@pytest.mark.parametrize("first", [0, 3])
def test_nor_does_it_see_one_of_the_engine_that_it_could_write(taken, first):
    calls = []

    @taken("mutating", at="forward", sites="attn")
    def mutating(tensor):
        calls.append(tensor)
        if len(calls) > first:
            tensor[...] = 2.0
        return 1.0

    plain, *_ = engine(steps=6)
    losses, _, _, faults = engine({}, steps=6)
    assert losses == plain
    assert len(calls) == first + 1
    assert len(faults) == 1


def test_one_that_writes_at_a_later_call_is_off_from_then_on_and_the_training_is_said_to_be_touched(taken):
    calls = []

    @taken("sometimes", at="forward", sites="1")
    def sometimes(tensor):
        calls.append(tensor)
        return (tensor.mul_(2) if len(calls) == 3 else tensor).sum()

    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.0))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store) as monitor:
            for _ in range(6):
                optimizer.zero_grad()
                net(torch.ones(2, 3)).sum().backward()
                optimizer.step()
        (fault,) = store.events(monitor.run.id, kind="monitor_fault")
    assert len(calls) == 3
    assert (fault.step, fault.data["touched"]) == (2, True)
    assert "quantity 'sometimes' has written into a tensor of the training" in fault.data["error"]


def test_names_are_unique_but_a_cell_of_a_notebook_may_run_again(taken):
    def define():
        @taken("again")
        def again(step):
            return 1

        return again

    define()
    second = define()
    assert QUANTITIES["again"].function is second
    with pytest.raises(ValueError, match="'again' already"):
        taken("again")(lambda step: 0)
    with pytest.raises(ValueError, match="'gradient' already"):
        taken("gradient")(lambda step: 0)
    with pytest.raises(ValueError, match="at must be one of"):
        taken("new", at="sometimes")


class Sparse(torch.nn.Module):
    """Experts behind a gate, as many models write them."""

    def __init__(self):
        super().__init__()
        self.gate, self.num_experts_per_tok = torch.nn.Linear(8, 3, bias=False), 2
        self.experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.gate_proj = torch.nn.Linear(8, 8)

    def forward(self, x):
        weights, chosen = torch.softmax(self.gate(x), -1).topk(2)
        every = torch.stack([expert(x) for expert in self.experts], -2)
        taken = every.gather(-2, chosen[..., None].expand(*chosen.shape, 8))
        return (taken * weights[..., None]).sum(-2) * torch.sigmoid(self.gate_proj(x))


def test_attention_and_routers_are_seen_unasked_at_every_tenth_step():
    torch.manual_seed(0)
    net = torch.nn.Sequential(OwnAttention(), Sparse())
    optimizer = torch.optim.SGD(net.parameters(), 0.01)

    def step():
        optimizer.zero_grad()
        loss = net(torch.randn(3, 6, 8)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    _, found, _, faults = trained(net, optimizer, step, {}, 11)
    assert not faults
    assert sorted(key[0] for key in found if key[1] == "attention") == [0, 1, 2, 4, 7, 10]  # early, and then
    assert {key[2] for key in found if key[1] == "router"} == {"1.gate"}
    loads = [found[10, "router/expert", f"1.gate[{expert}]", 0]["load"] for expert in range(3)]
    assert sum(loads) == pytest.approx(1.0)
    assert max(loads) <= 0.5  # two different experts of every token


def test_a_model_without_attention_or_experts_is_asked_for_neither():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    functions = torch.nn.functional.softmax, torch.nn.functional.scaled_dot_product_attention
    with watch(net, optimizer, store=open_store("memory:")):
        assert (torch.nn.functional.softmax, torch.nn.functional.scaled_dot_product_attention) == functions
