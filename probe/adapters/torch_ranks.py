"""One torch process among several that train one model: what it tells the others, and on rank 0 what they told."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as distributed
from numpy.typing import NDArray

from ..facts.rank_board import Board
from ..facts.rank_facts import rank_facts
from ..facts.rank_message import RankMessage, number_of
from ..kernels import MORE, STATISTICS, Arrays, measure_more_many, values_at
from ..kernels.projection import PROJECTIONS, project
from ..recorder import Recorder
from .tensors import Tensor, Unsupported
from .torch_memory import place_of
from .torch_view import TorchView

NAME: Final = "ranks"
#: Ranks beyond these are not compared: rank 0 would read for longer than a step takes.
_MOST: Final = 64
_CHECKSUM: Final = 1 << list(MORE).index("checksum")
_Numbers = NDArray[np.float64]


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
        self._local: _Numbers = np.empty((0, PROJECTIONS))
        self._message: RankMessage | None = None
        self._random_state = np.nan
        self._since, self._spent = -1, recorder.time.seconds()
        self._is_off = False

    def attach(self) -> None:
        """Nothing; the first step is looked at, if it is due."""
        self._prepare()

    def remove(self) -> None:
        """Nothing; no hook is left, and what the others told last is recorded."""
        self._release()
        self._guard(self._read)

    def forward_begins(self) -> None:
        """The model is called; the first time in a step that is due the random state is noted."""
        if self._hooks and np.isnan(self._random_state):
            self._random_state = number_of(torch.get_rng_state().numpy().tobytes())

    def before_step(self) -> None:
        """The optimizers are about to step."""
        if self._hooks and self._message is None:
            self._guard(self._look)

    def step_ends(self) -> None:
        """The step is over, and its record not yet made."""
        self._guard(self._read)
        if self._message is not None:
            message, self._message = self._message, None
            self._guard(lambda: self._board.post(self._recorder.step, message.encode()))
        self._release()
        self._prepare(self._recorder.step + 1)

    def _prepare(self, step: int = 0) -> None:
        """Hooks go on the parameters where the step that begins next is due."""
        if self._is_off or not self._recorder.config.schedule(NAME).is_due(step):
            return
        self._local = np.full((len(self._view.parameters), PROJECTIONS), np.nan)
        for place, parameter in enumerate(self._view.parameters):
            if parameter.requires_grad and _is_whole(parameter):
                self._hooks.append(parameter.register_hook(self._gradient_hook(place)))

    def _release(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._random_state = [], np.nan

    def _gradient_hook(self, place: int) -> Any:
        def see(gradient: Tensor) -> None:
            if self._recorder.is_away or self._is_off:
                return
            try:
                (address, size, code), owner = place_of(gradient)
            except Unsupported:
                return
            row = self._local[place]
            if np.isnan(row[0]):
                row[:] = 0.0
            project(values_at(address, size, code), row)
            del owner

        return see

    def _look(self) -> None:
        """Takes this rank's numbers before the weights move."""
        recorder, view = self._recorder, self._view
        whole = [_is_whole(one) for one in view.parameters]
        gradients = view.gradients().local()
        spent, steps = recorder.time.seconds(), max(1, recorder.step - self._since)
        times = np.array([(now - then) / steps for now, then in zip(spent, self._spent, strict=True)])
        self._spent, self._since = spent, recorder.step
        local = self._local if len(self._local) == len(whole) else np.full((len(whole), PROJECTIONS), np.nan)
        self._message = RankMessage(
            structure=number_of("\n".join(view.names).encode()),
            batch=recorder.batch_checksum,
            random_state=self._random_state,
            clip=_clip_of(recorder.clip),
            times=times,
            parameters=_checksums(view.weights().local(), whole),
            gradients=_checksums(gradients, whole),
            reduced=_projections(gradients, whole),
            local=local / (np.nan if callable(recorder.loss_scale) else recorder.loss_scale or 1.0),
        )

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


def _clip_of(clip: tuple[float, float] | None) -> float:
    """By what gradients of this norm were shortened to this limit; 1 where they were not."""
    return 1.0 if clip is None or not clip[0] > clip[1] else clip[1] / clip[0]


def _is_whole(parameter: Tensor) -> bool:
    """Whether the rank holds all of the parameter, and not a part that differs from the others' by intent."""
    return not (hasattr(parameter, "placements") or getattr(parameter, "tensor_model_parallel", False))


def _checksums(arrays: Arrays, whole: Iterable[bool]) -> _Numbers:
    """`(n,)`, NaN where there is no array."""
    rows = np.full((arrays.addresses.size, len(STATISTICS) + 1), np.nan)
    measure_more_many(arrays.addresses, arrays.sizes, arrays.codes, rows, len(STATISTICS), _CHECKSUM)
    return np.where(np.fromiter(whole, np.bool_), rows[:, -1], np.nan)


def _projections(arrays: Arrays, whole: Iterable[bool]) -> _Numbers:
    """`(n, 2)`, NaN where there is no array."""
    found = np.full((arrays.addresses.size, PROJECTIONS), np.nan)
    places = zip(arrays.addresses.tolist(), arrays.sizes.tolist(), arrays.codes.tolist(), whole, strict=True)
    for row, (address, size, code, is_whole) in zip(found, places, strict=True):
        if address and is_whole:
            row[:] = 0.0
            project(values_at(address, size, code), row)
    return found
