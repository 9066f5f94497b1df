"""Hooks before the whole model: the batch that it is called with."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..adapters.tensors import Access, Unsupported, every_tensor_in
from ..aside import is_aside
from ..kernels import FLOAT64, MORE, STATISTICS, measure_more, readable
from ..kernels.tokens import BUCKETS, TOKENS, count_tokens
from ..recorder import Recorder

NAME: Final = "batch"
_NONE: Mapping[str, Any] = {}
#: Elements of one input whose statistics are taken: their mean is off by 0.8 % of a deviation. Our choice.
_MOST: Final = 1 << 14
_MOST_INPUTS: Final = 4
#: Forwards of one evaluation that are looked at. Our choice: an evaluation may be longer than the training.
_MOST_EVALUATED: Final = 32
_CHECKSUM: Final = 1 << list(MORE).index("checksum")
#: Checksums are kept as float64, which is exact up to here.
_RANGE: Final = 1 << 53
#: Makes the same tensor in another place count for something else.
_PLACES: Final = (1, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)


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

    @property
    def is_wanted(self) -> bool:
        """Whether batches are ever looked at."""
        return self._recorder.config.schedule(NAME).is_ever_due

    def hook(self) -> Callable[..., None]:
        """The hook before the model: `hook(module, inputs[, keywords])`, behind the one that opens the step."""
        return self._recorder.timed(self._before_forward)

    def _before_forward(self, _module: Any, inputs: Any, keywords: Mapping[str, Any] = _NONE) -> None:
        recorder = self._recorder
        if not recorder.is_due(NAME) or recorder.is_away or is_aside():
            return
        try:
            if recorder.stamp != self._stamp:
                self._stamp, self._calls, self._evaluated = recorder.stamp, 0, 0
                self._total = self._samples = self._tokens = 0
            if self._counts():
                self._see_batch(inputs, keywords)
            elif self._evaluated < _MOST_EVALUATED and not self._access.is_repeated():
                for path, array in self._arrays(inputs, keywords):
                    self._put("batch/eval", path, self._evaluated, array)
                self._evaluated += 1
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail(NAME, error)

    def _see_batch(self, inputs: Any, keywords: Mapping[str, Any]) -> None:
        """Records one forward of the training; a step's scalars are those of all its forwards together."""
        recorder, call = self._recorder, self._calls
        for place, (path, array) in enumerate(self._arrays(inputs, keywords)):
            self._total += (checksum_of(array) + call) * _PLACES[place]
            self._put("batch", path, call, array)
            is_whole = _is_token(array)
            if is_whole:
                self._put_tokens(path, call, array)
            if place == 0:
                self._count(array.shape[0] if array.ndim else 1, array.size if is_whole else 0)
        self._calls = call + 1
        if self._samples:
            recorder.batch_checksum = float(self._total % _RANGE)
            recorder.log({"batch/checksum": recorder.batch_checksum, "batch/samples": float(self._samples)})
        if self._tokens:
            recorder.log({"batch/tokens": float(self._tokens)})

    def _count(self, samples: int, tokens: int) -> None:
        time = self._recorder.time
        self._samples, self._tokens = self._samples + samples, self._tokens + tokens
        time.samples, time.tokens = time.samples + samples, time.tokens + tokens
        if self._step != self._recorder.step:
            self._step, time.steps = self._recorder.step, time.steps + 1

    def _arrays(self, inputs: Any, keywords: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Path and values of the first inputs, without gaps; the first has the empty path."""
        named = dict(enumerate(inputs)) | dict(keywords) if isinstance(inputs, tuple) else inputs
        found = 0
        for path, tensor in every_tensor_in(named, self._access.kind):
            if getattr(tensor, "is_cuda", False):
                continue
            try:
                array = np.ascontiguousarray(self._access.array(tensor))
            except Unsupported:
                continue
            yield (path if found else ""), array
            found += 1
            if found == _MOST_INPUTS:
                return

    def _put(self, subject: str, path: str, call: int, array: NDArray[Any]) -> None:
        if array.dtype.kind in "biuf" or array.dtype.name == "bfloat16":
            sample = array if array.size <= _MOST else array.reshape(-1)[:: (-(-array.size // _MOST)) | 1]
            rows = self._recorder.open_rows(subject, self._recorder.columns(NAME))
            data, code = readable(sample)
            self._recorder.measure(data.ctypes.data or 1, data.size, code, (row := rows.row(path, call)).address)
            row.present[row.index] = 1

    def _put_tokens(self, path: str, call: int, array: NDArray[Any]) -> None:
        before = self._before.setdefault(path, np.zeros(BUCKETS))
        numbers = np.empty(len(TOKENS))
        count_tokens(array.reshape(-1).astype(np.int64, copy=False), before, numbers)
        self._recorder.open_rows("batch/tokens", TOKENS).row(path, call).put(numbers.tolist())


def checksum_of(array: NDArray[Any]) -> int:
    """A number below 2^53 of the array's values, in whatever order its words of eight bytes lie, and of its size.

    Args:
        array: Without gaps, in the order of C.
    """
    words, rest = divmod(array.nbytes, 8)
    row = np.empty(len(STATISTICS) + 1)
    measure_more(array.ctypes.data, words, FLOAT64, row.ctypes.data, len(STATISTICS), _CHECKSUM)
    tail = int.from_bytes(array.reshape(-1).view(np.uint8)[-rest:].tobytes(), "little") if rest else 0
    return (int(row[-1]) + tail * _PLACES[1] + array.nbytes) % _RANGE


def _is_token(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "iu" and array.dtype.itemsize >= 4
