"""Tells when a watched model is put into evaluation mode, and looks at the data that it will get then."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...aside import is_aside
from ...checks.twin_vocabularies import is_of_a_split, names_have_one_number
from ...guard import Guard
from ...recording.recorder import Recorder
from .torch_patches import PatchedFunctions, report
from .torch_variables import variables_in_sight


class EvaluationBegins:
    """Calls a function as one of these modules is put into evaluation mode.

    Args:
        modules: Which ones; of others nothing is told.
    """

    def __init__(self, modules: Iterable[torch.nn.Module], call: Callable[[], None], guard: Guard) -> None:
        self.guard = guard
        self._modules, self._call = {id(module) for module in modules}, call
        _modes.add(self)

    def evaluation_begins(self, module: torch.nn.Module) -> None:
        """Note that a module is put into evaluation mode."""
        if id(module) in self._modules and not is_aside():
            self._call()

    def remove(self) -> None:
        """Listen no more."""
        _modes.remove(self)


class EvaluatedData:
    """Looks at the data of a script once, as its first evaluation after a recorded step begins."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._has_looked = recorder, False

    def look(self) -> None:
        """Record whether names have the same numbers in the data of training and evaluation."""
        recorder = self._recorder
        if self._has_looked or not recorder.config.checks or not recorder.current.has_recorded:
            return
        self._has_looked = True
        with recorder.guard.quietly():
            result = names_have_one_number(variables_in_sight(is_of_a_split))
            if result is not None:
                recorder.event("check", "", occasion=1, **result.data())


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    def train(self: Any, mode: bool = True) -> Any:
        if not mode:
            report(_modes.awake, "evaluation_begins", self)
        return original(self, mode)

    return train


def _patch_modes() -> None:
    _modes.put(torch.nn.Module, "train", _watched)


_modes: PatchedFunctions[EvaluationBegins] = PatchedFunctions(_patch_modes)
