"""A sigmoid of a sigmoid is told, also of a part of its values; other functions in between are not."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.loss_graph import nodes_of_loss  # noqa: E402  torch is there
from mindscope.probe.checks.twice_bounded import bounded_functions_are_applied_once  # noqa: E402


@pytest.mark.parametrize(
    ("answer", "in_the_loss", "expected"),
    [
        (torch.sigmoid, torch.sigmoid, "broken"),
        (torch.sigmoid, lambda x: torch.sigmoid(x[:, :2]), "broken"),
        (torch.sigmoid, lambda x: torch.sigmoid(x.view(-1)), "broken"),
        (torch.tanh, torch.tanh, "broken"),
        (torch.tanh, torch.sigmoid, "held"),
        (lambda x: x, torch.sigmoid, "held"),
        (torch.sigmoid, lambda x: torch.sigmoid(4.0 * x - 2.0), "held"),
        (torch.sigmoid, lambda x: x, "none"),
        (torch.sigmoid, torch.relu, "none"),
    ],
)
def test_what_is_squeezed_twice(answer, in_the_loss, expected):
    weights = torch.randn(5, 4, requires_grad=True)
    output = answer(torch.randn(8, 5) @ weights)
    loss = in_the_loss(output).square().mean()
    result = bounded_functions_are_applied_once(nodes_of_loss(loss, [output]))
    assert (result.outcome if result is not None else "none") == expected
