"""Modes that lie on torch's stack while a step is followed, and leave it in any order."""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.function_mode import FunctionMode  # noqa: E402


def _stack():
    return torch.overrides._get_current_function_mode_stack()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_modes_leave_in_any_order(order):
    modes = [FunctionMode() for _ in range(3)]
    assert all(mode.begin() for mode in modes)
    off = [modes[number].leave() for number in order]
    assert _stack() == []
    assert off[-1]
    assert off[0] is (order[0] == 2)


def test_a_mode_that_begins_again_before_it_could_leave_stays():
    lower, upper = FunctionMode(), FunctionMode()
    assert lower.begin()
    assert upper.begin()
    assert not lower.leave()
    assert lower.begin()
    assert upper.leave()
    assert _stack() == [lower]
    assert lower.leave()


ACTOR = """
actor, critic = net(3, 8, 1), net(4, 8, 1)
import copy
slow = copy.deepcopy(critic)
optimizers = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
for step in range(90):
    x = torch.randn(16, 3)
    with torch.no_grad():
        wanted = x[:, :1] + 0.9 * slow(torch.cat([x + 0.1, actor(x + 0.1)], 1))
    loss = (critic(torch.cat([x, torch.rand(16, 1)], 1)) - wanted).pow(2).mean()
    optimizers[1].zero_grad()
    loss.backward()
    optimizers[1].step()
    if step % 2:
        optimizers[0].zero_grad()
        (-critic(torch.cat([x, actor(x)], 1)).mean()).backward()
        optimizers[0].step()
    with torch.no_grad():
        for one, other in zip(slow.parameters(), critic.parameters()):
            one.lerp_(other, 0.05)
    losses.append(loss.item())
trained = [actor, critic]
assert not torch.overrides._get_current_function_mode_stack()
"""


def test_no_mode_stays_where_optimizers_take_turns(run_alike):
    """One that stayed would look at every later call of the training."""
    store, found, _ = run_alike(ACTOR)
    assert found.state == "finished"
    kinds = [one.data["name"] for one in store.events(found.id, kind="training_kind")]
    assert kinds[-1] == "value"
