"""Do predictions fit their own targets better than those of other samples, or mirrored ones? Read from one batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .loss_graph import Node, origin_of, views_behind

OWN, ALIGNED = "targets_fit_their_predictions", "pictures_are_aligned"
_OWN = "predictions fit their own targets better than those of other samples ({which})"
_ALIGNED = "targets are not mirrored against their inputs ({which})"
#: Looks, and samples in all of them, before anything is said. Our choice.
_LOOKS, _SAMPLES = 5, 64
#: Effect in standard errors below which nothing binds a prediction to its own target, and beyond which something does.
#: Our choice.
_NOTHING, _SOMETHING = 1.0, 4.0
#: Standard errors, times two, by which fewer than half of the samples fit another target better: then something binds
#: them, though a few of large distances hide it in the mean, as where each sample has a noise level of its own.
_SIGN: Final = 1.0
#: Effect from which the targets fit better when all are moved on by as many samples. Our choice.
_SHIFTED: Final = -0.5
#: Share of pictures that fit better mirrored, how many times that of those that fit another sample's target better, and
#: the share up to which nothing is mirrored. Our choice: of a network whose inputs alone were mirrored, every second
#: time, it is 0.17; of the same network with its targets mirrored as well, 0.
_MIRRORED, _TIMES, _NOT_MIRRORED = 0.12, 3.0, 0.03
#: Samples of a batch that are compared, and samples below which nothing is.
_MOST_SAMPLES, _FEWEST = 256, 4
_MOST_ELEMENTS: Final = 1 << 20
#: Share of samples whose target must be another one after the exchange.
_OTHERS: Final = 0.2
#: Shortest side of a picture that is mirrored, and cost of the mirrored target below which it fits better. Our choice.
_SHORTEST, _BETTER = 6, 0.9
#: Difference of two targets, over their size, below which they are the same.
_SAME: Final = 1e-3
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class TargetFit:
    """How much better the samples of one batch fit their own targets than those of other samples.

    Args:
        samples: Samples that were compared.
        effect: Mean of what the exchange costs, in standard deviations between samples (Cohen's d).
        better: Share of samples that fit the target of another sample better.
        worst, best: The effect for the exchange that costs least, and for the one that costs most.
        mirrored: Samples with a picture as target that is not its own mirror image.
        mirrored_better: Those of them that a mirrored target fits better, also than the targets of other samples.
        others_better: Those of them that the target of one other sample fits better than both, on average.
    """

    samples: int
    effect: float
    better: float
    worst: float
    best: float
    mirrored: int = 0
    mirrored_better: int = 0
    others_better: float = 0.0


def joined(fits: Sequence[TargetFit]) -> TargetFit:
    """Return what the micro-batches of one step, of which there is one at least, say together."""
    if len(fits) == 1:
        return fits[0]
    samples = sum(fit.samples for fit in fits)

    def mean(name: str) -> float:
        return float(sum(fit.samples * getattr(fit, name) for fit in fits) / samples)

    return TargetFit(
        samples,
        mean("effect"),
        mean("better"),
        mean("worst"),
        mean("best"),
        mirrored=sum(fit.mirrored for fit in fits),
        mirrored_better=sum(fit.mirrored_better for fit in fits),
        others_better=sum(fit.others_better for fit in fits),
    )


def fit_of(name: str, prediction: Tensor, target: Tensor, options: Mapping[str, Any]) -> TargetFit | None:
    """Return the fit of one call of a loss function; None where there is nothing to compare.

    Args:
        name: The loss function, as torch spells it.
        options: Its keywords.
    """
    cost = _COSTS.get(name)
    if cost is None or target.requires_grad or not prediction.dim() or not target.dim():
        return None
    samples = prediction.shape[0]
    if samples < _FEWEST or target.shape[0] != samples or prediction.numel() > _MOST_ELEMENTS:
        return None
    is_of_positions = _are_positions(prediction)
    prediction, target = prediction.detach()[:_MOST_SAMPLES].double(), target.detach()[:_MOST_SAMPLES]
    ignored = int(options.get("ignore_index", -100))
    count = len(target)
    # A sequence that repeats itself makes the next target one that fits, and the one before it what was given.
    shifts = {count // 3, count // 2, count - count // 3} if is_of_positions else {1, count // 2, count - 1}
    return _compared(lambda given: cost(prediction, given, ignored), target, sorted(shifts))


def _are_positions(prediction: Tensor) -> bool:
    """Return whether the rows of `(rows, classes)` are positions of sequences, which a view has put one behind another.

    Read from the autograd graph: the view, and no more than a change of scale or dtype behind it.
    """
    for node in views_behind(prediction) if prediction.dim() == 2 else ():
        sizes: Any = getattr(node, "_saved_self_sym_sizes", ())
        if len(sizes) > 2:
            return bool(sizes[-1] == prediction.shape[-1])
    return False


def verdict_on(which: str, fits: Sequence[TargetFit]) -> list[CheckResult]:
    """Return what several looks say together; nothing while that is unclear.

    Args:
        which: Name of the loss.
    """
    samples = sum(fit.samples for fit in fits)
    if len(fits) < _LOOKS or samples < _SAMPLES:
        return []
    effect = sum(fit.samples * fit.effect for fit in fits) / samples
    better = sum(fit.samples * fit.better for fit in fits) / samples
    errors = effect * samples**0.5
    worst, best = (sum(getattr(fit, name) for fit in fits) / len(fits) for name in ("worst", "best"))
    numbers = {"samples": float(samples), "effect": effect, "worst": worst, "best": best, "looks": float(len(fits))}
    claim = _OWN.format(which=which)
    found = []
    if errors > _SOMETHING and worst >= _SHIFTED:
        found.append(held(OWN, claim, subject=which, **numbers))
        found += _alignment(which, fits)
    elif (errors < _NOTHING and better > 0.5 - _SIGN / samples**0.5) or worst < _SHIFTED:
        words = (
            f"over {samples} samples of the last {len(fits)} looks, the targets of other samples fit the predictions "
            + ("better than" if min(errors, worst * samples**0.5) < -_SOMETHING else "as well as")
            + f" their own: exchanging them lowers {which} for {percent(better)} of the samples"
        )
        found.append(broken(OWN, claim, words, subject=which, **numbers))
    return found


def _alignment(which: str, fits: Sequence[TargetFit]) -> Iterator[CheckResult]:
    judged, better = sum(fit.mirrored for fit in fits), sum(fit.mirrored_better for fit in fits)
    others = sum(fit.others_better for fit in fits)
    if judged < _SAMPLES:
        return
    claim, share = _ALIGNED.format(which=which), better / judged
    if share >= _MIRRORED and better >= _TIMES * others:
        words = (
            f"for {better} of {judged} samples, the mirrored target costs less than the target itself and than those "
            f"of other samples ({which})"
        )
        yield broken(ALIGNED, claim, words, subject=which, share=share, samples=float(judged))
    elif share <= _NOT_MIRRORED:
        yield held(ALIGNED, claim, subject=which, share=share, samples=float(judged))


def _compared(cost: Callable[[Tensor], Tensor | None], target: Tensor, shifts: Sequence[int]) -> TargetFit | None:
    own = cost(target)
    if own is None or not bool(torch.isfinite(own).any()):
        return None
    samples = target.shape[0]
    gains, costs = [], []
    for shift in shifts:
        other = target.roll(shift, 0)
        exchanged = cost(other)
        if exchanged is None:
            return None
        differs = _differs(target, other) & torch.isfinite(own) & torch.isfinite(exchanged)
        if int(differs.sum()) < max(_OTHERS * samples, _FEWEST):
            return None
        gains.append((exchanged - own)[differs])
        costs.append(exchanged.where(differs, torch.inf))
    gained = torch.cat(gains)
    effects = [_effect(gain) for gain in gains]
    mirrored = _mirrored(cost, target, own, torch.stack(costs))
    return TargetFit(
        min(map(len, gains)),
        _effect(gained),
        float((gained < 0).double().mean()),
        min(effects),
        max(effects),
        *mirrored,
    )


def _effect(gains: Tensor) -> float:
    """Return the mean in standard deviations; none where all are the same."""
    spread = float(gains.std())
    return float(gains.mean()) / spread if spread > _TINY else 0.0


def _mirrored(
    cost: Callable[[Tensor], Tensor | None], target: Tensor, own: Tensor, others: Tensor
) -> tuple[int, int, float]:
    """Return how many targets are pictures, how many fit better mirrored, and how many fit another sample better."""
    if target.dim() < 3 or min(target.shape[-2:]) < _SHORTEST:
        return 0, 0, 0.0
    found: list[tuple[int, int, float]] = []
    for axes in (
        (-1,),
        (-2,),
        (-1, -2),
    ):  # of a picture that was mirrored along one side, and its target along the other
        other = target.flip(axes)
        exchanged = cost(other)
        if exchanged is None:
            return 0, 0, 0.0
        differs = _differs(target, other)
        limit, least = _BETTER * own, others.amin(0)
        better = int((differs & (exchanged < limit) & (exchanged < _BETTER * least)).sum())
        elsewhere = float((differs & (least < limit) & (least < exchanged)).sum()) / len(others)
        found.append((int(differs.sum()), better, elsewhere))
    return max(found, key=lambda counts: (counts[1] - counts[2], counts[0]))


def _differs(first: Tensor, second: Tensor) -> Tensor:
    """Return for each sample whether its two targets differ."""
    if not first.is_floating_point():
        return (first != second).reshape(len(first), -1).any(1)
    distance = (first - second).float().reshape(len(first), -1).norm(dim=1)
    return distance > _SAME * first.float().reshape(len(first), -1).norm(dim=1).clamp_min(_TINY)


def written_distances(nodes: Sequence[Node], outputs: Sequence[Tensor]) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield name, prediction and target of distances that the program writes out: `((output - target) ** 2).mean()`.

    The targets are the model's output less the difference that the graph holds.

    Args:
        nodes: Those between the loss and the outputs, breadth first.
        outputs: What the models have returned.
    """
    for node in nodes:
        name = node.name()
        is_square = name == "PowBackward0" and node._saved_exponent == 2
        if not is_square and name != "AbsBackward0":
            continue
        before = node.next_functions[0][0]
        if before is None or before.name() != "SubBackward0":
            continue
        given = [each for each, _ in before.next_functions]
        if len(given) != 2 or given.count(None) != 1:
            continue
        difference = node._saved_self.detach()
        made = origin_of(next(each for each in given if each is not None))
        output = next(
            (one for one in outputs if one.numel() == difference.numel() and origin_of(one.grad_fn) is made), None
        )
        if output is None or not difference.dim():
            continue
        values = output.detach().reshape(difference.shape)
        target = values - difference if given[1] is None else values + difference
        yield ("mse_loss" if is_square else "l1_loss"), values, target


def _per_sample(costs: Tensor) -> Tensor:
    return costs.reshape(len(costs), -1).mean(1)


def _squares(prediction: Tensor, target: Tensor, ignored: int) -> Tensor | None:
    del ignored
    return _per_sample((prediction - target).square()) if prediction.shape == target.shape else None


def _distances(prediction: Tensor, target: Tensor, ignored: int) -> Tensor | None:
    del ignored
    return _per_sample((prediction - target).abs()) if prediction.shape == target.shape else None


def _logits(prediction: Tensor, target: Tensor, ignored: int) -> Tensor | None:
    del ignored
    if prediction.shape != target.shape:
        return None
    return _per_sample(torch.logaddexp(prediction, torch.zeros_like(prediction)) - prediction * target)


def _probabilities(prediction: Tensor, target: Tensor, ignored: int) -> Tensor | None:
    del ignored
    if prediction.shape != target.shape:
        return None
    sure, not_sure = prediction.clamp_min(1e-7).log(), (1 - prediction).clamp_min(1e-7).log()
    return _per_sample(-target * sure - (1 - target) * not_sure)


def _divergence(prediction: Tensor, target: Tensor, ignored: int) -> Tensor | None:
    del ignored
    if prediction.shape != target.shape or bool((target < 0).any()):
        return None  # given as logarithms
    return _per_sample(-target * prediction)


def _classes(prediction: Tensor, target: Tensor, ignored: int) -> Tensor | None:
    return _likelihoods(torch.log_softmax(prediction, 1), target, ignored) if prediction.dim() > 1 else None


def _likelihoods(prediction: Tensor, target: Tensor, ignored: int) -> Tensor | None:
    if target.is_floating_point():
        return _per_sample(-(target * prediction).sum(1)) if prediction.shape == target.shape else None
    if prediction.dim() < 2 or prediction.shape[:1] + prediction.shape[2:] != target.shape:
        return None
    counts = target != ignored
    picked = -prediction.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1)
    sums = (picked * counts).reshape(len(target), -1).sum(1)
    return sums / counts.reshape(len(target), -1).sum(1)  # not a number where all of a sample is ignored


_COSTS: Final[Mapping[str, Callable[[Tensor, Tensor, int], Tensor | None]]] = {
    "cross_entropy": _classes,
    "nll_loss": _likelihoods,
    "binary_cross_entropy": _probabilities,
    "binary_cross_entropy_with_logits": _logits,
    "kl_div": _divergence,
    "mse_loss": _squares,
    "gaussian_nll_loss": _squares,
    "l1_loss": _distances,
    "smooth_l1_loss": _distances,
    "huber_loss": _distances,
}
