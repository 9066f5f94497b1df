"""What a step does where the optimizer, or a group of it, maximises: policies, entropies, distances, divergences."""

import mindscope as ms
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 3), nn.Linear(4, 1)

    def forward(self, x):
        return torch.distributions.Categorical(logits=self.actor(x)), self.critic(x)[:, 0]


def outcomes(tmp_path, model, objective, groups):
    """Train by what is raised in the groups that maximise, and return {check: outcome}, with findings of the sign."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(groups, 1e-3)
    with ms.watch(model, optimizer, store=tmp_path / "runs") as monitor:
        for _ in range(28):
            loss = objective(model)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    store = ms.open_store(tmp_path / "runs")
    events = store.events(monitor.run.id, kind="check")
    causes = {found.cause for found in ms.diagnose(store, monitor.run.id).findings}
    return {event.data["check"]: event.data["outcome"] for event in events}, "wrong_loss_sign" in causes


def policy(sign, *, of_critic):
    def objective(model):
        choices, value = model(torch.randn(32, 4))
        chosen, returns = choices.log_prob(choices.sample()), torch.randn(32)
        gain = (chosen * (returns - value).detach()).mean() + 0.01 * choices.entropy().mean()
        return sign * gain + of_critic * functional.mse_loss(value, returns)

    return objective


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("is_whole", [True, False], ids=["all", "the actor alone"])
def test_a_policy_whose_gain_is_maximised(tmp_path, is_whole, sign):
    model = ActorCritic()
    groups = [{"params": model.actor.parameters(), "maximize": True}, {"params": model.critic.parameters()}]
    groups[1]["maximize"] = is_whole
    found, is_told = outcomes(tmp_path, model, policy(sign, of_critic=-1 if is_whole else 1), groups)
    outcome = "held" if sign > 0 else "broken"
    assert found["good_actions_become_likelier"] == found["entropy_is_raised"] == outcome
    assert found["loss_is_minimised"] == "held"
    assert not is_told or sign < 0


@pytest.mark.parametrize("sign", [1, -1])
def test_the_negative_of_a_distance_that_is_maximised(tmp_path, sign):
    model, weights = nn.Linear(4, 2), torch.randn(4, 2)

    def objective(model):
        x = torch.randn(16, 4)
        return -sign * functional.mse_loss(model(x), x @ weights)

    found, is_told = outcomes(tmp_path, model, objective, [{"params": model.parameters(), "maximize": True}])
    assert found["loss_is_minimised"] == ("held" if sign > 0 else "broken")
    assert is_told == (sign < 0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x).chunk(2, 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_evidence_bound_that_is_maximised(tmp_path, sign):
    model = Encoder()

    def objective(model):
        mean, s = model(torch.randn(16, 4))
        sampled = mean + torch.randn_like(mean) * (0.5 * s).exp()
        return sign * (0.5 * (1 + s - mean.square() - s.exp()).sum(1).mean() - (sampled - 1).square().sum(1).mean())

    found, _ = outcomes(tmp_path, model, objective, [{"params": model.parameters(), "maximize": True}])
    assert found["divergence_is_lowered"] == ("held" if sign > 0 else "broken")
