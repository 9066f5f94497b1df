"""Values that a loss is made of are placed at the modules whose parameters are behind them."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.loss_graph import loss_is_minimised, nodes_of_loss, pairs_are_compared_once  # noqa: E402
from mindscope.probe.checks.parts_of_graph import UNKNOWN_PARTS, PartsOfGraph  # noqa: E402


@pytest.fixture
def agent():
    return torch.nn.ModuleDict(
        {
            "actor": torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)),
            "critic": torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)),
        }
    )


def test_the_nearest_module_and_the_one_that_holds_all(agent):
    parts = PartsOfGraph(agent.named_parameters)
    x = torch.randn(6, 4)
    values, actions = agent["critic"](x), agent["actor"](x)
    assert parts.maker_of(values.grad_fn) == "critic.2"
    assert parts.makers_of(values.grad_fn) == "critic"
    assert parts.makers_of((values.sum() + actions.sum()).grad_fn) == ""
    assert parts.makers_of(torch.ones(1, requires_grad=True).exp().grad_fn) == ""
    assert UNKNOWN_PARTS.maker_of(values.grad_fn) == UNKNOWN_PARTS.makers_of(values.grad_fn) == ""


def test_predictions_that_are_compared_with_all_targets_are_placed_at_their_layer(agent):
    values = agent["critic"](torch.randn(6, 4))
    loss = (values - torch.randn(6)).square().mean()
    nodes = nodes_of_loss(loss, [])
    told = pairs_are_compared_once(nodes, {6}, PartsOfGraph(agent.named_parameters))
    assert (told.outcome, told.where) == ("broken", "critic.2")


def test_a_loss_that_is_raised_is_placed_at_the_network_that_it_trains(agent):
    values = agent["critic"](torch.randn(6, 4))
    plain = torch.nn.functional.mse_loss(values, torch.randn(6, 1))
    (told,) = loss_is_minimised(-plain, [("mse_loss", plain)], PartsOfGraph(agent.named_parameters))
    assert (told.outcome, told.where) == ("broken", "critic")
