"""Sees with which weights a trained network is evaluated: an average in their place may still be mostly the start."""

from collections.abc import Callable, Iterable
from typing import Any
from weakref import ref

import torch

from ...aside import checking
from ...checks.copied_networks import LONG, mostly_the_start, sample_of
from ...recording.recorder import Recorder
from .torch_evaluation import EvaluationBegins
from .torch_loaded_states import StateIsLoaded
from .torch_resting import plain_parameter_ids

_MOST_PARAMETERS = 2000


class EvaluatedWeights:
    """Compares the weights that an evaluation begins with to those that the training had come to, and to the first.

    Nothing is told once the optimizers are others: another training may have begun from the same start.

    Args:
        networks: The trained ones that may be evaluated.
        optimizers: Returns those that step them.
    """

    def __init__(
        self, networks: Iterable[torch.nn.Module], optimizers: Callable[[], Iterable[Any]], recorder: Recorder
    ) -> None:
        networks = [one for one in networks if 1 < len(plain_parameter_ids(one)) <= _MOST_PARAMETERS]
        self._recorder, self._optimizers = recorder, optimizers
        self._seen = [_Weights(one) for one in networks]
        self._stepping: frozenset[int] | None = None
        self._is_told = not recorder.config.checks
        self._listeners = (
            EvaluationBegins(networks, self._look, recorder.guard),
            StateIsLoaded(networks, self._look, recorder.guard),
        )

    def glance(self, step: int) -> None:
        """Keep what the training has come to, as a step has ended."""
        now = frozenset(map(id, self._optimizers()))
        self._stepping = self._stepping or now
        if now != self._stepping:
            self._is_told = True
        for weights in self._seen if not self._is_told else ():
            weights.glance(step)

    def remove(self) -> None:
        """Look no more."""
        for listener in self._listeners:
            listener.remove()

    def _look(self) -> None:
        if self._is_told or frozenset(map(id, self._optimizers())) != self._stepping:
            return
        with self._recorder.guard.quietly(), checking(), torch.no_grad():
            for weights in self._seen:
                result = weights.look()
                if result is not None and not self._is_told:
                    self._is_told = True
                    self._recorder.event("check", "", occasion=2, **result.data())


class _Weights:
    """Those of one network, which is not kept alive: the first ones, and the newest that were trained."""

    def __init__(self, network: torch.nn.Module) -> None:
        self._network, self._first = ref(network), sample_of(network)
        self._trained: tuple[torch.Tensor, int] | None = None

    def glance(self, step: int) -> None:
        network = self._network()
        if network is not None and step >= LONG:
            self._trained = sample_of(network), step

    def look(self) -> Any:
        network = self._network()
        if network is None or self._trained is None:
            return None
        trained, step = self._trained
        return mostly_the_start(type(network).__name__, self._first, trained, sample_of(network), step)
