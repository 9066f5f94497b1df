"""Compares the ranks of a torch training: gradients before reduction, weights and times."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as distributed
from numpy.typing import NDArray

from ...device_results import DeviceResults
from ...facts.rank_comparison import RankComparison
from ...facts.rank_facts import Board, RankMessage, number_of
from ...facts.unaliased_steps import unaliased
from ...kernels import FLAGS, STATISTICS, Arrays, measure_more, measure_more_many, values_at
from ...kernels.device.device_statistics import checksums_on_device, projections_on_device
from ...kernels.fingerprints import PROJECTIONS, project
from ...late_scalars import LateScalar
from ...recording.recorder import Recorder
from ...tensor_access import HookHandle, Unsupported
from .torch_copies import TorchCopies, settings_number
from .torch_gathered import stale_gathered
from .torch_parameters import TorchView
from .torch_recomputation import Recomputation
from .torch_tensors import place_of, remote
from .torch_weight_versions import WeightVersions

_CHECKSUM: Final = FLAGS["checksum"]
_Numbers = NDArray[np.float64]


class LocalGradients:
    """Projections of the gradients that this rank's backward passes find, one row a parameter.

    Attributes:
        rows: `(n, 2)`, NaN where nothing was found on the host.
        on_device: By row, `(2,)` on the device.
    """

    def __init__(self, count: int) -> None:
        self.rows: _Numbers = np.full((count, PROJECTIONS), np.nan)
        self.on_device: dict[int, torch.Tensor] = {}

    def add(self, row: int, gradient: torch.Tensor, *, may_be_late: bool) -> None:
        """Add the gradient of one more pass.

        Raises:
            Unsupported: It cannot be read.
        """
        part = remote(gradient)
        if part is not None and may_be_late:
            found = projections_on_device([part])[0]
            self.on_device[row] = found if row not in self.on_device else self.on_device[row] + found
            return
        (address, size, code), owner = place_of(gradient)
        out = self.rows[row]
        if np.isnan(out[0]):
            out[:] = 0.0
        project(values_at(address, size, code), out)
        del owner


@dataclass(frozen=True, slots=True)
class RankNumbers:
    """One row a parameter, NaN where there is nothing.

    Args:
        parameters: `(n,)` checksums of the weights.
        gradients: `(n,)` checksums of the gradients.
        reduced: `(n, 2)` projections of the gradients.
        local: `(n, 2)` projections of what this rank's passes found.
    """

    parameters: _Numbers
    gradients: _Numbers
    reduced: _Numbers
    local: _Numbers


def host_numbers(
    weights: _Numbers, gradients: Arrays, are_compared: Sequence[bool], local: LocalGradients
) -> RankNumbers:
    """Return the numbers of the tensors on the host.

    Args:
        weights: `(n,)` their checksums.
        are_compared: Which parameters may have copies on other ranks; of the others nothing is told.
    """
    rows = local.rows if len(local.rows) == len(are_compared) else np.full((len(are_compared), PROJECTIONS), np.nan)
    return RankNumbers(
        np.where(np.array(are_compared, np.bool_), weights, np.nan),
        _checksums(gradients, are_compared),
        _projections(gradients, are_compared),
        rows.copy(),
    )


def device_numbers(
    device_results: DeviceResults,
    held: _Numbers,
    weights: Arrays,
    gradients: Arrays,
    are_compared: Sequence[bool],
    local: LocalGradients,
) -> Callable[[], RankNumbers]:
    """Return a function that gives the numbers once those of a device have arrived; other arguments as above.

    Args:
        held: `(n,)` checksums of the weights on the host.
    """
    found = host_numbers(held, replace(gradients, remote={}), are_compared, local)
    of_weights, of_gradients = _whole(weights.remote, are_compared), _whole(gradients.remote, are_compared)
    of_local = local.on_device if len(local.rows) == len(are_compared) else {}
    requests: list[tuple[_Numbers, Sequence[int], torch.Tensor]] = []
    if of_weights:
        requests.append((found.parameters, [*of_weights], checksums_on_device([*of_weights.values()])))
    if of_gradients:
        tensors = [*of_gradients.values()]
        requests.append((found.gradients, [*of_gradients], checksums_on_device(tensors)))
        requests.append((found.reduced, [*of_gradients], projections_on_device(tensors)))
    if of_local:
        requests.append((found.local, [*of_local], torch.stack([*of_local.values()])))
    fetched = [(table, rows, device_results.fetch(numbers)) for table, rows, numbers in requests]

    def arrived() -> RankNumbers:
        for table, rows, numbers in fetched:
            table[rows] = numbers.array
        return found

    return arrived


def _whole(tensors: Mapping[int, torch.Tensor], are_compared: Sequence[bool]) -> dict[int, torch.Tensor]:
    return {row: tensor for row, tensor in tensors.items() if are_compared[row]}


def _checksums(arrays: Arrays, are_compared: Sequence[bool]) -> _Numbers:
    rows = np.full((arrays.addresses.size, len(STATISTICS) + 1), np.nan)
    measure_more_many(arrays.addresses, arrays.sizes, arrays.codes, rows, len(STATISTICS), _CHECKSUM)
    return np.where(np.array(are_compared, np.bool_), rows[:, -1], np.nan)


def _projections(arrays: Arrays, are_compared: Sequence[bool]) -> _Numbers:
    found = np.full((arrays.addresses.size, PROJECTIONS), np.nan)
    places = zip(arrays.addresses.tolist(), arrays.sizes.tolist(), arrays.codes.tolist(), are_compared, strict=True)
    for row, (address, size, code, is_whole) in zip(found, places, strict=True):
        if address and is_whole:
            row[:] = 0.0
            project(values_at(address, size, code), row)
    return found


NAME: Final = "ranks"
#: Ranks beyond these are not compared: rank 0 would read for longer than a step takes.
_MOST: Final = 64
#: At the end of the run, rank 0 looks so many times for the last messages, and waits so long between two looks.
_LAST_LOOKS, _LAST_WAIT_S = 20, 0.05
_MOST_SITES: Final = 16


def watch_ranks(recorder: Recorder, model: Any, view: TorchView) -> "tuple[TorchRanks, ...]":
    """Compare this process with the others; return nothing to remove where it is alone or the quantity is never due."""
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return ()
    if not recorder.config.schedule(NAME).is_ever_due:
        return ()
    ranks = TorchRanks(recorder, model, view)
    ranks.attach()
    return (ranks,)


class TorchRanks:
    """Compares this process with the others at the steps that are due."""

    def __init__(self, recorder: Recorder, model: Any, view: TorchView) -> None:
        self._recorder, self._model, self._view = recorder, model, view
        self._copies, self._comparison = TorchCopies(model, view), RankComparison()
        self._steps = unaliased(recorder.config.schedule(NAME), recorder.config.every)
        self._versions = WeightVersions(recorder, self._weights_on_the_host)
        self._recomputation = Recomputation(recorder, model)
        self._forwards, self._passes, self._is_due = 0, 0, False
        store = distributed.distributed_c10d._get_default_store()
        self._rank = distributed.get_rank()
        self._board = Board(store, self._rank, min(_MOST, distributed.get_world_size()))
        self._hooks: list[HookHandle] = []
        self._local = LocalGradients(0)
        self._message: RankMessage | None = None
        self._random_state = np.nan
        self._generators = b""
        self._since, self._spent = -1, recorder.time.seconds()
        self._is_off = self._has_looked = False
        self._written = 0
        self._has_told_of_gathered = False

    def attach(self) -> None:
        """Prepare the first step, if it is due."""
        self._prepare()

    def remove(self) -> None:
        """Remove the hooks, and record the last messages of the other ranks, if they arrive soon."""
        self._release()
        self._recorder.device_results.drain(
            wait=True
        )  # numbers that are on their way from a device belong to the last message
        for _ in range(_LAST_LOOKS):
            self._guard(self._read)
            if self._is_off or self._rank != 0 or not self._board.is_waiting:
                return
            time.sleep(_LAST_WAIT_S)
        self._board.hurry()
        self._guard(self._read)

    def forward_begins(self) -> None:
        """Count the forward, and note the random state at the first one of a due step."""
        is_training = torch.is_grad_enabled()
        self._forwards += is_training
        if is_training and (self._is_due or self._versions.is_looking):
            self._guard(self._versions.forward_begins)
        if self._is_due and np.isnan(self._random_state):
            self._random_state = number_of(torch.get_rng_state().numpy().tobytes())
            self._generators = _generator_states()

    def before_step(self) -> None:
        """Take the numbers of this rank before the optimizers step."""
        held = cache(self._weights_on_the_host)  # read once, for both
        self._guard(lambda: self._versions.before_step(self._view.names, held))
        if self._is_due and not self._has_looked:
            self._has_looked = True
            self._guard(lambda: self._look(held))
            self._guard(self._look_at_gathered)
            self._guard(lambda: self._recomputation.look(self._recorder.current.step, self._later))

    def step_ends(self, passes: int) -> None:
        """Exchange messages at the end of a step of so many backward passes, before its record is made."""
        self._passes += passes
        self._guard(self._read)
        if self._message is not None:
            message, self._message = self._message, None
            self._guard(lambda: self._post(self._recorder.current.step, message))
        self._has_looked = False
        self._release()
        self._prepare(self._recorder.current.step + 1)

    def _prepare(self, step: int = 0) -> None:
        """Hook the parameters if the step that begins next is due."""
        self._is_due = not self._is_off and self._steps(step)
        if not self._is_due:
            return
        self._local = LocalGradients(len(self._view.parameters))
        for row, parameter in enumerate(self._view.parameters):
            if parameter.requires_grad and not hasattr(parameter, "placements"):
                self._hooks.append(parameter.register_hook(self._recorder.guard(self._gradient_hook(row))))

    def _release(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._random_state = [], np.nan

    def _gradient_hook(self, row: int) -> Callable[[torch.Tensor], None]:
        def see(gradient: torch.Tensor) -> None:
            if self._recorder.current.is_away or self._is_off:
                return
            with suppress(Unsupported):
                self._local.add(row, gradient, may_be_late=self._recorder.device_results.accepts_requests)

        return see

    def _look(self, held: Callable[[], _Numbers]) -> None:
        """Take this rank's numbers before the weights move.

        Args:
            held: Returns the checksums of the weights on the host.
        """
        recorder, view, copies = self._recorder, self._view, self._copies
        has_new_names = copies.refresh()
        are_compared = copies.are_compared()
        weights, gradients = view.weights(), view.gradients()
        spent, steps = recorder.time.seconds(), max(1, recorder.time.ended - self._since)
        times = np.array([(now - then) / steps for now, then in zip(spent, self._spent, strict=True)])
        self._spent, self._since = spent, recorder.time.ended
        message = partial(
            RankMessage,
            random_state=self._random_state,
            times=times,
            keys=copies.keys,
            declared=copies.declared,
            flags=copies.flags,
            part=copies.part,
            forwards=float(self._forwards),
            draws=float(self._generators != _generator_states()),
            settings=settings_number(view.optimizers),
            names=copies.names if has_new_names else (),
        )
        of_buffers = self._buffer_checksums()
        is_final = bool(view.optimizers)  # else this is the end of a backward pass, and gradients may yet be averaged
        current = recorder.current
        batch, clip, scale = current.batch_checksum, current.clip, current.loss_scale

        def complete(found: RankNumbers) -> RankMessage:
            return message(
                batch=current.batch_checksum if np.isnan(batch) else batch,
                clip=_clip_of(clip),
                parameters=np.concatenate((found.parameters, of_buffers())),
                gradients=_behind(found.gradients if is_final else found.gradients * np.nan, copies.keys.size),
                reduced=_behind(found.reduced if is_final else found.reduced * np.nan, copies.keys.size),
                local=_behind(found.local / _scale_of(scale), copies.keys.size),
            )

        if recorder.device_results.accepts_requests and (weights.remote or gradients.remote):
            arrived, step = (
                device_numbers(recorder.device_results, held(), weights, gradients, are_compared, self._local),
                current.step,
            )
            recorder.device_results.do(NAME, lambda: self._guard(lambda: self._post(step, complete(arrived()))))
        else:
            ours = _checksums(weights.local(), are_compared) if weights.remote else held()
            self._message = complete(host_numbers(ours, gradients.local(), are_compared, self._local))

    def _look_at_gathered(self) -> None:
        if self._has_told_of_gathered:
            return
        sites: list[str] = []
        with suppress(AttributeError):  # another version of torch keeps its records elsewhere
            sites = stale_gathered(self._model)[:_MOST_SITES]
        if sites:
            self._has_told_of_gathered = True
            step = self._recorder.current.step
            self._recorder.event("weights_stale", "", at=step, sites=[*sites], steps_behind=None, steps=1)

    def _weights_on_the_host(self) -> _Numbers:
        weights = self._view.weights()
        return _checksums(replace(weights, remote={}), [True] * weights.addresses.size)

    def _buffer_checksums(self) -> Callable[[], _Numbers]:
        """Return a function that gives the checksums of the buffers, once they have arrived."""
        found, away = np.full(len(self._copies.buffers), np.nan), dict[int, torch.Tensor]()
        for row, buffer in enumerate(self._copies.buffers):
            with suppress(Unsupported):
                part = remote(buffer)
                if part is None:
                    (address, size, code), owner = place_of(buffer)
                    found[row] = _checksum(address, size, code)
                    del owner
                elif self._recorder.device_results.accepts_requests:
                    away[row] = part
        if not away:
            return lambda: found
        fetched = self._recorder.device_results.fetch(checksums_on_device([*away.values()]))

        def arrived() -> _Numbers:
            found[[*away]] = fetched.array
            return found

        return arrived

    def _later(self, work: Callable[[], None]) -> None:
        self._recorder.device_results.do(NAME, lambda: self._guard(work))

    def _post(self, step: int, message: RankMessage) -> None:
        written = self._recorder.current.written
        complete = replace(message, written=written - self._written, passes=float(self._passes))
        self._board.post(step, complete.encode())
        self._written = written

    def _read(self) -> None:
        if self._rank != 0:
            return
        for step, messages in self._board.read().items():
            decoded = [None if message is None else RankMessage.decode(message) for message in messages]
            for kind, data in self._comparison.facts(step, decoded):
                self._recorder.event(kind, "", **data)

    def _guard(self, work: Callable[[], object]) -> None:
        if self._is_off:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._is_off = True
            self._recorder.fail(NAME, error)


def _generator_states() -> bytes:
    """Return the state of the host's generator and of the present device's."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available() and torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        states.append(torch.cuda.get_rng_state())
    return b"".join(state.numpy().tobytes() for state in states)


def _clip_of(clip: tuple[float | LateScalar, float] | None) -> float:
    """Return the factor by which gradients of this norm were clipped to this limit; 1 where they were not."""
    if clip is None:
        return 1.0
    norm = clip[0]() if callable(clip[0]) else clip[0]
    return clip[1] / norm if norm is not None and norm > clip[1] else 1.0


def _scale_of(scale: float | LateScalar | None) -> float:
    return (scale() if callable(scale) else scale) or 1.0


def _checksum(address: int, size: int, code: int) -> float:
    row = np.empty(len(STATISTICS) + 1)
    measure_more(address, size, code, row.ctypes.data, len(STATISTICS), _CHECKSUM)
    return float(row[-1])


def _behind(table: _Numbers, size: int) -> _Numbers:
    """Return the table with rows of NaN for the buffers behind the parameters."""
    found = np.full((size, *table.shape[1:]), np.nan)
    found[: len(table)] = table
    return found
