"""Hooks before the whole model: the batch that it is called with."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..access.tensors import Access, Tensor, Unsupported, every_tensor_in
from ..aside import is_aside
from ..kernels import readable
from ..kernels.tokens import BUCKETS, TOKENS, count_tokens
from ..quantities.checksums import PLACES, RANGE
from ..recording.recorder import Recorder
from .device_batches import DeviceInput, Totals
from .host_batches import HostInput

NAME: Final = "batch"
_NONE: Mapping[str, Any] = {}
_MOST_INPUTS: Final = 4
#: Forwards of one evaluation that are looked at. Our choice: an evaluation may be longer than the training.
_MOST_EVALUATED: Final = 32


class BatchTaps:
    """What one monitor sees of its model's batches.

    Args:
        counts: Whether a forward that begins now is one of the training.
    """

    def __init__(self, recorder: Recorder, access: Access, counts: Callable[[], bool]) -> None:
        self._recorder, self._access, self._counts = recorder, access, counts
        self._before: dict[str, NDArray[np.float64]] = {}
        self._stamp, self._calls, self._evaluated = -1, 0, 0
        self._step = -1
        self._total = self._samples = self._tokens = 0
        self._late = Totals()
        self._columns = recorder.columns(NAME)

    @property
    def is_wanted(self) -> bool:
        """Whether batches are ever looked at."""
        return self._recorder.config.schedule(NAME).is_ever_due

    def hook(self) -> Callable[..., None]:
        """The hook before the model: `hook(module, inputs[, keywords])`, behind the one that opens the step."""
        return self._recorder.timed(self._before_forward)

    def _before_forward(self, _module: Any, inputs: Any, keywords: Mapping[str, Any] = _NONE) -> None:
        recorder, current = self._recorder, self._recorder.current
        if NAME not in current.due or current.is_away or is_aside():
            return
        try:
            if current.stamp != self._stamp:
                self._stamp, self._calls, self._evaluated = current.stamp, 0, 0
                self._total = self._samples = self._tokens = 0
                self._late = Totals()
            if self._counts():
                self._see_batch(inputs, keywords)
            elif self._evaluated < _MOST_EVALUATED and not self._access.is_repeated():
                for path, held in self._inputs(inputs, keywords):
                    if isinstance(held, DeviceInput):
                        self._put_later("batch/eval", path, self._evaluated, held)
                    else:
                        self._put("batch/eval", path, self._evaluated, held)
                self._evaluated += 1
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail(NAME, error)

    def _see_batch(self, inputs: Any, keywords: Mapping[str, Any]) -> None:
        """Records one forward of the training; a step's scalars are those of all its forwards together."""
        recorder, call = self._recorder, self._calls
        for place, (path, held) in enumerate(self._inputs(inputs, keywords)):
            if isinstance(held, DeviceInput):
                self._late.add(held.checksum, place, call)
                self._put_later("batch", path, call, held)
                self._put_tokens_later(path, call, held)
            else:
                self._total += (self._put_checked(path, call, held) + call) * PLACES[place]
                if held.is_token and held.array is not None:
                    self._put_tokens(path, call, held.array)
            if place == 0:
                self._count(held.shape[0] if held.shape else 1, math.prod(held.shape) if held.is_token else 0)
        self._calls = call + 1
        scalars: dict[str, float] = {}
        if self._samples:
            scalars["batch/samples"] = float(self._samples)
            if self._late:
                self._tell_checksum_later()
            else:
                scalars["batch/checksum"] = recorder.current.batch_checksum = float(self._total % RANGE)
        if self._tokens:
            scalars["batch/tokens"] = float(self._tokens)
        recorder.log(scalars)

    def _tell_checksum_later(self) -> None:
        """Of all forwards of the (micro-)step so far, when those that are on their way have come."""
        recorder, here, late = self._recorder, self._total, self._late

        def arrive() -> None:
            recorder.current.batch_checksum = float((here + late.checksum()) % RANGE)

        recorder.current.batch_checksum = math.nan
        recorder.outbox.do(NAME, arrive)
        recorder.outbox.late_scalar("batch/checksum", lambda: float((here + late.checksum()) % RANGE))

    def _count(self, samples: int, tokens: int) -> None:
        time, step = self._recorder.time, self._recorder.current.step
        self._samples, self._tokens = self._samples + samples, self._tokens + tokens
        time.samples, time.tokens = time.samples + samples, time.tokens + tokens
        if self._step != step:
            self._step, time.steps = step, time.steps + 1

    def _inputs(self, inputs: Any, keywords: Mapping[str, Any]) -> Iterator[tuple[str, HostInput | DeviceInput]]:
        """Path and values of the first inputs, without gaps; the first has the empty path."""
        recorder = self._recorder
        kind = self._access.kind
        if isinstance(inputs, tuple) and len(inputs) == 1 and not keywords and isinstance(inputs[0], kind):
            tensors: Iterable[tuple[str, Tensor]] = (("", inputs[0]),)  # as it mostly is
        else:
            named = dict(enumerate(inputs)) | dict(keywords) if isinstance(inputs, tuple) else inputs
            tensors = every_tensor_in(named, kind)
        found = 0
        for path, tensor in tensors:
            try:
                away = self._access.remote(tensor)
                if away is not None and recorder.outbox.takes_promises:
                    held: HostInput | DeviceInput = DeviceInput(recorder.outbox, away)
                else:
                    held = HostInput(tensor, self._access)
            except Unsupported:
                continue
            yield (path if found else ""), held
            found += 1
            if found == _MOST_INPUTS:
                return

    def _put(self, subject: str, path: str, call: int, held: HostInput) -> None:
        if held.has_statistics:
            held.measure(self._recorder, self._recorder.open_rows(subject, self._columns).row(path, call))

    def _put_checked(self, path: str, call: int, held: HostInput) -> int:
        """The checksum of an input of the training, whose row is filled if it has statistics."""
        if not held.has_statistics:
            return held.checksum()
        return held.measure_checked(self._recorder, self._recorder.open_rows(NAME, self._columns).row(path, call))

    def _put_later(self, subject: str, path: str, call: int, held: DeviceInput) -> None:
        """The same of an input on a device, when a sample of it has travelled."""
        recorder, columns = self._recorder, self._recorder.columns(NAME)

        def measured() -> Any:
            numbers = np.empty(len(columns))
            data, code = readable(held.sample())
            recorder.measure(data.ctypes.data or 1, data.size, code, numbers.ctypes.data)
            return numbers

        recorder.open_rows(subject, columns).row(path, call).owe(recorder.outbox.make(NAME, measured))

    def _put_tokens_later(self, path: str, call: int, held: DeviceInput) -> None:
        if held.has_tokens:
            before = self._before.setdefault(path, np.zeros(BUCKETS))
            made = self._recorder.outbox.make(NAME, lambda: _counted(held.tokens(), before))
            self._recorder.open_rows("batch/tokens", TOKENS).row(path, call).owe(made)

    def _put_tokens(self, path: str, call: int, array: NDArray[Any]) -> None:
        before = self._before.setdefault(path, np.zeros(BUCKETS))
        numbers = _counted(array.reshape(-1).astype(np.int64, copy=False), before)
        self._recorder.open_rows("batch/tokens", TOKENS).row(path, call).put(numbers)


def _counted(tokens: NDArray[np.int64], before: NDArray[np.float64]) -> list[float]:
    numbers = np.empty(len(TOKENS))
    count_tokens(tokens, before, numbers)
    found: list[float] = numbers.tolist()
    return found
