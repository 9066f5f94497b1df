"""Runs the executable checks at steps of optimizers that rest while the others are checked, such as a generator's."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from ...checks.check_result import CheckResult, broken, held
from ...checks.step_direction import StepDirection
from ...recording.recorder import Recorder
from .torch_checks import ALL_CHECKS, OCCASIONS, TorchChecks
from .torch_learners import Learners
from .torch_networks import held_by, parameter_ids
from .torch_reached import ReachedParameters
from .torch_sites import ModuleSites

GIVEN: Final = "stepped_parameters_get_gradients"
_CLAIM: Final = "a backward pass reaches the parameters that an optimizer steps"
#: Optimizers that are looked at, steps that were expected to be theirs and were not, and steps between two occasions.
#: Our choice.
_MOST_OPTIMIZERS, _MOST_MISSES, _BETWEEN = 4, 6, 24
#: Steps by which the next one is expected, and after which nothing is looked for any more. Our choice.
_MOST_KEPT, _MOST_STEPS = 64, 400


@dataclass(slots=True)
class _Turn:
    """One optimizer that rests at most steps: when it stepped, and its checks.

    Args:
        expected: The step for which its checks are armed; -1 for none.
        not_before: The first step of the next occasion.
        asked: Occasions so far.
        first: The first step of it that was seen; -1 before it.
        seen: How many of its steps were seen, those between two occasions included.
        has_gradients: Whether any parameter had a gradient at any of them.
        misses: Steps that were expected to be its own and were not.
    """

    optimizer: Any
    checks: TorchChecks
    expected: int = -1
    not_before: int = 0
    asked: int = 0
    first: int = -1
    seen: int = 0
    has_gradients: bool = False
    misses: int = 0

    @property
    def is_over(self) -> bool:
        return self.asked == ALL_CHECKS or self.misses > _MOST_MISSES

    def stepped(self, step: int) -> None:
        """Note that its optimizer has stepped, with gradients or without."""
        self.first = step if self.first < 0 else self.first
        self.seen += 1
        self.has_gradients |= any(parameter.grad is not None for parameter in held_by((self.optimizer,)))


@dataclass(slots=True)
class TurnChecks:
    """The checks of every optimizer, where not all of them step at the first occasion of the run's own checks.

    Nothing tells what the next step trains before it ends: what is expected is what followed the last time when the
    steps before were the same. Until then the checks have no hooks.

    Args:
        others: The checks of the run, at whose first occasion some optimizers may rest.
        optimizers: The watched ones.
    """

    model: torch.nn.Module
    module_sites: ModuleSites
    recorder: Recorder
    others: TorchChecks
    optimizers: list[Any]
    learners: Learners
    _turns: dict[int, _Turn] | None = None
    _order: deque[frozenset[int]] = field(default_factory=lambda: deque(maxlen=_MOST_KEPT))
    _newest: int = -1
    _steps: int = 0

    def step_ends(self, step: int, stepped: frozenset[int]) -> None:
        """Run the checks that are armed for the step that ends; arm those that are expected at the next one."""
        if self._turns is not None and not self._turns:
            return
        try:
            self._look(step, stepped)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self.remove()
            self.recorder.fail("checks of optimizers that take turns", error)

    def _look(self, step: int, stepped: frozenset[int]) -> None:
        if self._turns is None:
            self._begin()
        if step != self._newest + 1:  # steps between were not seen
            self._order.clear()
        self._order.append(stepped)
        self._newest, self._steps = step, self._steps + 1
        turns = [] if self._turns is None else list(self._turns.values())
        for turn in turns:
            if id(turn.optimizer) in stepped and not turn.is_over:
                turn.stepped(step)
            if turn.expected >= 0:
                self._finish(turn, step, has_stepped=id(turn.optimizer) in stepped)
        if self._steps > _MOST_STEPS or (turns and all(turn.is_over for turn in turns)):
            self.remove()
            return
        expected = _what_follows(self._order) if turns else frozenset()
        for turn in turns:
            if id(turn.optimizer) in expected and not turn.is_over and step + 1 >= turn.not_before:
                turn.expected = step + 1
                turn.checks.step_ends(OCCASIONS[turn.asked] - 1)

    def remove(self) -> None:
        """Remove the hooks of all checks."""
        for turn in (self._turns or {}).values():
            turn.checks.remove()
        self._turns = {}

    def _begin(self) -> None:
        """Take up the optimizers if any of them rested at the first occasion of the run."""
        if self.others.is_told_of_the_first:
            stepped = self._order[-1] if self._order else frozenset()
            takes_turns = any(id(one) not in stepped for one in self.optimizers)
            found = self.optimizers[:_MOST_OPTIMIZERS] if takes_turns else ()
            self._turns = {id(one): _Turn(one, self._checks_of(one)) for one in found}

    def _finish(self, turn: _Turn, step: int, *, has_stepped: bool) -> None:
        is_expected, turn.expected = turn.expected == step and has_stepped, -1
        if not is_expected:
            turn.misses += 1
            turn.checks.postpone(OCCASIONS[turn.asked])
            return
        turn.checks.step_ends(OCCASIONS[turn.asked])
        turn.asked, turn.not_before = turn.asked + 1, step + _BETWEEN
        if turn.asked == ALL_CHECKS:
            result = self._given(turn)
            self.recorder.event("check", "", occasion=ALL_CHECKS, since=turn.first, **result.data())

    def _given(self, turn: _Turn) -> CheckResult:
        name, count = self.learners.name_of(turn.optimizer), len(held_by((turn.optimizer,)))
        if turn.has_gradients:
            return held(GIVEN, _CLAIM, subject=name, parameters=float(count))
        words = (
            f"none of the {count} parameters of {name} had a gradient at any of the {turn.seen} steps of its optimizer "
            f"that were seen from step {turn.first} to {self._newest}"
        )
        return broken(GIVEN, _CLAIM, words, subject=name, parameters=float(count), steps=float(turn.seen))

    def _checks_of(self, optimizer: Any) -> TorchChecks:
        ids = parameter_ids(optimizer)
        return TorchChecks(
            self.module_sites,
            self.recorder,
            OCCASIONS[:ALL_CHECKS],
            reached=ReachedParameters(self.model, lambda: self.optimizers),
            concerns=lambda module: any(id(parameter) in ids for parameter in module.parameters()),
            direction=StepDirection(lambda: self.optimizers),
        )


def _what_follows(order: Sequence[frozenset[int]]) -> frozenset[int]:
    """Return what came last time after the longest run of steps that is like the newest ones; empty if none is."""
    found, longest = frozenset[int](), 0
    for at in range(len(order) - 2, -1, -1):
        length = 0
        while length <= at and order[at - length] == order[-1 - length]:
            length += 1
        if length > longest:
            found, longest = order[at + 1], length
    return found
