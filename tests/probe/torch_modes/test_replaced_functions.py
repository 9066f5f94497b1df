"""A program that replaces functions of torch trains the same while checks follow what it calls."""

import pytest

torch = pytest.importorskip("torch")

from mindscope import watch  # noqa: E402
from torch import nn  # noqa: E402

STEPS = 60  # the loss is followed at steps 30, 42 and 58


def _trained(store=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))
    monitor = None if store is None else watch(model, optimizer, store=store)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    if monitor is not None:
        monitor.close()
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


def _negating(backward):
    def replaced(self, *arguments, **options):
        return backward(-self, *arguments, **options)

    return replaced


def _doubling(function):
    def replaced(*arguments, **options):
        return 2.0 * function(*arguments, **options)

    return replaced


@pytest.mark.parametrize(
    ("place", "name", "replaced"),
    [(torch.Tensor, "backward", _negating), (nn.functional, "cross_entropy", _doubling)],
)
def test_a_replaced_function_is_called_once(tmp_path, monkeypatch, place, name, replaced):
    monkeypatch.setattr(place, name, replaced(getattr(place, name)))
    losses, weights = _trained()
    watched_losses, watched_weights = _trained(f"{tmp_path}/runs")
    assert watched_losses == losses
    assert all(map(torch.equal, watched_weights, weights))
