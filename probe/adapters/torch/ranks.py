"""One torch process among several that train one model: what it tells the others, and on rank 0 what they told."""

import time
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as distributed

from ...access.tensors import Tensor, Unsupported
from ...facts.rank_board import Board
from ...facts.rank_facts import rank_facts
from ...facts.rank_message import RankMessage, number_of
from ...outbox.promises import LateScalar
from ...recording.recorder import Recorder
from .rank_numbers import LocalGradients, RankNumbers, numbers_away, numbers_here
from .view import TorchView

NAME: Final = "ranks"
#: Ranks beyond these are not compared: rank 0 would read for longer than a step takes.
_MOST: Final = 64
#: As the run ends, what the others still have to tell is waited for: so many times so long.
_LAST_LOOKS, _LAST_WAIT_S = 20, 0.05


def watch_ranks(recorder: Recorder, view: TorchView) -> "tuple[TorchRanks, ...]":
    """The comparison of this process with the others, its hooks on; none where it is alone, or nothing is ever due."""
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return ()
    if not recorder.config.schedule(NAME).is_ever_due:
        return ()
    ranks = TorchRanks(recorder, view)
    ranks.attach()
    return (ranks,)


class TorchRanks:
    """Compares this process with the others at the steps that are due."""

    def __init__(self, recorder: Recorder, view: TorchView) -> None:
        self._recorder, self._view = recorder, view
        store = distributed.distributed_c10d._get_default_store()
        self._rank = distributed.get_rank()
        self._board = Board(store, self._rank, min(_MOST, distributed.get_world_size()))
        self._hooks: list[Any] = []
        self._local = LocalGradients(0)
        self._message: RankMessage | None = None
        self._random_state = np.nan
        self._since, self._spent = -1, recorder.time.seconds()
        self._is_off = self._has_looked = False

    def attach(self) -> None:
        """Nothing; the first step is looked at, if it is due."""
        self._prepare()

    def remove(self) -> None:
        """Nothing; no hook is left, and what the others told last is recorded, if they tell it soon."""
        self._release()
        self._recorder.outbox.drain(wait=True)  # what is on its way from a device is to be told as well
        for _ in range(_LAST_LOOKS):
            self._guard(self._read)
            if self._is_off or self._rank != 0 or not self._board.is_waiting:
                return
            time.sleep(_LAST_WAIT_S)
        self._board.hurry()
        self._guard(self._read)

    def forward_begins(self) -> None:
        """The model is called; the first time in a step that is due the random state is noted."""
        if self._hooks and np.isnan(self._random_state):
            self._random_state = number_of(torch.get_rng_state().numpy().tobytes())

    def before_step(self) -> None:
        """The optimizers are about to step."""
        if self._hooks and not self._has_looked:
            self._has_looked = True
            self._guard(self._look)

    def step_ends(self) -> None:
        """The step is over, and its record not yet made."""
        self._guard(self._read)
        if self._message is not None:
            message, self._message = self._message, None
            self._guard(lambda: self._post(self._recorder.current.step, message))
        self._has_looked = False
        self._release()
        self._prepare(self._recorder.current.step + 1)

    def _prepare(self, step: int = 0) -> None:
        """Hooks go on the parameters where the step that begins next is due."""
        if self._is_off or not self._recorder.config.schedule(NAME).is_due(step):
            return
        self._local = LocalGradients(len(self._view.parameters))
        for place, parameter in enumerate(self._view.parameters):
            if parameter.requires_grad and _is_whole(parameter):
                self._hooks.append(parameter.register_hook(self._gradient_hook(place)))

    def _release(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._random_state = [], np.nan

    def _gradient_hook(self, place: int) -> Any:
        def see(gradient: Tensor) -> None:
            if self._recorder.current.is_away or self._is_off:
                return
            with suppress(Unsupported):
                self._local.add(place, gradient, may_be_late=self._recorder.outbox.takes_promises)

        return see

    def _look(self) -> None:
        """Takes this rank's numbers before the weights move."""
        recorder, view = self._recorder, self._view
        whole = [_is_whole(one) for one in view.parameters]
        weights, gradients = view.weights(), view.gradients()
        spent, steps = recorder.time.seconds(), max(1, recorder.time.ended - self._since)
        times = np.array([(now - then) / steps for now, then in zip(spent, self._spent, strict=True)])
        self._spent, self._since = spent, recorder.time.ended
        message = partial(
            RankMessage,
            structure=number_of("\n".join(view.names).encode()),
            random_state=self._random_state,
            times=times,
        )
        current = recorder.current
        batch, clip, scale = current.batch_checksum, current.clip, current.loss_scale

        def complete(found: RankNumbers) -> RankMessage:
            return message(
                batch=current.batch_checksum if np.isnan(batch) else batch,
                clip=_clip_of(clip),
                parameters=found.parameters,
                gradients=found.gradients,
                reduced=found.reduced,
                local=found.local / _scale_of(scale),
            )

        if recorder.outbox.takes_promises and (weights.remote or gradients.remote):
            arrived, step = numbers_away(recorder.outbox, weights, gradients, whole, self._local), current.step
            recorder.outbox.do(NAME, lambda: self._guard(lambda: self._post(step, complete(arrived()))))
        else:
            self._message = complete(numbers_here(weights.local(), gradients.local(), whole, self._local))

    def _post(self, step: int, message: RankMessage) -> None:
        self._board.post(step, message.encode())

    def _read(self) -> None:
        if self._rank != 0:
            return
        for step, messages in self._board.read().items():
            told = [None if one is None else RankMessage.decode(one) for one in messages]
            for kind, data in rank_facts(step, told, self._view.names):
                self._recorder.event(kind, "", **data)

    def _guard(self, work: Any) -> None:
        if self._is_off:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._is_off = True
            self._recorder.fail(NAME, error)


def _clip_of(clip: tuple[float | LateScalar, float] | None) -> float:
    """By what gradients of this norm were shortened to this limit; 1 where they were not."""
    if clip is None:
        return 1.0
    norm = clip[0]() if callable(clip[0]) else clip[0]
    return clip[1] / norm if norm is not None and norm > clip[1] else 1.0


def _scale_of(scale: float | LateScalar | None) -> float:
    return (scale() if callable(scale) else scale) or 1.0


def _is_whole(parameter: Tensor) -> bool:
    """Whether the rank holds all of the parameter, and not a part that differs from the others' by intent."""
    return not (hasattr(parameter, "placements") or getattr(parameter, "tensor_model_parallel", False))
