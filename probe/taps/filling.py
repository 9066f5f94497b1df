"""From a tensor to its row: the statistics, the histogram and the whole tensor, of the host and of a device."""

from ..access.tensors import Access, Place, Tensor
from ..collectors.histogram import histogram_at
from ..kernels import FLOAT64
from ..recording.call_rows import CallRows, Row
from ..recording.recorder import Recorder


def fill(recorder: Recorder, access: Access, rows: CallRows, subject: str, row: Row, tensor: Tensor) -> None:
    """Nothing; the row has the statistics of the tensor, and its histogram is added if it is due.

    A tensor on a device is only asked for its numbers; they are there some time after the step.

    Raises:
        Unsupported: The tensor's values are not plain real numbers.
    """
    away = access.remote(tensor)
    if away is not None and recorder.outbox.takes_promises:
        _fill_later(recorder, rows, subject, row, away)
        return
    place, owner = access.place(tensor)
    fill_at(recorder, rows, subject, row, place)
    del owner


def fill_at(recorder: Recorder, rows: CallRows, subject: str, row: Row, place: Place) -> None:
    """Nothing; the row has the statistics of the values at this place, and their histogram is added if it is due."""
    address, size, code = place
    recorder.measure(address, size, code, row.address)
    row.present[row.index] = 1
    if code == FLOAT64:
        rows.is_wide = True
    current = recorder.current
    if current.wants_histogram and subject in current.wants_histogram:
        values = row.values[row.index]
        ends = (float(values[3]), float(values[4]))
        recorder.draft.histograms.append(histogram_at(row.site, subject, place, ends, current.bins, row.call))


def store(recorder: Recorder, access: Access, subject: str, place: tuple[str, int], tensor: Tensor) -> None:
    """Nothing; the whole tensor is stored under its site and call, if it is wanted.

    Raises:
        Unsupported: The tensor cannot be stored.
    """
    away = access.remote(tensor)
    if away is not None and recorder.outbox.takes_promises:
        recorder.whole_tensors.take_later(subject, place, away)
    else:
        recorder.whole_tensors.take(subject, place, access.array(tensor))


def _fill_later(recorder: Recorder, rows: CallRows, subject: str, row: Row, tensor: Tensor) -> None:
    recorder.outbox.owe_row(tensor, row, more=recorder.more)
    if tensor.element_size() == 8:  # as float64, or whole numbers that become it
        rows.is_wide = True
    current = recorder.current
    if current.wants_histogram and subject in current.wants_histogram:
        recorder.outbox.owe_histogram(tensor, row.site, subject, current.bins, row.call)
