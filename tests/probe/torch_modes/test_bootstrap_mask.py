"""Targets of temporal differences: where an episode ends, the next state has no value."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
import copy
q = net(3, 16, 2)
slow = copy.deepcopy(q)
optimizer = torch.optim.Adam(q.parameters(), 1e-3)
for step in range(30):
    for _ in range(2):  # the agent acts
        q(torch.randn(1, 3)).argmax()
    with torch.no_grad():
        q(torch.randn(1, 3))
    x, following, reward = torch.randn(32, 3), torch.randn(32, 3), torch.randn(32)
    done = torch.rand(32) < 0.1
    with torch.no_grad():
        target = {target}
    chosen = q(x).gather(1, torch.randint(0, 2, (32, 1))).squeeze(1)
    loss = functional.mse_loss(chosen, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for one, other in zip(slow.parameters(), q.parameters()):
            one.lerp_(other, 0.01)
    losses.append(loss.item())
trained = [q, slow]
"""


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        ("reward + 0.9 * (1 - done.float()) * slow(following).max(1)[0]", "held"),
        ("reward + 0.9 * slow(following).max(1)[0] * ~done", "held"),
        ("reward + 0.9 * done.float() * slow(following).max(1)[0]", "broken"),
        ("reward + slow(following).amax(1).mul(0.9 * done)", "broken"),
        # one of two actions is chosen by a mask
        ("reward + (slow(following) * functional.one_hot(q(following).argmax(1), 2)).sum(1)", None),
        ("reward + 0.9 * slow(following).max(1)[0]", None),
    ],
)
def test_the_mask_of_episodes_that_end(run_alike, target, outcome):
    store, found, _ = run_alike(TRAINING.format(target=target))
    events = store.events(found.id, kind="check")
    told = {one.data["check"]: one.data["outcome"] for one in events}
    assert told.get("next_states_count_unless_an_episode_ends") == outcome
    named = [one for one in store.findings(found.id) if one.cause == "stale_target" and one.severity != "info"]
    assert bool(named) == (outcome == "broken")
