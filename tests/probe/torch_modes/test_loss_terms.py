"""Losses that ask one network in order to train another, each with an optimizer of its own."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.loss_terms import LossTerms  # noqa: E402

TRAINING = """
actor, critic = net(3, 8, 2), net(4, 8, 1)
one, two = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
for step in range(30):
    x = torch.randn(16, 3)
    action = torch.rand(16, 1)
    loss = (critic(torch.cat([x, action], 1)) + (action - x[:, :1]).square()).square().mean()
    two.zero_grad()
    loss.backward()
    two.step()
    mean, width = actor(x).chunk(2, 1)
    choices = torch.distributions.Normal(mean, width.clamp(-3, 3).exp())
    drawn = choices.{draw}()
    judged = critic(torch.cat([x, drawn], 1))
    loss = (0.1 * choices.log_prob(drawn) - judged).mean()
    one.zero_grad()
    loss.backward()
    one.step()
    losses.append(loss.item())
trained = [actor, critic]
"""


@pytest.mark.parametrize(("draw", "outcome"), [("sample", "broken"), ("rsample", "held")])
def test_an_actor_and_its_critic(run_alike, draw, outcome):
    store, found, _ = run_alike(TRAINING.format(draw=draw))
    told = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert told.get("answers_in_a_loss_depend_on_what_it_trains") == outcome
    named = {one.cause for one in store.findings(found.id)}
    assert ("wrong_backward" in named) == (outcome == "broken")


def _result(*losses):
    """Return what these losses tell of two networks, `a` and `b`, with an optimizer each."""
    a, b = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    x, terms = torch.ones(4, 2), LossTerms()
    groups = {id(one): number for number, network in enumerate((a, b)) for one in network.parameters()}
    for loss in losses:
        terms.read(loss(a(x), b(x)), groups)
    return terms.step_ends({0: "a", 1: "b"})


OF_B = lambda a, b: b.square().mean()  # noqa: E731


@pytest.mark.parametrize(
    ("losses", "outcome"),
    [
        ([OF_B, lambda a, b: (a.exp() - b).mean()], "broken"),
        ([OF_B, lambda a, b: 0.5 * (a.exp().sum() + b.sum() / 3)], "broken"),
        ([OF_B, lambda a, b: (a * b).mean()], "held"),  # a baseline, which weighs
        ([OF_B, lambda a, b: (a - b).square().mean()], "held"),  # one learns the other's answers
        ([lambda a, b: a.square().mean() + b.square().mean()], None),  # one loss for both
        ([OF_B, lambda a, b: a.square().mean()], None),
        ([lambda a, b: (a.exp() - b).mean()], None),
        ([], None),
    ],
)
def test_terms(losses, outcome):
    result = _result(*losses)
    assert (None if result is None else result.outcome) == outcome
