"""The noise that denoisers learn: what samplers cannot start from is told, and other regressions are left alone."""

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.probe.checks.earlier_inputs import EarlierInputs  # noqa: E402
from mindscope.probe.checks.model_call import ModelCall  # noqa: E402
from mindscope.probe.checks.noise_levels import ALONE, NORMAL  # noqa: E402

_LAST = 60
_BETAS = torch.linspace(1e-3, 0.2, _LAST)
_KEPT = torch.cumprod(1 - _BETAS, 0)


def _steps(count):
    return torch.randint(0, _LAST, (count,))


def _points(count):
    return 0.8 * torch.randn(count, 2) + torch.tensor([0.6, -0.5])


def _denoiser(keep, make=_points, draw=torch.randn_like, level=_steps, count=256):
    """Return a batch of a training that weighs data by the root of `keep(level)` and noise by that of the rest."""
    data, number = make(count), level(count)
    noise = draw(data)
    share = keep(number).reshape(-1, *(1,) * (data.dim() - 1))
    return {"x": share.sqrt() * data + (1 - share).sqrt() * noise, "t": number}, noise


def _broken(batch, looks=2):
    torch.manual_seed(1)
    inputs, found = EarlierInputs(), {}
    for _ in range(looks):
        tensors, target = batch()
        for result in inputs.compare("", ModelCall((), tensors), [target])[0]:
            if result.outcome == "broken" and result.check in (ALONE, NORMAL):
                found[result.check] = result.numbers
    return found


def _images(count):
    return torch.randn(count, 1, 4, 4).repeat_interleave(2, 2).repeat_interleave(2, 3)


_LESS_NOISE = {
    "alphas in place of their product": lambda: _denoiser(lambda t: 1 - _BETAS[t]),
    "the same for images": lambda: _denoiser(lambda t: 1 - _BETAS[t], _images, count=64),
    "only the first half of the steps": lambda: _denoiser(
        lambda t: torch.linspace(1, 0, 1000)[t], level=lambda n: torch.randint(0, 400, (n,))
    ),
    "weights of signal and noise exchanged at the end": lambda: _denoiser(lambda t: 0.6 + 0.4 * t / _LAST),
    "a level from 0 to 1 with a square too many": lambda: _denoiser(
        lambda t: 1 - 0.4 * t**2, _images, level=torch.rand
    ),
}


@pytest.mark.parametrize("batch", _LESS_NOISE.values(), ids=_LESS_NOISE)
def test_noise_that_never_hides_the_data_is_told(batch):
    assert _broken(batch)[ALONE]["share"] < 0.5


@pytest.mark.parametrize(
    "batch",
    [
        lambda: _denoiser(lambda t: _KEPT[t], draw=torch.rand_like),
        lambda: _denoiser(lambda t: _KEPT[t], _images, draw=torch.rand_like, count=64),
        lambda: _denoiser(lambda t: (t * math.pi / 2).cos() ** 2, _images, torch.rand_like, torch.rand, 48),
    ],
    ids=["points", "images", "cosine"],
)
def test_noise_that_is_drawn_evenly_is_told(batch):
    assert _broken(batch)[NORMAL]["mean"] == pytest.approx(0.5, abs=0.05)


def _of_a_state(level):
    """Return a batch of a model that foretells the change of a state under an action."""
    state, action = torch.randn(256, 4), level(256)
    pushed = action.reshape(-1, 1).double() * torch.randn(1, 4)
    change = 0.4 * state + 0.9 * torch.randn(256, 4) + 0.1 * pushed
    return {"state": state, "action": action}, ((change - change.mean(0)) / change.std(0)).float()


_HEALTHY = {
    "linear betas": lambda: _denoiser(lambda t: _KEPT[t]),
    "images with the usual thousand steps": lambda: _denoiser(
        lambda t: torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)[t],
        _images,
        level=lambda n: torch.randint(0, 1000, (n,)),
        count=32,
    ),
    "cosine levels from 0 to 1": lambda: _denoiser(lambda t: (t * math.pi / 2).cos() ** 2, _images, level=torch.rand),
    "log of signal over noise": lambda: _denoiser(torch.sigmoid, _images, level=lambda n: 12 * torch.rand(n) - 6),
    "discrete actions": lambda: _of_a_state(lambda n: torch.randint(0, 3, (n,))),
    "real actions": lambda: _of_a_state(lambda n: torch.randn(n, 1)),
    "one noise level": lambda: _denoiser(lambda t: torch.full((len(t),), 0.9), _images),
    "noise that the input does not hold": lambda: (_denoiser(lambda t: _KEPT[t])[0], torch.randn(256, 2)),
    "random numbers as labels": lambda: ({"x": torch.rand(256, 3), "t": torch.rand(256)}, torch.rand(256, 3)),
}


@pytest.mark.parametrize("batch", _HEALTHY.values(), ids=_HEALTHY)
def test_other_regressions_are_left_alone(batch):
    assert _broken(batch) == {}
