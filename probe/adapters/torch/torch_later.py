"""Looks at networks that a script begins to train behind the watched model: by the executable checks alone.

A teacher comes before a student, and each fold of a cross-validation makes a network of its own. Their steps are no
steps of the run, and nothing of them is measured; but copies can be called and the graph of a loss can be read at two
of them as at those of the watched model. The run says that the rest was not seen.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from weakref import ref

import torch
from torch.optim import Optimizer

from ...checks.step_direction import StepDirection
from ...recording.recorder import Recorder
from .torch_checks import ALL_CHECKS, OCCASIONS, TorchChecks
from .torch_networks import Program, kind_of, networks_holding, parameter_ids
from .torch_sites import ModuleSites

#: Trainings that are looked at, and told of. Our choice: of twenty folds the last ones are as the first.
_MOST_LATER: Final = 6


class LaterTrainings:
    """The trainings of a script that step parameters nobody watches.

    Args:
        model: The watched one.
        may_check: Whether hooks may be put on other modules; where torch compiles, they cost a compilation.
    """

    def __init__(self, model: torch.nn.Module, recorder: Recorder, may_check: Callable[[], bool]) -> None:
        self._model, self._recorder, self._may_check = model, recorder, may_check
        self._known: set[str] = set()
        self._trainings: dict[int, _LaterTraining] = {}
        self._count = 0

    def begin(self, optimizer: Optimizer) -> None:
        """Note the first step of an optimizer that steps none of the watched parameters."""
        if self._count >= _MOST_LATER:
            return
        self._count += 1
        try:
            ids = parameter_ids(optimizer)
            networks = networks_holding(ids)
            if not networks:
                return  # single tensors: a temperature, an image
            kinds = ", ".join(f"{name} ({type(network).__name__})" for name, network in networks.items())
            self._tell(next(iter(networks)), kinds, len(ids))
            if self._may_check() and self._recorder.config.checks:
                training = _LaterTraining(networks, self._recorder)
                number = id(optimizer)
                self._trainings[number] = training
                training.owner = ref(optimizer, self._recorder.guard(lambda _: self._end(number)))
                self.stepped(optimizer)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("checks of later networks", error)

    def stepped(self, optimizer: Optimizer) -> None:
        """Note a step of any optimizer."""
        training = self._trainings.get(id(optimizer))
        if training is None:
            return
        try:
            training.step_ends()
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._end(id(optimizer))
            self._recorder.fail("checks of later networks", error)
        if training.is_over:
            self._end(id(optimizer))

    def stop(self) -> None:
        """Remove all hooks."""
        for number in tuple(self._trainings):
            self._end(number)

    def _end(self, number: int) -> None:
        training = self._trainings.pop(number, None)
        if training is not None:
            with suppress(Exception):
                training.remove()

    def _tell(self, site: str, networks: str, parameters: int) -> None:
        if networks not in self._known:
            self._known.add(networks)
            watched = kind_of(self._model)
            self._recorder.event("later_training", site, networks=networks, parameters=parameters, watched=watched)


class _LaterTraining:
    """The checks of one optimizer's networks, which are kept until these are over or the optimizer is gone."""

    def __init__(self, networks: Mapping[str, torch.nn.Module], recorder: Recorder) -> None:
        sites, direction = ModuleSites(Program(networks)), StepDirection(self._optimizers)
        self._checks = TorchChecks(sites, recorder, OCCASIONS[:ALL_CHECKS], direction=direction)
        self._steps = 0
        self.owner: ref[Optimizer] | None = None

    def _optimizers(self) -> list[Optimizer]:
        owner = self.owner() if self.owner is not None else None
        return [] if owner is None else [owner]

    @property
    def is_over(self) -> bool:
        return self._checks.is_over

    def step_ends(self) -> None:
        step, self._steps = self._steps, self._steps + 1
        if step >= self._checks.wants_end_of:
            self._checks.step_ends(step)

    def remove(self) -> None:
        self._checks.remove()
