"""A copy that is asked for the states of its own network values no next state; with the same actions it may."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.next_states import NextStates  # noqa: E402


def outcome(*, next_states, next_actions):
    torch.manual_seed(0)
    seen, result = NextStates("target", "critic"), None
    for _ in range(2):
        states, actions = torch.randn(16, 3), torch.randn(16, 2)
        seen.network_called(states, actions)
        seen.copy_called(next_states(states), next_actions(actions))
        result = seen.step_ends()
    return None if result is None else result.outcome


@pytest.mark.parametrize(
    ("next_states", "next_actions", "expected"),
    [
        (lambda x: x + 0.1, lambda a: a.neg(), "held"),
        (lambda x: x, lambda a: a.neg(), "broken"),
        (lambda x: x, lambda a: a, None),  # what a value network is regressed on (Kostrikov et al. 2021, IQL)
    ],
)
def test_the_state_itself_is_no_next_state(next_states, next_actions, expected):
    assert outcome(next_states=next_states, next_actions=next_actions) == expected


def test_calls_without_tensors_say_nothing():
    seen = NextStates("target", "critic")
    seen.copy_called()
    seen.network_called("word", torch.ones(16, 2))
    assert seen.step_ends() is None
