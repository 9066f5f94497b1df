"""What a generator and its judge tell about each other: labels of what is made, whose loss lowers which score."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

LABELS, APART = "judge_sees_the_labels_of_what_is_made", "generator_and_judge_pull_apart"
GAN = """
class Conditional(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.label, self.net = nn.Embedding(4, 3), net(inputs + 3, 8, outputs)
    def forward(self, x, y):
        return self.net(torch.cat([x, self.label(y)], 1))
maker, judge = Conditional(3, 2), Conditional(2, 1)
trained = [maker, judge]
of_maker, of_judge = (torch.optim.Adam(one.parameters(), 1e-3) for one in trained)
for _ in range(30):
    real, y = torch.randn(16, 2), torch.randint(0, 4, (16,))
    other = torch.randint(0, 4, (16,))
    fake = maker(torch.randn(16, 3), {made_of})
    loss = {judged}
    of_judge.zero_grad()
    loss.backward()
    of_judge.step()
    loss = {made}
    of_maker.zero_grad()
    loss.backward()
    of_maker.step()
    losses.append(loss.item())
"""
WASSERSTEIN = "judge(fake.detach(), y).mean() - judge(real, y).mean()"
CROSS_ENTROPY = "functional.softplus(judge(fake.detach(), y)).mean() + functional.softplus(-judge(real, y)).mean()"
WITH_WRONG_PAIRS = f"{WASSERSTEIN} + judge(fake.detach(), other).mean() + judge(real, other).mean()"


def _outcomes(run_alike, made_of="y", judged=WASSERSTEIN, made="-judge(fake, y).mean()"):
    store, found, _ = run_alike(GAN.format(made_of=made_of, judged=judged, made=made))
    events = store.events(found.id, kind="check")
    outcomes = {(event.data["check"], event.data["outcome"]) for event in events}
    causes = {one.cause for one in store.findings(found.id) if one.severity != "info"}
    return {check: outcome for check, outcome in sorted(outcomes, reverse=True)}, causes


def test_a_judge_that_sees_other_labels_is_told(run_alike):
    outcomes, causes = _outcomes(run_alike, made_of="other")
    assert outcomes[LABELS] == "broken"
    assert "uninformative_labels" in causes


@pytest.mark.parametrize("judged", [WASSERSTEIN, CROSS_ENTROPY])
def test_a_generator_that_helps_its_judge_is_told(run_alike, judged):
    outcomes, causes = _outcomes(run_alike, judged=judged, made="judge(fake, y).mean()")
    assert outcomes[APART] == "broken"
    assert "wrong_loss_sign" in causes


@pytest.mark.parametrize("made", ["-judge(fake, y).mean()", "functional.softplus(-judge(fake, y)).mean()"])
def test_a_generator_that_wants_to_be_taken_for_data_is_not(run_alike, made):
    outcomes, causes = _outcomes(run_alike, made=made)
    assert (outcomes[LABELS], outcomes[APART]) == ("held", "held")
    assert not causes & {"wrong_loss_sign", "uninformative_labels"}


def test_wrong_pairs_beside_right_ones_are_meant(run_alike):
    outcomes, _ = _outcomes(run_alike, judged=WITH_WRONG_PAIRS)
    assert outcomes[LABELS] == "held"


ACTOR = """
actor, critic = net(4, 8, 2), net(6, 8, 1)
trained = [actor, critic]
of_actor, of_critic = (torch.optim.Adam(one.parameters(), 1e-3) for one in trained)
for _ in range(30):
    state, action = torch.randn(16, 4), torch.randn(16, 2)
    loss = (critic(torch.cat([state, action], 1)) - state[:, :1]).square().mean()
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    for parameter in critic.parameters():
        parameter.requires_grad_({needed})
    mean = actor(state)
    drawn = mean + 0.1 * torch.randn_like(mean)
    loss = (0.1 * mean.square().sum(1, keepdim=True) - critic(torch.cat([state, {action}], 1))).mean()
    of_actor.zero_grad()
    loss.backward()
    of_actor.step()
    for parameter in critic.parameters():
        parameter.requires_grad_(True)
    losses.append(loss.item())
"""


@pytest.mark.parametrize(
    ("action", "needed", "is_told"),
    [("drawn.detach()", False, True), ("drawn", False, False), ("drawn", True, False), ("drawn.detach()", True, True)],
)
def test_a_frozen_critic_that_passes_no_gradient_on_is_told(run_alike, action, needed, is_told):
    store, found, _ = run_alike(ACTOR.format(action=action, needed=needed))
    causes = {one.cause for one in store.findings(found.id) if one.severity != "info"}
    assert ("wrong_backward" in causes) == is_told
