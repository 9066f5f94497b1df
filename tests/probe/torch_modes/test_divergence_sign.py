"""The sign of a divergence of normals, however a variational autoencoder writes it."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.probe.checks.divergence_sign import distance_from_the_prior, divergence_is_lowered  # noqa: E402
from mindscope.probe.checks.loss_graph import nodes_of_loss  # noqa: E402


def _of_variance(h):
    mean, s = h.chunk(2, 1)
    return -0.5 * torch.sum(1 + s - mean.pow(2) - s.exp())


def _of_deviation(h):
    mean, s = h[:, :4], h[:, 4:].clamp(-5, 5)
    return 0.5 * (mean**2 + torch.exp(2 * s) - 2 * s - 1).sum(1).mean()


def _of_softplus(h):
    mean, std = h[:, :4], torch.nn.functional.softplus(h[:, 4:]) + 1e-3
    return (0.5 * (mean**2 + std**2 - 1) - torch.log(std)).mean()


def _of_torch(h):
    posterior = torch.distributions.Normal(h[:, :4], (0.5 * h[:, 4:]).exp())
    prior = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
    return torch.distributions.kl_divergence(posterior, prior).sum(1).mean()


def _result(term, factor):
    torch.manual_seed(0)
    hidden = torch.nn.Linear(6, 8)(torch.randn(16, 6))
    loss = hidden[:, :4].tanh().pow(2).mean() + factor * term(hidden)
    result = divergence_is_lowered(loss.grad_fn, nodes_of_loss(loss, [hidden]))
    return None if result is None else result.outcome


@pytest.mark.parametrize(("factor", "outcome"), [(0.1, "held"), (-1, "broken"), (0.0, None)])
@pytest.mark.parametrize("term", [_of_variance, _of_deviation, _of_softplus, _of_torch])
def test_the_sign_of_a_divergence(term, factor, outcome):
    assert _result(term, factor) == outcome


def _poisson(h):
    return (h.exp() - torch.ones(16, 8) * h).mean()


def _with_uncertainty(h):
    return (0.5 * torch.exp(-h) * torch.randn(16, 8) ** 2 + 0.5 * h).mean()


def _of_two_learned(h):
    other = torch.ones(4, requires_grad=True)
    return 0.5 * (other - h[:, :4] + h[:, :4].exp() / other.exp()).mean()


def _ratio_and_its_penalty(h):
    old = torch.randn(16, 8)
    return -(h - old).exp().mean() * 2.0 + 0.1 * ((old - h).exp() - (old - h) - 1).mean()


def _only_exponential(h):
    return h.exp().mean()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "term", [_poisson, _with_uncertainty, _of_two_learned, _ratio_and_its_penalty, _only_exponential]
)
def test_other_losses_with_exponentials_are_never_called_wrong(term, sign):
    assert _result(term, sign) in (None, "held") or term is _ratio_and_its_penalty


def test_one_wrong_sign_inside_of_the_divergence():
    def term(h):
        mean, s = h.chunk(2, 1)
        return -0.5 * torch.sum(1 + s - mean.pow(2) + s.exp())

    assert _result(term, 1.0) == "broken"


@pytest.mark.parametrize("is_drawn", [True, False])
@pytest.mark.parametrize("heads", ["one", "two"])
def test_variances_of_which_no_noise_is_drawn_tell_nothing_of_the_code(heads, is_drawn):
    torch.manual_seed(0)
    x = torch.randn(16, 6)
    both = torch.nn.Linear(6, 8)(x)
    mean, s = both.chunk(2, 1) if heads == "one" else (torch.nn.Linear(6, 4)(x), torch.nn.Linear(6, 4)(x))
    code = mean + torch.randn(16, 4) * (0.5 * s).exp() if is_drawn else mean
    output = torch.nn.Linear(4, 6)(code)
    divergence = -0.5 * torch.sum(1 + s - mean.pow(2) - s.exp())
    loss = (output - x).pow(2).sum() / 16 + divergence / 16
    distance = distance_from_the_prior(loss.grad_fn, nodes_of_loss(loss, [output, mean, s]))
    assert (distance is not None) is is_drawn
