"""What the model is called with: checksum, statistics and token frequencies of every batch."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Json
from ..aside import is_aside
from ..device_results import DeviceResults, Fetched
from ..kernels import FLOAT32, measure_checked, readable, values_at
from ..kernels.fingerprints import PLACES, RANGE, checksum_at, checksum_from, checksum_of
from ..kernels.tokens import BUCKETS, TOKENS, count_tokens
from ..recording.recorder import Recorder
from ..recording.row_buffers import Row
from ..tensor_access import Access, Place, Tensor, Unsupported, every_tensor_in
from .repeated_values import RepeatedValues

_BYTES = (4, 8, 2, 2)  # of an element, by its dtype code


class HostInput:
    """One input.

    Attributes:
        shape: As the model is given it.
        array: Its values without gaps; None of floats that are read where they lie.
        is_token: Whether it holds whole numbers of four bytes or more.
    """

    __slots__ = ("_address", "_bytes", "_place", "array", "is_token", "shape")

    def __init__(self, tensor: Tensor, access: Access) -> None:
        self.array: NDArray[Any] | None = None
        self.is_token = False
        self._place: Place | None = access.plain(tensor)
        if self._place is not None:
            self.shape: Sequence[int] = tensor.shape
            self._address, size, code = self._place
            self._bytes = size * _BYTES[code]
            return
        self.array = np.ascontiguousarray(access.array(tensor))
        self.shape = self.array.shape
        self.is_token = self.array.dtype.kind in "iu" and self.array.dtype.itemsize >= 4
        self._address, self._bytes = self.array.ctypes.data, self.array.nbytes

    def checksum(self) -> int:
        """Return the checksum of all bytes."""
        return checksum_at(self._address, self._bytes)

    @property
    def has_statistics(self) -> bool:
        """Whether its elements are real numbers."""
        array = self.array
        return array is None or array.dtype.kind in "biuf" or array.dtype.name == "bfloat16"

    def measure(self, recorder: Recorder, row: Row) -> None:
        """Fill the row with the statistics of all elements, or of a sample of very many."""
        place = self._place
        if place is not None and stride_of(place[1]) == 1:
            recorder.measure(*place, row.address)
        else:
            data, code = readable(self._sample())
            recorder.measure(data.ctypes.data or 1, data.size, code, row.address)
        row.present[row.index] = 1

    def measure_checked(self, recorder: Recorder, row: Row) -> int:
        """Fill the row and return the checksum; memory is read once where both are of all elements."""
        place = self._place
        if place is None or place[2] != FLOAT32 or recorder.more.flags or stride_of(place[1]) != 1:
            self.measure(recorder, row)
            return self.checksum()
        mixed = measure_checked(place[0], place[1], row.address)
        row.present[row.index] = 1
        return checksum_from(mixed, self._address, self._bytes)

    def values(self) -> NDArray[Any]:
        """Return all of them, where they lie."""
        if self._place is not None:
            return values_at(*self._place, 1).reshape(self.shape)
        assert self.array is not None, "what is not read where it lies is an array"
        return self.array

    def _sample(self) -> NDArray[Any]:
        if self._place is not None:
            return values_at(*self._place, stride_of(self._place[1]))
        assert self.array is not None, "what is not read where it lies is an array"
        stride = stride_of(self.array.size)
        return self.array if stride == 1 else self.array.reshape(-1)[::stride]


#: Elements of one input whose statistics are taken: their mean is off by 0.8 % of a deviation. Our choice.
MOST_SAMPLED: Final = 1 << 14
#: An input of so many bytes travels whole: that takes one copy, which costs less than a checksum there. Our choice.
SMALL_BYTES: Final = 1 << 20
#: Inputs up to this many elements are read whole: that takes less time than picking a sample of them.
_WHOLE: Final = 1 << 17
#: Tokens of an input that travel: 8 MiB. Our choice.
_MOST_TOKENS: Final = 1 << 20


def stride_of(size: int) -> int:
    """Return the stride of the elements to read of so many: 1 for few, and for many what leaves about 16384."""
    return 1 if size <= _WHOLE else -(-size // MOST_SAMPLED) | 1


class DeviceInput:
    """One input on its way.

    Args:
        tensor: The framework's, on a device.

    Attributes:
        is_token: Whether it holds whole numbers of four bytes or more.
        has_tokens: Whether these travel as well: not very many.
    """

    def __init__(self, device_results: DeviceResults, tensor: Any) -> None:
        device = device_results.device
        assert device is not None, "tensors are remote only where there is a device"
        self.shape, self.size = tuple(tensor.shape), int(tensor.numel())
        self._bytes = self.size * int(tensor.element_size())
        self.is_token = tensor.element_size() >= 4 and not (tensor.is_floating_point() or tensor.is_complex())
        self.has_tokens = self.is_token and self.size <= _MOST_TOKENS
        self._whole: Fetched | None = device_results.fetch(tensor) if self._bytes <= SMALL_BYTES else None
        if self._whole is not None:
            return
        self._parts = device_results.fetch(device.checksum(tensor))
        flat = tensor.reshape(-1)
        self._sample = device_results.fetch(flat[:: stride_of(self.size)])
        self._tokens: Fetched | None = device_results.fetch(flat) if self.has_tokens else None

    def checksum(self) -> int:
        """Return what `checksum_of` returns, once the input is there."""
        if self._whole is not None:
            return checksum_of(np.ascontiguousarray(self._whole.array))
        mixed, tail = (int(one) for one in self._parts.array)
        return (mixed + tail * PLACES[1] + self._bytes) % RANGE

    def sample(self) -> NDArray[Any]:
        """`(elements,)` evenly spread, once they are there."""
        if self._whole is not None:
            return self._whole.array.reshape(-1)[:: stride_of(self.size)]
        return self._sample.array

    def tokens(self) -> NDArray[np.int64]:
        """`(elements,)` once they are there."""
        if self._whole is not None:
            return self._whole.array.reshape(-1).astype(np.int64, copy=False)
        assert self._tokens is not None, "asked for where there are none"
        return self._tokens.array.astype(np.int64, copy=False)


class Totals:
    """What the inputs of one (micro-)step have in common, while some are still on their way."""

    def __init__(self) -> None:
        self.parts: list[Callable[[], int]] = []

    def add(self, checksum: Callable[[], int], place: int, call: int) -> None:
        """Add an input: the number of the argument, and that of the forward."""
        self.parts.append(lambda: (checksum() + call) * PLACES[place])

    def checksum(self) -> int:
        """Return the checksum of all of them, once they are there."""
        return sum(part() for part in self.parts)


NAME: Final = "batch"
_NONE: Mapping[str, Any] = {}
_MOST_INPUTS: Final = 4
#: Forwards of one evaluation that are looked at. Our choice: an evaluation may be longer than the training.
_MOST_EVALUATED: Final = 32


class Told(Protocol):
    """What was found of a batch."""

    def data(self) -> dict[str, Json]:
        """Return it as the data of an event."""


class TokenRows(Protocol):
    """Compares rows of tokens `(rows, positions)` of the training with those of evaluations."""

    def learn(self, tokens: NDArray[Any]) -> None:
        """Note a batch of the training."""

    def evaluated(self, tokens: NDArray[Any]) -> Told | None:
        """Return what is wrong with a batch of an evaluation."""


class BatchHooks:
    """What one monitor sees of its model's batches.

    Args:
        counts: Whether a forward that begins now is one of the training.
        sides: Looks at rows of tokens.
    """

    def __init__(
        self, recorder: Recorder, access: Access, counts: Callable[[], bool], sides: TokenRows | None = None
    ) -> None:
        self._recorder, self._access, self._counts = recorder, access, counts
        self._before: dict[str, NDArray[np.float64]] = {}
        self._stamp, self._calls, self._evaluated = -1, 0, 0
        self._step = self._idle_step = -1
        self._total = self._samples = self._tokens = self._apart = 0
        self._late, self._repeated = Totals(), RepeatedValues()
        self._columns = recorder.columns(NAME)
        self._sides = sides if recorder.config.checks else None
        self._plain_rows: list[Row] = []  # of the first input, by the number of the forward

    @property
    def is_wanted(self) -> bool:
        """Whether batches are ever looked at."""
        return self._recorder.config.schedule(NAME).is_ever_due

    def hook(self) -> Callable[..., None]:
        """Return the hook before the model: `hook(module, inputs[, keywords])`, after the one that opens the step."""
        return self._before_forward

    def _before_forward(self, _module: Any, inputs: Any, keywords: Mapping[str, Any] = _NONE) -> None:
        recorder, current = self._recorder, self._recorder.current
        if current.is_away or is_aside():
            return
        if NAME not in current.due:
            if current.step != self._idle_step and not self._counts():
                self._see_idle_evaluation(inputs, keywords)
            return
        try:
            if current.stamp != self._stamp:
                self._begin_anew(current.stamp)
            if self._counts():
                self._see_training(inputs, keywords)
            elif self._evaluated < _MOST_EVALUATED and not self._access.is_repeated():
                for path, held in self._inputs(inputs, keywords):
                    if isinstance(held, DeviceInput):
                        self._put_later("batch/eval", path, self._evaluated, held)
                    else:
                        self._put_evaluated(path, self._evaluated, held)
                self._evaluated += 1
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail(NAME, error)

    def _begin_anew(self, stamp: int) -> None:
        self._stamp, self._calls, self._evaluated = stamp, 0, 0
        self._total = self._samples = self._tokens = self._apart = 0
        if self._late.parts:
            self._late = Totals()

    def _see_training(self, inputs: Any, keywords: Mapping[str, Any]) -> None:
        is_single = type(inputs) is tuple and len(inputs) == 1 and not keywords
        place = self._access.plain(inputs[0]) if is_single and isinstance(inputs[0], self._access.kind) else None
        is_other = place is None or place[2] != FLOAT32 or place[1] > _WHOLE
        if place is None or is_other or self._recorder.more.flags or self._late.parts:
            self._see_batch(inputs, keywords)
        else:
            self._see_plain(inputs[0].shape, place)

    def _see_idle_evaluation(self, inputs: Any, keywords: Mapping[str, Any]) -> None:
        """Record the first batch of an evaluation between recorded steps; the next record, or the last, has it."""
        recorder = self._recorder
        self._idle_step = recorder.current.step
        if not recorder.current.has_recorded or self._access.is_repeated():
            return
        try:
            for path, held in self._inputs(inputs, keywords):
                if isinstance(held, HostInput):
                    self._put_evaluated(path, 0, held)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail(NAME, error)

    def _see_plain(self, shape: Sequence[int], place: Place) -> None:
        """Record a forward with one tensor of float32 on the host, as `_see_batch` does, reading memory once."""
        recorder, call, rows = self._recorder, self._calls, self._plain_rows
        while call >= len(rows):  # the forwards before may have been of another form
            rows.append(recorder.open_rows(NAME, self._columns).row("", len(rows)))
        row = rows[call]
        mixed = measure_checked(place[0], place[1], row.address)
        row.present[row.index] = 1
        self._total += (checksum_from(mixed, place[0], place[1] * _BYTES[FLOAT32]) + call) * PLACES[0]
        samples, clock = shape[0] if shape else 1, recorder.time
        self._samples += samples
        clock.samples += samples
        if self._step != recorder.current.step:
            self._step = recorder.current.step
            clock.steps += 1
        self._calls = call + 1
        self._apart += self._repeated.difference(call, self._total, lambda: [values_at(*place, 1).reshape(shape)])
        scalars: dict[str, float] = {}
        if self._samples:
            scalars["batch/samples"] = float(self._samples)
            scalars["batch/checksum"] = recorder.current.batch_checksum = float((self._total + self._apart) % RANGE)
        if self._tokens:
            scalars["batch/tokens"] = float(self._tokens)
        recorder.log(scalars)

    def _see_batch(self, inputs: Any, keywords: Mapping[str, Any]) -> None:
        """Record one forward of the training; a step's scalars are those of all its forwards together."""
        recorder, call = self._recorder, self._calls
        found = list(self._inputs(inputs, keywords))
        for place, (path, held) in enumerate(found):
            if isinstance(held, DeviceInput):
                self._late.add(held.checksum, place, call)
                self._put_later("batch", path, call, held)
                self._put_tokens_later(path, call, held)
            else:
                self._total += (self._put_checked(path, call, held) + call) * PLACES[place]
                if held.is_token and held.array is not None:
                    self._put_tokens(path, call, held.array)
                    if place == 0 and self._sides is not None:
                        self._sides.learn(held.array)
            if place == 0:
                self._count(held.shape[0] if held.shape else 1, math.prod(held.shape) if held.is_token else 0)
        self._calls = call + 1
        if not self._late.parts:
            self._apart += self._repeated.difference(
                call, self._total, lambda: [one.values() for _, one in found if isinstance(one, HostInput)]
            )
        scalars: dict[str, float] = {}
        if self._samples:
            scalars["batch/samples"] = float(self._samples)
            if self._late.parts:
                self._tell_checksum_later()
            else:
                scalars["batch/checksum"] = recorder.current.batch_checksum = float((self._total + self._apart) % RANGE)
        if self._tokens:
            scalars["batch/tokens"] = float(self._tokens)
        recorder.log(scalars)

    def _tell_checksum_later(self) -> None:
        """Record the checksum of all forwards of the (micro-)step so far when their inputs have come."""
        recorder, here, late = self._recorder, self._total, self._late

        def arrive() -> None:
            recorder.current.batch_checksum = float((here + late.checksum()) % RANGE)

        recorder.current.batch_checksum = math.nan
        recorder.device_results.do(NAME, arrive)
        recorder.device_results.late_scalar("batch/checksum", lambda: float((here + late.checksum()) % RANGE))

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
            if not len(tensor.shape) and getattr(tensor, "grad_fn", None) is not None:
                continue  # a loss that a module weighs
            try:
                away = self._access.remote(tensor)
                if away is not None and recorder.device_results.accepts_requests:
                    held: HostInput | DeviceInput = DeviceInput(recorder.device_results, away)
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

    def _put_evaluated(self, path: str, call: int, held: HostInput) -> None:
        """Record an input of an evaluation, and that its padding is on another side than that of the training."""
        self._put("batch/eval", path, call, held)
        if held.is_token and held.array is not None and not path and self._sides is not None:
            result = self._sides.evaluated(held.array)
            if result is not None:
                self._recorder.event("check", "", occasion=2, **result.data())

    def _put_checked(self, path: str, call: int, held: HostInput) -> int:
        """Return the checksum of an input of the training, and fill its row if it has statistics."""
        if not held.has_statistics:
            return held.checksum()
        return held.measure_checked(self._recorder, self._recorder.open_rows(NAME, self._columns).row(path, call))

    def _put_later(self, subject: str, path: str, call: int, held: DeviceInput) -> None:
        """Record an input on a device when a sample of it has come."""
        recorder, columns = self._recorder, self._recorder.columns(NAME)

        def measured() -> Any:
            numbers = np.empty(len(columns))
            data, code = readable(held.sample())
            recorder.measure(data.ctypes.data or 1, data.size, code, numbers.ctypes.data)
            return numbers

        recorder.open_rows(subject, columns).row(path, call).wait_for(recorder.device_results.make(NAME, measured))

    def _put_tokens_later(self, path: str, call: int, held: DeviceInput) -> None:
        if held.has_tokens:
            before = self._before.setdefault(path, np.zeros(BUCKETS))
            made = self._recorder.device_results.make(NAME, lambda: _counted(held.tokens(), before))
            self._recorder.open_rows("batch/tokens", TOKENS).row(path, call).wait_for(made)

    def _put_tokens(self, path: str, call: int, array: NDArray[Any]) -> None:
        before = self._before.setdefault(path, np.zeros(BUCKETS))
        numbers = _counted(array.reshape(-1).astype(np.int64, copy=False), before)
        self._recorder.open_rows("batch/tokens", TOKENS).row(path, call).put(numbers)


def _counted(tokens: NDArray[np.int64], before: NDArray[np.float64]) -> list[float]:
    numbers = np.empty(len(TOKENS))
    count_tokens(tokens, before, numbers)
    found: list[float] = numbers.tolist()
    return found
