"""Scripts that train several networks are recorded in one run: sites by the script's names, a loss for each learner."""

from contextlib import chdir

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.storage import open_store  # noqa: E402  after it is known that torch is there
from mindscope.watching import run_script  # noqa: E402

GAN = """
generator, discriminator = net(3, 6, 2), net(2, 6, 1)
of_g = torch.optim.Adam(generator.parameters(), 1e-2)
of_d = torch.optim.Adam(discriminator.parameters(), 1e-2)
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
bce = nn.BCEWithLogitsLoss()
for _ in range(steps):
    fake = generator(torch.randn(8, 3))
    of_d.zero_grad()
    on_real = bce(discriminator(torch.randn(8, 2)), ones)
    on_real.backward()
    on_fake = bce(discriminator(fake.detach()), zeros)
    on_fake.backward()
    of_d.step()
    of_g.zero_grad()
    for_g = bce(discriminator(fake), ones)
    for_g.backward()
    of_g.step()
    losses.append({"discriminator": on_real.item() + on_fake.item(), "generator": for_g.item()})
trained = [generator, discriminator]
"""
LATE_STEPS = """
actor, critic = net(4, 6, 2), net(4, 6, 1)
optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (actor, critic)]
for _ in range(steps):
    states = torch.randn(8, 4)
    of_critic = (critic(states) - states.sum(1, keepdim=True)).square().mean()
    of_actor = -(actor(states).log_softmax(1)[:, 0] * critic(states)[:, 0].detach()).mean()
    for optimizer in optimizers:
        optimizer.zero_grad()
    of_critic.backward()
    of_actor.backward()
    for optimizer in optimizers:
        optimizer.step()
    losses.append({"actor": of_actor.item(), "critic": of_critic.item()})
trained = [actor, critic]
"""
AGENT = """
class Agent:
    def __init__(self):
        self.nets = {"actor": net(4, 6, 2), "critic": net(4, 6, 1)}
        self.optimizers = {name: torch.optim.SGD(one.parameters(), 0.1) for name, one in self.nets.items()}
    def learn(self, name, loss):
        self.optimizers[name].zero_grad()
        loss.backward()
        self.optimizers[name].step()
        return loss.item()
def main():
    agent = Agent()
    for _ in range(steps):
        states = torch.randn(8, 4)
        critic = agent.learn("critic", (agent.nets["critic"](states) - 1).square().mean())
        actor = agent.learn("actor", agent.nets["actor"](states).square().mean())
        losses.append({"agent.nets.critic": critic, "agent.nets.actor": actor})
    return agent
trained = list(main().nets.values())
"""
#: Its critics' forwards are called directly, so that no hook sees them, and the actor's loss reaches them too.
DIRECTLY = """
class Net(nn.Module):
    def __init__(self, i):
        super().__init__()
        self.inner = net(i, 6, 1)
        self.optimizer = torch.optim.SGD(self.parameters(), 0.1)
    def forward(self, x):
        return self.inner(x)
    def learn(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
q1, q2, pi, slow = Net(5), Net(5), Net(4), Net(5)
alpha = torch.zeros(1, requires_grad=True)
of_alpha = torch.optim.SGD([alpha], 0.1)
for _ in range(steps):
    states = torch.randn(8, 4)
    both = torch.cat([states, torch.randn(8, 1)], 1)
    with torch.no_grad():
        values = slow(torch.cat([states, pi(states)], 1)) + 1
    one = q1.learn((q1.forward(both) - values).square().mean())
    two = q2.learn((q2.forward(both) - values).abs().mean())
    acted = torch.cat([states, pi(states)], 1)
    three = pi.learn(-torch.min(q1(acted), q2(acted)).mean())
    of_alpha.zero_grad()
    (alpha.exp() * acted.detach().mean()).backward()
    of_alpha.step()
    losses.append({"q1": one, "q2": two, "pi": three})
trained = [q1, q2, pi]
"""
TRAININGS = {"one after the other": GAN, "both gradients before both steps": LATE_STEPS, "in a dictionary": AGENT}


@pytest.mark.parametrize("name", TRAININGS)
def test_each_learner_has_its_own_loss_and_the_script_ends_as_it_does_alone(run_alike, name):
    store, found, losses = run_alike(TRAININGS[name])
    for learner in losses[0]:
        expected = [step[learner] for step in losses]
        assert store.series(found.id, "", f"scalar/{learner}/loss").values.tolist() == pytest.approx(expected)
        for site, metric in ((f"{learner}.0", "activation/std"), (f"{learner}.0.weight", "gradient/std")):
            assert store.series(found.id, site, metric).values.size >= len(losses), site
    whole = [sum(step.values()) for step in losses]
    series = store.series(found.id, "", "scalar/loss")
    assert (series.steps.tolist(), series.values.tolist()) == ([*range(len(whole))], pytest.approx(whole))
    (event,) = store.events(found.id, kind="learners")
    assert {learner["name"] for learner in event.data["learners"]} == losses[0].keys()


def test_a_loss_whose_forward_no_hook_sees_is_that_of_its_own_learner(run_alike):
    store, found, losses = run_alike(DIRECTLY)
    for learner in losses[0]:
        values = store.series(found.id, "", f"scalar/{learner}/loss").values.tolist()
        own = [step[learner] for step in losses]
        assert values == pytest.approx([own[0], *own[len(own) - len(values) + 1 :]]), learner


def test_terms_that_are_differentiated_one_by_one_are_no_accumulation(run_alike):
    store, found, _ = run_alike(GAN)
    (event,) = store.events(found.id, kind="accumulation")
    assert (event.data["micro_batches"], event.data["terms"], event.data["factor"]) == (1, 3, None)


@pytest.mark.parametrize("cleared", ["before the critic's pass", "before its own pass"])
def test_a_generator_that_keeps_the_gradients_of_the_critics_pass_is_told(run_alike, cleared):
    attached = GAN.replace("fake.detach()", "generator(torch.randn(8, 3))")
    if cleared == "before the critic's pass":
        attached = attached.replace("    of_g.zero_grad()\n", "").replace(
            "    of_d.zero", "    of_g.zero_grad()\n    of_d.zero"
        )
    store, found, _ = run_alike(attached)
    told = [
        (event.step, event.site, event.data["other"]) for event in store.events(found.id, kind="gradient_of_another")
    ]
    assert told == ([(2, "generator", "discriminator")] if cleared == "before the critic's pass" else [])


ONE_NETWORK = {
    "parts of a module that is never called itself": (
        """
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 2), nn.Linear(2, 4)
    def encode(self, x):
        return self.inner(x).tanh()
model = Autoencoder()
optimizer, forward = torch.optim.SGD(model.parameters(), 0.1), lambda x: model.outer(model.encode(x))
trained = [model]
""",
        {"inner.weight", "inner.bias", "outer.weight", "outer.bias"},
    ),
    "one network that two optimizers step": (
        """
body, head = nn.Linear(4, 3), nn.Linear(3, 4)
model = nn.Sequential(body, nn.Tanh(), head)
class Both:
    def __init__(self):
        self.each = [torch.optim.SGD(body.parameters(), 0.1), torch.optim.Adam(head.parameters(), 0.01)]
    def zero_grad(self):
        [one.zero_grad() for one in self.each]
    def step(self):
        [one.step() for one in self.each]
optimizer, forward = Both(), model
trained = [model]
""",
        {"0.weight", "0.bias", "2.weight", "2.bias"},
    ),
    "two networks that one optimizer steps": (
        """
encoder, head = net(4, 3), nn.Linear(3, 4)
teacher = net(4, 3)
head(encoder(torch.ones(1, 4)))  # a look at the shape, before there is an optimizer
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], 0.1)
forward = lambda x: head(encoder(x) + teacher(x).detach())
trained = [encoder, head]
""",
        {"encoder.0.weight", "encoder.0.bias", "head.weight", "head.bias"},
    ),
}
LOOP = """
for _ in range(steps):
    optimizer.zero_grad()
    loss = forward(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


@pytest.mark.parametrize("name", ONE_NETWORK)
def test_one_loss_is_one_learner_whatever_it_reaches(run_alike, name):
    text, sites = ONE_NETWORK[name]
    store, found, losses = run_alike(text + LOOP)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)
    assert not [metric for metric in store.metrics(found.id) if metric.endswith("/loss") and "/" in metric[7:]]
    assert {item.site for item in store.structure(found.id).parameters} == sites
    for site in sites:
        assert len(store.series(found.id, site, "gradient/std").values) == len(losses)


def test_the_effective_loss_of_accumulated_batches_is_recorded_beside_theirs(run_alike):
    loop = """
model = net(4, 1)
optimizer, trained = torch.optim.SGD(model.parameters(), 0.1), [model]
for _ in range(steps):
    optimizer.zero_grad()
    parts = []
    for _ in range(3):
        loss = model(torch.randn(8, 4)).square().mean() / 3
        loss.backward()
        parts.append(loss.item())
    optimizer.step()
    losses.append(parts)
"""
    store, found, losses = run_alike(loop)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx([sum(one) for one in losses])
    assert store.series(found.id, "", "scalar/micro_loss").values.tolist() == pytest.approx(
        [part for one in losses for part in one]
    )


def test_a_network_in_evaluation_mode_is_no_part_of_another_that_trains(run_alike):
    text = """
maker, judge = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2)), net(2, 4, 1)
of_maker, of_judge = (torch.optim.Adam(one.parameters(), 1e-2) for one in (maker, judge))
trained = [maker, judge]
for _ in range(steps):
    maker.eval()
    with torch.no_grad():
        made = maker(torch.randn(8, 3))
    maker.train()
    of_judge.zero_grad()
    loss = (judge(torch.randn(8, 2)) - judge(made)).mean()
    loss.backward()
    of_judge.step()
    judge.eval()
    of_maker.zero_grad()
    judge(maker(torch.randn(8, 3))).mean().backward()
    of_maker.step()
    judge.train()
    losses.append(loss.item())
"""
    store, found, _ = run_alike(text)
    forwards = [forward for event in store.events(found.id, kind="forward_modes") for forward in event.data["forwards"]]
    assert {forward["others_count"] for forward in forwards} == {0}
    assert {(forward["training"], forward["gradients"]) for forward in forwards} == {
        (False, False),
        (True, True),
        (False, True),
    }


def test_an_optimizer_that_takes_over_is_no_second_learner(run_alike):
    text = """
model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
trained = [model]
for phase in (0, 1):
    optimizer = torch.optim.SGD(model[phase].parameters(), 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
    store, found, _ = run_alike(text)
    assert store.events(found.id, kind="learners") == ()


LAYER_BY_LAYER = """
class Layer(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.opt = torch.optim.Adam(self.parameters(), 0.03)
    def forward(self, x):
        return (x / (x.norm(2, 1, keepdim=True) + 1e-4) @ self.weight.T + self.bias).relu()
    def train(self, good, bad):
        for _ in range(20):
            goodness = [-self.forward(good).square().mean(1) + 2, self.forward(bad).square().mean(1) - 2]
            loss = nn.functional.softplus(torch.cat(goodness)).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            losses.append(loss.item())
        return self.forward(good).detach(), self.forward(bad).detach()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        for _ in range(2):
            self.layers = self.layers + [Layer(12, 12)]
    def train(self, good, bad):
        for layer in self.layers:
            good, bad = layer.train(good, bad)
    def predict(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()
the_net = Net()
the_net.train(torch.randn(1200, 12), torch.rand(1200, 12))
for rows in (1000, 300, 1):
    losses.append(the_net.predict(torch.randn(rows, 12)).item())
trained = the_net.layers
"""


def test_layers_that_train_themselves_without_a_call_that_a_hook_sees_are_recorded(run_alike):
    store, found, losses = run_alike(LAYER_BY_LAYER)
    for number in (0, 1):
        series = store.series(found.id, "", f"scalar/the_net.layers.{number}/loss").values.tolist()
        assert series == pytest.approx(losses[20 * number :][:20])
        assert store.series(found.id, f"the_net.layers.{number}.weight", "gradient/std").values.size == 20
    stepped = store.series(found.id, "", "scalar/learner/stepped").values.tolist()
    assert stepped == [1.0] * 20 + [2.0] * 20
    assert not store.events(found.id, kind="monitor_fault")
    assert not [one for one in store.findings(found.id) if one.severity != "info"]


UNSEEN_CALLS = """
model = net(3, 8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(steps):
    hidden = nn.functional.linear(torch.randn(8, 3), model[0].weight, model[0].bias).tanh()
    loss = (nn.functional.linear(hidden, model[2].weight, model[2].bias) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


def test_a_network_of_which_only_the_weights_are_used_is_recorded(run_alike):
    store, found, losses = run_alike(UNSEEN_CALLS)
    assert store.series(found.id, "", "scalar/loss").values.tolist() == pytest.approx(losses)
    assert store.series(found.id, "0.weight", "gradient/std").values.size == len(losses)


KEPT_LOCALS = """
class Actor(nn.Linear): pass
class Critic(nn.Linear): pass
def main(rate=0.1, width=4):
    options = locals()
    actor, critic = Actor(3, width), Critic(width, 1)
    optimizers = [torch.optim.SGD(one.parameters(), rate) for one in (actor, critic)]
    for _ in range(steps):
        loss = critic(actor(torch.randn(8, 3))).square().mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    losses.append(sorted(options))
    return [actor, critic]
trained = main()
"""


def test_what_a_function_keeps_of_its_locals_stays_as_it_is(run_alike):
    store, found, losses = run_alike(KEPT_LOCALS)
    assert losses == [["rate", "width"]]
    for site in ("actor.weight", "critic.weight"):
        assert store.series(found.id, site, "gradient/std").values.size == 4


DELAYED = """
import torch
from torch import nn
torch.manual_seed(0)
actor, critic = nn.Linear(4, 4), nn.Linear(4, 1)
of_actor, of_critic = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
losses = []
for step in range(60):
    states = torch.randn(8, 4)
    of_critic.zero_grad()
    losses.append((critic(states) - 1).square().mean())
    losses[-1].backward()
    of_critic.step()
    if step % 2:
        of_actor.zero_grad()
        losses.append(-critic(actor(states)).mean())
        losses[-1].backward()
        of_actor.step()
"""


def test_an_actor_between_the_recorded_steps_rests_and_is_not_called_frozen(tmp_path):
    """Steps go critic, critic, actor; where every third is recorded, all records are the critic's."""
    (tmp_path / "train.py").write_text(DELAYED)
    (tmp_path / "every.yaml").write_text("every: 3\n")
    assert run_script(tmp_path / "train.py", [], store=tmp_path / "runs", config=tmp_path / "every.yaml") == 0
    with open_store(tmp_path / "runs") as store:
        found = store.find_run("latest")
        told = store.series(found.id, "", "scalar/learner/stepped")
        assert set(told.values[-8:].tolist()) == {told.values[-1]}
        assert "frozen_parameter" not in {one.cause for one in store.findings(found.id)}


@pytest.mark.parametrize("every", [4, 5, 7])
def test_gradients_that_an_unseen_step_has_cleared_are_no_part_of_a_loss(every, tmp_path):
    """The actor's pass reaches the critic, whose gradients are cleared in a step that is not recorded."""
    (tmp_path / "train.py").write_text(f"{DELAYED}\ntorch.save([one.item() for one in losses], 'losses.pt')\n")
    (tmp_path / "every.yaml").write_text(f"every: {every}\n")
    with chdir(tmp_path):
        assert run_script(tmp_path / "train.py", [], store=tmp_path / "runs", config=tmp_path / "every.yaml") == 0
    losses = torch.load(tmp_path / "losses.pt")
    with open_store(tmp_path / "runs") as store:
        run = store.find_run("latest").id
        for name in ("actor", "critic"):
            series = store.series(run, "", f"scalar/{name}/loss")
            later = [(step, value) for step, value in zip(series.steps, series.values, strict=True) if step > 10]
            assert [value for _, value in later] == pytest.approx([losses[step] for step, _ in later])
        assert later
