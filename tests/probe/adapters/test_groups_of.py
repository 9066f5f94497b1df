"""A parameter is counted once for each group that steps it, and a group that two optimizers share is one."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.adapters.call_order import groups_of  # noqa: E402


class Wrapping(torch.optim.Optimizer):
    """Shares its groups with the optimizer that it wraps, as sharpness-aware minimisation does."""

    def __init__(self, parameters):
        super().__init__(parameters, {"rho": 0.05})
        self.base = torch.optim.SGD(self.param_groups, lr=0.1)
        self.param_groups = self.base.param_groups


def test_a_group_that_is_shared_with_the_wrapped_optimizer_counts_once():
    weight = torch.nn.Parameter(torch.ones(3))
    wrapping = Wrapping([weight])
    assert groups_of([wrapping, wrapping.base]) == {id(weight): ((0, 0),)}


def test_two_groups_of_their_own_count_twice():
    weight = torch.nn.Parameter(torch.ones(3))
    several = [torch.optim.SGD([weight], lr=0.1), torch.optim.Adam([weight], lr=0.1)]
    assert groups_of(several) == {id(weight): ((0, 0), (1, 0))}
