"""Hooks on the modules of a model: activations as each module returns, their gradients on the way back."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from ..access.tensors import MOST_TENSORS, Access, Place, Tensor, Unsupported, tensors_in
from ..aside import is_aside
from ..collectors.histogram import histogram_at
from ..kernels import FLOAT64
from ..recording.block import CallRows, Row
from ..recording.recorder import Recorder


class Several:
    """Handles that come off together."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Takes all of them off."""
        for handle in self._handles:
            handle.remove()


class ForwardTaps:
    """The forward hooks of one monitor. Each hook holds its own rows; nothing here holds a tensor.

    Args:
        is_training: Whether the model as a whole is in training mode.
    """

    def __init__(self, recorder: Recorder, access: Access, is_training: Callable[[], bool]) -> None:
        self.recorder, self.access = recorder, access
        is_recording, is_repeated = access.is_recording, access.is_repeated
        self.counts: Callable[[], bool] = {
            "training": lambda: is_recording() and is_training() and not is_aside(),
            "gradients": lambda: is_recording() and not is_aside(),
            "all": lambda: not (is_repeated() or is_aside()),
        }[recorder.config.record]
        self._calls: dict[str, _Calls] = {}
        self._told: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """Drops what is remembered of the last tensor seen."""
        self._last: Callable[[], Tensor] = _nothing
        self._version = -1
        self._row: Row | None = None
        self._gradient: _GradientTap | None = None

    def hook(self, site: str) -> Callable[[Any, Any, Any], None]:
        """The forward hook of the module at this site."""
        recorder, access, counts = self.recorder, self.access, self.counts
        kind, plain, see, calls = access.kind, access.plain, self._see, self._calls_of(site)

        def after_forward(_module: Any, _inputs: Any, output: Any) -> None:
            if not recorder.is_looking or not counts():
                return
            try:
                call = calls.next(recorder.stamp)
                if isinstance(output, kind):
                    place = plain(output)
                    if place is not None or access.is_floating(output):
                        see(calls.rows(call, ""), output, place)
                else:
                    self._see_all(calls, call, output)
            except Unsupported as error:
                self._tell_once(site, error)
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                recorder.fail("activation", error)
                recorder.fail("activation_grad", error)

        return recorder.timed(after_forward)

    def _see_all(self, calls: "_Calls", call: int, output: Any) -> None:
        """Records the tensors of a nested output; one that cannot be read costs only itself."""
        number = 0
        for number, (path, tensor) in enumerate(tensors_in(output, self.access), 1):  # noqa: B007  used below
            try:
                self._see(calls.rows(call, path), tensor, self.access.plain(tensor))
            except Unsupported as error:
                self._tell_once(calls.site + path, error)
        if number == MOST_TENSORS:
            self._tell_once(calls.site, f"of an output only the first {number} tensors are recorded")

    def _tell_once(self, site: str, error: Unsupported | str) -> None:
        if site not in self._told:
            self._told.add(site)
            self.recorder.event("monitor_fault", site, collector="activation", error=str(error))

    def gradient_tap(self, site: str, call: int, path: str) -> "CompiledTap":
        """What a compiled function shows the gradient of one output to; it fills the row that the forward hook has."""
        return CompiledTap(self.recorder, self.access, self._calls_of(site).rows(call, path)[1])

    def _calls_of(self, site: str) -> "_Calls":
        return self._calls.setdefault(site, _Calls(self.recorder, site))

    def _see(self, rows: tuple[Row, Row], tensor: Tensor, place: Place | None) -> None:
        """Records a tensor. One that was seen just now is not read again: containers hand on their last child's.

        Args:
            place: Where its values lie plainly; None where that is not known.
        """
        row, gradient_row = rows
        recorder, version = self.recorder, self.access.version(tensor)
        if self._last() is not tensor or self._version != version:
            self._last, self._version, self._row, self._gradient = ref(tensor), version, None, None
        if recorder.sees_forward:
            if self._row is not None:
                row.copy_from(self._row)
            else:
                if place is None:
                    fill(recorder, self.access, recorder.activations, "activation", row, tensor)
                else:
                    fill_at(recorder, recorder.activations, "activation", row, place)
                self._row = row
        if recorder.dumps:
            self._dump(row, tensor)
        if recorder.sees_backward and self.access.node(tensor) is not None:
            if self._gradient is not None:
                self._gradient.rows.append(gradient_row)
            else:
                self._gradient = _GradientTap(recorder, self.access, gradient_row)
                tensor.register_hook(recorder.timed(self._gradient))

    def _dump(self, row: Row, tensor: Tensor) -> None:
        """Nothing; the whole tensor is stored, and its gradient once it comes by."""
        recorder, access = self.recorder, self.access
        stamp, site, call = recorder.stamp, row.site, row.call
        if "activation" in recorder.dumps:
            store(recorder, access, "activation", (site, call), tensor)
        if "activation_grad" in recorder.dumps and access.node(tensor) is not None:

            def take(gradient: Tensor) -> None:
                if recorder.stamp == stamp:
                    store(recorder, access, "activation_grad", (site, call), gradient)

            tensor.register_hook(recorder.timed(take))


class _Calls:
    """The rows of one module: one a call and path, made when first needed and kept."""

    __slots__ = ("_call", "_firsts", "_others", "_recorder", "_stamp", "site")

    def __init__(self, recorder: Recorder, site: str) -> None:
        self._recorder, self.site = recorder, site
        self._stamp, self._call = -1, 0
        self._firsts: list[tuple[Row, Row]] = []
        self._others: dict[tuple[int, str], tuple[Row, Row]] = {}

    def next(self, stamp: int) -> int:
        """Number of the call that has just ended, from 0 in every micro-step."""
        self._call = self._call + 1 if stamp == self._stamp else 0
        self._stamp = stamp
        return self._call

    def rows(self, call: int, path: str) -> tuple[Row, Row]:
        """The rows of the activation and of its gradient."""
        if not path and call < len(self._firsts):
            return self._firsts[call]
        found = self._others.get((call, path))
        if found is None:
            site = self.site + path
            found = (self._recorder.activations.row(site, call), self._recorder.activation_grads.row(site, call))
            if not path and call == len(self._firsts):
                self._firsts.append(found)
            else:
                self._others[call, path] = found
        return found


class _GradientTap:
    """The hook on one tensor of one forward; it records in the micro-step that it was made for and never after."""

    __slots__ = ("_access", "_recorder", "_stamp", "rows")

    def __init__(self, recorder: Recorder, access: Access, row: Row) -> None:
        self._recorder, self._access, self._stamp = recorder, access, recorder.stamp
        self.rows = [row]

    def __call__(self, gradient: Tensor) -> None:
        recorder = self._recorder
        if recorder.stamp != self._stamp or not recorder.sees_backward:
            return
        try:
            first, place = self.rows[0], self._access.plain(gradient)
            if place is None:
                fill(recorder, self._access, recorder.activation_grads, "activation_grad", first, gradient)
            else:
                fill_at(recorder, recorder.activation_grads, "activation_grad", first, place)
            for row in self.rows[1:]:
                row.copy_from(first)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  as above
            recorder.fail("activation_grad", error)


class CompiledTap:
    """A tap on one output inside a compiled function: values are seen by hooks, gradients have no tensor to hook on."""

    __slots__ = ("_access", "_recorder", "_row")

    def __init__(self, recorder: Recorder, access: Access, row: Row) -> None:
        self._recorder, self._access, self._row = recorder, access, row

    def value(self, array: Any) -> None:
        """Nothing: the forward hooks have seen it."""

    def gradient(self, array: Any) -> None:
        """Nothing; the row has the statistics of the gradient."""
        recorder = self._recorder
        if not (recorder.sees_backward and recorder.is_open):
            return
        try:
            held = self._access.kind(array)
            fill(recorder, self._access, recorder.activation_grads, "activation_grad", self._row, held)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  as above
            recorder.fail("activation_grad", error)


def fill(recorder: Recorder, access: Access, rows: CallRows, subject: str, row: Row, tensor: Tensor) -> None:
    """Nothing; the row has the statistics of the tensor, and its histogram is added if it is due.

    A tensor on a device is only asked for its numbers; they are there some time after the step.

    Raises:
        Unsupported: The tensor's values are not plain real numbers.
    """
    away = access.remote(tensor)
    if away is not None and recorder.takes_promises:
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
    if recorder.wants_histogram and subject in recorder.wants_histogram:
        values = row.values[row.index]
        ends = (float(values[3]), float(values[4]))
        recorder.histograms.append(histogram_at(row.site, subject, place, ends, recorder.bins, row.call))


def store(recorder: Recorder, access: Access, subject: str, place: tuple[str, int], tensor: Tensor) -> None:
    """Nothing; the whole tensor is stored under its site and call, if it is wanted.

    Raises:
        Unsupported: The tensor cannot be stored.
    """
    away = access.remote(tensor)
    if away is not None and recorder.takes_promises:
        recorder.dump_later(subject, *place, away)
    else:
        recorder.dump(subject, *place, access.array(tensor))


def _fill_later(recorder: Recorder, rows: CallRows, subject: str, row: Row, tensor: Tensor) -> None:
    recorder.outbox.owe_row(tensor, row, more=recorder.more)
    if tensor.element_size() == 8:  # as float64, or whole numbers that become it
        rows.is_wide = True
    if recorder.wants_histogram and subject in recorder.wants_histogram:
        recorder.outbox.owe_histogram(tensor, row.site, subject, recorder.bins, row.call)


def _nothing() -> None:
    return None
