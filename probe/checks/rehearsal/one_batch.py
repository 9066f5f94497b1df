"""Can a learner fit one batch? Its step is repeated on copies of its weights, with a copy of its optimizer."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import torch

from ...aside import aside, same_random_numbers
from ...warning_places import without_warnings
from ..check_result import CheckResult, broken, held, undecided
from .step_tape import NotRepeatable, StepTape

FINITE, MOVES = "gradients_stay_finite", "optimizer_lowers_the_loss"
_FINITE: Final = "the gradients stay finite while one batch is fitted"
_MOVES: Final = "the optimizer lowers the loss of one batch"
#: Steps on one batch, seconds for them, and evaluations whose mean is compared. Our choice.
STEPS: Final = 200
_MOST_S, _MEAN = 6.0, 8
#: Share of the loss that the program's optimizer must win, and share that another one wins where it is to blame.
_HARDLY, _CLEARLY = 0.02, 0.25
#: Rates of Adam that show what the batch allows. Our choice: the usual one, and ten times as much.
_RATES: Final = (1e-3, 1e-2)


@dataclass(slots=True)
class _Fit:
    """Losses of a fit, and the first step whose gradient was not finite, with the parameter."""

    losses: list[float] = field(default_factory=list)
    broken_at: int | None = None
    parameter: str = ""

    @property
    def first(self) -> float:
        return sum(self.losses[:_MEAN]) / max(1, len(self.losses[:_MEAN]))

    @property
    def last(self) -> float:
        return sum(self.losses[-_MEAN:]) / max(1, len(self.losses[-_MEAN:]))

    @property
    def won(self) -> float:
        """Share of the first loss by which the fit has lowered it."""
        return (self.losses[0] - self.last) / max(abs(self.losses[0]), 1e-12)


class OneBatch:
    """One step of a learner, to be repeated.

    Args:
        tape: The step.
        named: The parameters that the learner's optimizer holds, by site.
        limit: The norm to which the program clips gradients; None where it does not.

    Raises:
        NotRepeatable: The step cannot be repeated.
    """

    def __init__(
        self,
        tape: StepTape,
        named: Mapping[str, torch.nn.Parameter],
        *,
        limit: float | None,
    ) -> None:
        if tape.reason or not tape.roots:
            raise NotRepeatable(tape.reason or "no backward pass was seen")
        self._tape, self._limit = tape, limit
        self._named = {site: one for site, one in named.items() if id(one) in tape.first and one.requires_grad}
        self._calls = list(tape.depends_on(tape.first, tape.roots[-1][1]))
        self.recorded = float(sum(root.detach().double() for root, _ in tape.roots))

    def copies(self) -> tuple[dict[str, torch.nn.Parameter], dict[int, torch.Tensor]]:
        """Return copies of the weights as they were when the step began, by site, and of all that it may change."""
        weights = {site: torch.nn.Parameter(self._tape.first[id(one)].clone()) for site, one in self._named.items()}
        replaced: dict[int, torch.Tensor] = {key: value.clone() for key, value in self._tape.first.items()}
        replaced.update({id(one): weights[site] for site, one in self._named.items()})
        return weights, replaced

    def loss(self, replaced: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Return the loss of the step for these weights.

        Raises:
            NotRepeatable: It does not depend on them, or a call fails.
        """
        try:
            now = self._tape.repeat(replaced, self._calls)
        except Exception as error:
            raise NotRepeatable(f"repeating the step raised {type(error).__name__}: {error}") from error
        parts = [now[id(root)] for root, _ in self._tape.roots if id(root) in now]
        if not parts:
            raise NotRepeatable("what was seen of the step does not lead from the weights to its loss")
        total = parts[0].reshape(())
        for part in parts[1:]:
            total = total + part.reshape(())
        return total

    def fit(self, make: Callable[[Mapping[str, torch.nn.Parameter]], torch.optim.Optimizer], most_s: float) -> _Fit:
        """Fit the batch with the optimizer that `make` returns for copies of the weights."""
        weights, replaced = self.copies()
        optimizer, done, began = make(weights), _Fit(), time.perf_counter()
        for step in range(STEPS):
            loss = self.loss(replaced)
            value = float(loss.detach())
            done.losses.append(value)
            gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
            bad = [
                site for site, one in zip(weights, gradients, strict=True) if one is not None and not _is_finite(one)
            ]
            if bad or not isfinite(value):
                done.broken_at, done.parameter = step, bad[0] if bad else ""
                break
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight.grad = gradient
            if self._limit is not None:
                torch.nn.utils.clip_grad_norm_(list(weights.values()), self._limit)
            type(optimizer).step(optimizer)  # a scheduler puts a method of its own before that of the original
            if time.perf_counter() - began > most_s:
                break
        return done

    def optimizer_like(
        self, optimizer: torch.optim.Optimizer
    ) -> Callable[[Mapping[str, torch.nn.Parameter]], torch.optim.Optimizer]:
        """Return a function that copies this optimizer for copies of its weights, at the full rate of its schedule."""
        sites = {id(one): site for site, one in self._named.items()}

        def make(weights: Mapping[str, torch.nn.Parameter]) -> torch.optim.Optimizer:
            memo: dict[int, Any] = {key: weights[site] for key, site in sites.items()}
            made: torch.optim.Optimizer = copy.deepcopy(optimizer, memo)
            for group in made.param_groups:
                group["lr"] = max(float(group["lr"]), float(group.get("initial_lr", 0.0)))
            return made

        return make


def one_batch_is_fitted(
    batch: OneBatch, optimizer: torch.optim.Optimizer, *, is_bounded: bool, rate_is_steady: bool
) -> Iterator[CheckResult]:
    """Check that gradients stay finite, and that the optimizer lowers the loss, in 200 steps on one batch.

    Args:
        is_bounded: Whether the loss has a floor, so that fitting it for long is no fault by itself.
        rate_is_steady: Whether the optimizer's rate is the one that the training will use.
    """
    try:
        with aside(), without_warnings(), same_random_numbers(0), torch.enable_grad():
            yield from _judge(batch, optimizer, is_bounded=is_bounded, rate_is_steady=rate_is_steady)
    except Exception as error:  # noqa: BLE001  a check that fails stays open
        reason = str(error) if isinstance(error, NotRepeatable) else f"{type(error).__name__}: {error}"
        yield undecided(MOVES, _MOVES, reason)


def _judge(
    batch: OneBatch, optimizer: torch.optim.Optimizer, *, is_bounded: bool, rate_is_steady: bool
) -> Iterator[CheckResult]:
    own = batch.fit(batch.optimizer_like(optimizer), _MOST_S)
    if own.broken_at is not None:
        if not is_bounded or not own.broken_at:
            yield undecided(FINITE, _FINITE, f"not finite at step {own.broken_at}")
            return
        where = f"the gradient of {own.parameter}" if own.parameter else "the loss"
        words = (
            f"fitting one batch with a copy of the optimizer, {where} is not finite in step {own.broken_at}; the loss "
            f"went from {own.losses[0]:.4g} to {own.losses[max(0, own.broken_at - 1)]:.4g} before"
        )
        yield broken(FINITE, _FINITE, words, subject=own.parameter, step=own.broken_at)
        return
    yield held(FINITE, _FINITE, steps=len(own.losses))
    if own.won > _HARDLY:
        yield held(MOVES, _MOVES, first=own.losses[0], last=own.last, steps=len(own.losses))
        return
    if not (rate_is_steady and is_bounded) or len(own.losses) < STEPS // 2 or own.won < -_HARDLY:
        yield undecided(MOVES, _MOVES, f"it went from {own.losses[0]:.4g} to {own.last:.4g}")
        return
    others = [(rate, batch.fit(_adam(rate), _MOST_S / 2)) for rate in _RATES]
    rate, best = max(others, key=lambda pair: pair[1].won if pair[1].broken_at is None else -1.0)
    if best.broken_at is not None or best.won < _CLEARLY:
        yield undecided(MOVES, _MOVES, f"{own.losses[0]:.4g} to {own.last:.4g}; Adam does no better")
        return
    words = (
        f"in {len(own.losses)} steps on one batch a copy of the optimizer moved the loss from {own.losses[0]:.4g} to "
        f"{own.last:.4g}; Adam at {rate:g} brought it to {best.last:.4g} in {len(best.losses)}"
    )
    yield broken(MOVES, _MOVES, words, first=own.losses[0], last=own.last, possible=best.last, steps=len(own.losses))


def _adam(rate: float) -> Callable[[Mapping[str, torch.nn.Parameter]], torch.optim.Optimizer]:
    return lambda weights: torch.optim.Adam(weights.values(), rate)


def _is_finite(tensor: torch.Tensor) -> bool:
    values = tensor._values() if tensor.layout is torch.sparse_coo else tensor
    return bool(torch.isfinite(values).all())
