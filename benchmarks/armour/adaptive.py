"""The best attack known: examples of models whose gradients are open, judged on the model itself by fresh draws."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from mindscope.armour import APGDCE, APGDT, wrap
from numpy.typing import NDArray
from torch import nn

Images = NDArray[np.float32]
Classes = NDArray[np.int64]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def best_accuracy(make: Callable[[], Any], opened: tuple[nn.Module, ...], x: Images, y: Classes, epsilon: float, *,
                  is_random: bool) -> float:  # fmt: skip
    """Return the accuracy in the worst case over the examples of the opened models.

    Of each sample the example is chosen by one half of the draws and judged by the other.
    """
    draws = 40 if is_random else 1
    chosen, judged = (_correct(make, x, y, draws) for _ in range(2))
    for model in opened:
        for examples in _examples(model, x, y, epsilon, is_random=is_random):
            first, second = (_correct(make, examples, y, draws) for _ in range(2))
            lower = first < chosen
            chosen, judged = np.where(lower, first, chosen), np.where(lower, second, judged)
    return float(judged.mean())


def _examples(model: nn.Module, x: Images, y: Classes, epsilon: float, *, is_random: bool) -> Iterator[Images]:
    for loss in (_cross_entropy, _margin):
        for seed in range(1 if is_random else 3):
            yield _climbed(model, x, y, epsilon, loss, seed)
    if not is_random:
        for attack in (APGDCE(restarts=2), APGDT(steps=50)):
            found = attack(wrap(model), x, y, epsilons=[epsilon])
            yield found.adversarials[0].numpy()


def _climbed(model: nn.Module, x: Images, y: Classes, epsilon: float, loss: Loss, seed: int) -> Images:
    """Return the ends of 60 steps of signs; none stops early, so that examples are deep in another class."""
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    generator = torch.Generator().manual_seed(seed)
    low, high = (inputs - epsilon).clamp(0, 1), (inputs + epsilon).clamp(0, 1)
    at = low + (high - low) * (torch.rand(inputs.shape, generator=generator) if seed else 0.5)
    for step in range(60):
        leaf = at.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(model(leaf), labels).sum(), leaf)
        at = torch.minimum(torch.maximum(at + 2 * epsilon * (1 - step / 60) * gradient.sign(), low), high)
    return _inside(x, at.numpy(), epsilon)


def _inside(x: Images, found: Images, epsilon: float) -> Images:
    """Undo in double precision what rounding has moved beyond the budget."""
    beyond = np.abs(found.astype(np.float64) - x) > epsilon
    return np.where(beyond, np.nextafter(found, x), found)


def _cross_entropy(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.logsumexp(1) - logits.gather(1, y[:, None])[:, 0]


def _margin(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.amax(1) - logits.gather(1, y[:, None])[:, 0]


def _correct(make: Callable[[], Any], x: Images, y: Classes, draws: int) -> NDArray[np.float64]:
    """Return `(n,)` shares of draws that get the label; a model that remembers begins anew at each."""
    total = np.zeros(len(x))
    for _ in range(draws):
        model = make()
        parts = np.array_split(x, max(len(x) // 10, 1)) if draws > 1 else [x]  # what a call draws, few samples share
        total += np.concatenate([_answers(model, part) for part in parts]).argmax(axis=1) == y
    return total / draws


def _answers(model: Any, x: Images) -> NDArray[np.float32]:
    if isinstance(model, nn.Module):
        return np.asarray(model(torch.from_numpy(x)).detach().numpy())
    from mindscope.framework import Tensor

    return np.asarray(model(Tensor(x)).numpy())
