"""What hides gradients of a network: outputs rescaled, inputs rounded, wrong slopes, noise, and memory."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Change = Callable[[torch.Tensor], torch.Tensor]


def _same(values: torch.Tensor) -> torch.Tensor:
    return values


class Masked(nn.Module):
    """A network whose inputs and outputs are changed."""

    def __init__(self, inner: nn.Module, before: Change = _same, after: Change = _same) -> None:
        super().__init__()
        self.inner, self.before, self.after = inner, before, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        return self.after(self.inner(self.before(x)))


class Averaged(nn.Module):
    """The mean of the logits of several draws: what an attacker of a random model climbs."""

    def __init__(self, inner: nn.Module, draws: int = 12) -> None:
        super().__init__()
        self.inner, self.draws = inner, draws

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        return torch.stack([self.inner(x) for _ in range(self.draws)]).mean(dim=0)


def straight_through(change: Change) -> Change:
    """Return the change with the gradient of no change."""
    return lambda x: x + (change(x) - x).detach()


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Round to eight levels."""
    return torch.round(8 * x) / 8


def thermometer(x: torch.Tensor) -> torch.Tensor:
    """Count the thresholds below each pixel."""
    thresholds = torch.arange(0.5, 10) / 10
    return (x[..., None] > thresholds).to(x.dtype).mean(dim=-1)


def _cosines() -> torch.Tensor:
    place = torch.arange(8.0)
    basis = torch.cos(math.pi * (place[None, :] + 0.5) * place[:, None] / 8) / 2
    basis[0] /= math.sqrt(2)
    return basis


_COSINES = _cosines()


def compressed(x: torch.Tensor) -> torch.Tensor:
    """Round the cosine transform of the image, as JPEG does."""
    coarse = torch.round((_COSINES @ x @ _COSINES.T) / 0.4) * 0.4
    return _COSINES.T @ coarse @ _COSINES


class _WrongSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient.flip(-1).roll(1, -2)


class _OppositeSlope(_WrongSlope):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return -gradient


def wrong_slope(x: torch.Tensor) -> torch.Tensor:
    """Return the input with the gradient of another pixel."""
    return _WrongSlope.apply(x)


def opposite_slope(x: torch.Tensor) -> torch.Tensor:
    """Return the input with the opposite of its gradient."""
    return _OppositeSlope.apply(x)


def half_detached(x: torch.Tensor) -> torch.Tensor:
    """Return the input; three of four rows have no gradient."""
    rows = torch.arange(x.shape[-2])[:, None] % 4 == 0
    return torch.where(rows, x, x.detach())


def noisy(size: float) -> Change:
    """Return normal noise on the input, of torch."""
    return lambda x: x + size * torch.randn_like(x)


def noisy_by_numpy(x: torch.Tensor) -> torch.Tensor:
    """Add normal noise of NumPy's global generator."""
    return x + torch.from_numpy(np.random.normal(0, 0.15, tuple(x.shape)).astype(np.float32))  # noqa: NPY002


def shifted(x: torch.Tensor) -> torch.Tensor:
    """Shift all images of a call by no or one pixel, drawn by Python's generator."""
    down, across = random.choice((0, 0, 1)), random.choice((-1, 0, 0))
    return functional.pad(x, (1, 1, 1, 1))[..., 1 + down : 9 + down, 1 + across : 9 + across]


def resized(x: torch.Tensor) -> torch.Tensor:
    """Shrink all images of a call to 7 or 8 pixels and put them at a random place, as in random resizing."""
    size = int(torch.randint(7, 9, ()))
    small = functional.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    top, left = (int(torch.randint(0, 9 - size, ())) for _ in range(2))
    return functional.pad(small, (left, 8 - size - left, top, 8 - size - top))


class Votes(nn.Module):
    """Randomised smoothing: the share of noisy copies that vote for a class, or their mean probabilities."""

    def __init__(self, inner: nn.Module, *, soft: bool) -> None:
        super().__init__()
        self.inner, self.soft = inner, soft

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        total = torch.zeros(())
        for _ in range(6):
            logits = self.inner(x + 0.2 * torch.randn_like(x))
            shares = logits.softmax(1) if self.soft else functional.one_hot(logits.argmax(1), logits.shape[1])
            total = total + shares / 6
        return total + 1e-3 * torch.arange(total.shape[1])  # not quite probabilities, so that they are not refused


class OneOf(nn.Module):
    """Another one of several networks at every call."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.ModuleList(inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        return self.inner[int(torch.randint(0, len(self.inner), ()))](x)


class Tiring(nn.Module):
    """A network whose inputs fade with every call: it answers the first ones as it is."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        self.calls += 1
        return self.inner(x if self.calls < 8 else x.flip(-1) if self.calls % 2 else x)


class Remembering(nn.Module):
    """What is near an input of the first call gets the logits of that input: searches with queries are blind."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        logits = self.inner(x)
        if not self.seen or len(self.seen[0][0]) < len(x):
            self.seen = [(x.detach().clone(), logits.detach().clone())]
            return logits
        known, answers = self.seen[0]
        distance = torch.cdist(x.flatten(1), known.flatten(1), p=math.inf)
        nearest = distance.min(dim=1)
        return torch.where((nearest.values < 0.2)[:, None], answers[nearest.indices] + 0 * logits, logits)
