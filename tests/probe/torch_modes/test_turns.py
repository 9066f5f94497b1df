"""Learners whose optimizers step by turns, unevenly: each has checks at steps of its own."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

CRITIC = """
G, D = net(4, 16, 2)[:-1], nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.RMSprop({stepped}, 1e-3)
opt_d = torch.optim.RMSprop(D.parameters(), 1e-3)
data = torch.randn(256, 2) / 2
for step in range(12):
    for turn in range(5):
        fake = G(torch.randn(32, 4)).detach()
        loss = D(fake).mean() - D(data[torch.randint(0, 256, (32,))]).mean()
        opt_d.zero_grad()
        loss.backward()
        opt_d.step()
    {made}
    loss = -D({judged}).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    losses.append(loss.item())
trained = [G, D]
"""
RIGHT = {"stepped": "G.parameters()", "made": "fake = G(torch.randn(32, 4))", "judged": "fake"}
ACTOR = """
A, Q = net(3, 16, 1), net(4, 16, 1)[:-1]
opt_a, opt_q = torch.optim.Adam(A.parameters(), 1e-3), torch.optim.Adam(Q.parameters(), 1e-3)
for step in range(60):
    state, action = torch.randn(32, 3), torch.rand(32, 1)
    loss = functional.mse_loss(Q(torch.cat([state, action], 1)), state[:, :1] * action)
    opt_q.zero_grad()
    loss.backward()
    opt_q.step()
    losses.append(loss.item())
    if step % 2:
        loss = -Q(torch.cat([state, A(state){cut}], 1)).mean()
        opt_a.zero_grad()
        loss.backward()
        opt_a.step()
trained = [A, Q]
"""
GIVEN, REACHED = "stepped_parameters_get_gradients", "reached_parameters_are_stepped"


def _told(run_alike, text):
    store, found, _ = run_alike(text)
    assert not store.events(found.id, kind="monitor_fault")
    events = [one.data for one in store.events(found.id, kind="check")]
    findings = [(one.cause, one.site) for one in store.findings(found.id) if one.severity != "info"]
    return {(one["check"], one["subject"]): one["outcome"] for one in events}, findings


@pytest.mark.parametrize(
    ("change", "check", "finding"),
    [
        ({}, None, []),
        ({"made": ""}, GIVEN, [("frozen_parameter", "G")]),
        ({"judged": "fake.detach()"}, GIVEN, [("frozen_parameter", "G")]),
        ({"stepped": "list(G.parameters())[2:]"}, REACHED, [("parameter_not_in_optimizer", "G")]),
    ],
)
def test_a_generator_between_many_steps_of_its_critic(run_alike, change, check, finding):
    outcomes, findings = _told(run_alike, CRITIC.format(**{**RIGHT, **change}))
    assert {name for (name, _), outcome in outcomes.items() if outcome == "broken"} == ({check} if check else set())
    assert GIVEN in {name for name, _ in outcomes}
    assert findings == finding


def test_a_cut_generator_is_told_the_steps_of_its_optimizer(run_alike):
    store, found, _ = run_alike(CRITIC.format(**{**RIGHT, "judged": "fake.detach()"}))
    told = next(one for one in store.findings(found.id) if one.cause == "frozen_parameter")
    steps = [5, 11, 17, 23, 29, 35]  # each one behind five of its critic
    words = f"any of the {len(steps)} steps of its optimizer that were seen from step {steps[0]} to {steps[-1]}"
    assert words in told.explanation
    assert told.first_step == steps[0]


@pytest.mark.parametrize("cut", ["", ".detach()"])
def test_an_actor_that_waits_for_its_critic(run_alike, cut):
    outcomes, findings = _told(run_alike, ACTOR.format(cut=cut))
    assert outcomes[GIVEN, "A"] == ("broken" if cut else "held")
    assert findings == ([("frozen_parameter", "A")] if cut else [])


def test_optimizers_that_step_together_have_no_turns(run_alike):
    together = ACTOR.format(cut="").replace("if step % 2", "if True")
    assert GIVEN not in {name for name, _ in _told(run_alike, together)[0]}


@pytest.mark.parametrize(
    ("stepped", "is_twice"), [("G.parameters()", False), ("[*G.parameters(), *D.parameters()]", True)]
)
def test_an_optimizer_that_holds_another_learners_parameters_is_named(run_alike, stepped, is_twice):
    store, found, _ = run_alike(CRITIC.format(**{**RIGHT, "stepped": stepped}).replace("range(12)", "range(2)"))
    told = [one for one in store.findings(found.id) if one.cause == "shared_parameter_error"]
    assert {one.site.partition(".")[0] for one in told} == ({"D"} if is_twice else set())
    assert all("RMSprop 0 (which steps G, D) and by RMSprop 1 (which steps D)" in one.explanation for one in told)
