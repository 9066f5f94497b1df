"""A draw around a model's own answers that carries no gradient is told where a layer gets it; others are not."""

from collections.abc import Callable
from typing import Any

import pytest
from mindscope.probe.checks.model_call import call_of
from mindscope.probe.checks.model_probe import ModelProbe

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.drawn_values import drawn_values_carry_gradients  # noqa: E402  torch is there
from torch import nn  # noqa: E402
from torch.distributions import Independent, MultivariateNormal, Normal  # noqa: E402


class Autoencoder(nn.Module):
    def __init__(self, draw: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self.encoder, self.decoder, self.draw = nn.Linear(6, 8), nn.Linear(4, 6), draw

    def forward(self, x: Any) -> Any:
        mu, logvar = self.encoder(x).chunk(2, -1)
        return self.decoder(self.draw(self, mu, (0.5 * logvar).exp())), mu, logvar


def outcome(draw: Callable[[Any, Any, Any], Any]) -> str:
    model = Autoencoder(draw)
    call = call_of(model, (torch.randn(16, 6),), {}).copied()
    assert call is not None
    result = drawn_values_carry_gradients(ModelProbe(model, call))
    return "none" if result is None else result.outcome


def _scored(mean: Any, deviation: Any) -> Any:
    distribution = Normal(mean, deviation)
    drawn = distribution.sample()
    distribution.log_prob(drawn)
    return drawn


def _made_without_gradients(mean: Any) -> Any:
    with torch.no_grad():
        return torch.relu(mean.new_ones(4, 4, requires_grad=True) @ torch.randn(4, 16)).T + mean


CUT = {
    "sample": lambda model, m, d: Normal(m, d).sample(),
    "sample, of one that counts axes": lambda model, m, d: Independent(Normal(m, d), 1).sample(),
    "sample, of several dimensions": lambda model, m, d: MultivariateNormal(m, torch.diag_embed(d)).sample(),
    "torch.normal": lambda model, m, d: torch.normal(m, d),
    "in training only": lambda model, m, d: Normal(m, d).sample() if model.training else m,
    "beside a part with a gradient": lambda model, m, d: torch.cat([Normal(m, d).sample()[:, :2], m[:, :2]], 1),
    "reshaped": lambda model, m, d: Normal(m, d).sample().view(-1, 4),
}
WHOLE = {
    "rsample": lambda model, m, d: Normal(m, d).rsample(),
    "rsample, of several dimensions": lambda model, m, d: MultivariateNormal(m, torch.diag_embed(d)).rsample(),
    "written out": lambda model, m, d: m + d * torch.randn_like(d),
    "the mean": lambda model, m, d: m,
    "noise": lambda model, m, d: m + torch.normal(0.0, 1.0, m.shape),
    "a prior": lambda model, m, d: m + Normal(torch.zeros(4), torch.ones(4)).sample(m.shape[:1]),
    "scored": lambda model, m, d: _scored(m, d),
    "straight through": lambda model, m, d: Normal(m, d).sample() + m - m.detach(),
    "dropout by hand": lambda model, m, d: m * (torch.rand_like(m) > 0.1),
    "detached on purpose": lambda model, m, d: (m + d * torch.randn_like(d)).detach(),
    "made without gradients on purpose": lambda model, m, d: _made_without_gradients(m),
}


@pytest.mark.parametrize("draws", [CUT])
def test_a_draw_without_a_gradient_is_told(draws: Any) -> None:
    assert {name: outcome(draw) for name, draw in draws.items()} == dict.fromkeys(draws, "broken")


@pytest.mark.parametrize("draws", [WHOLE])
def test_other_draws_are_not(draws: Any) -> None:
    assert "broken" not in {outcome(draw) for draw in draws.values()}
