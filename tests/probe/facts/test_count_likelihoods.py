"""A Poisson likelihood that is given rates as their logarithms, or the other way round, is told at once."""

import pytest
from mindscope.insight import diagnose
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


def _named(loss, last):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), *last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for _ in range(12):
            optimizer.zero_grad()
            loss(model(torch.randn(16, 4)), torch.poisson(torch.full((16, 3), 2.0))).backward()
            optimizer.step()
    return [found for found in diagnose(store, monitor.run.id).findings if found.cause == "loss_input_domain"]


@pytest.mark.parametrize(
    ("loss", "last", "words"),
    [
        (nn.PoissonNLLLoss(), [nn.Softplus()], "what a softplus made, which is never negative, as logarithms of rates"),
        (nn.PoissonNLLLoss(log_input=False), [], "values below zero as rates"),
        (lambda found, wanted: functional.poisson_nll_loss(found, wanted, False), [], "values below zero as rates"),
    ],
)
def test_the_wrong_scale_is_named_in_the_first_step(loss, last, words):
    found = _named(loss, last)
    assert [(one.step, one.severity) for one in found] == [(0, "error")]
    assert words in found[0].explanation


@pytest.mark.parametrize(
    ("loss", "last"), [(nn.PoissonNLLLoss(), []), (nn.PoissonNLLLoss(log_input=False), [nn.Softplus()])]
)
def test_the_right_scale_is_not(loss, last):
    assert _named(loss, last) == []
