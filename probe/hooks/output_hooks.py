"""The hooks on outputs: each call fills a row of the module's activations and one of their gradient."""

from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import Any
from weakref import ref

from ..aside import is_aside
from ..collectors.histogram_collector import histogram_at
from ..kernels import FLOAT64
from ..recording.recorder import Recorder
from ..recording.row_buffers import CallRows, Row
from ..tensor_access import MOST_TENSORS, Access, Place, Tensor, Unsupported, tensors_in


class CompiledOutputHook:
    """A hook on one output inside a compiled function: forward hooks see its values, and its gradient has no tensor."""

    __slots__ = ("_access", "_recorder", "_row", "gradient")

    def __init__(self, recorder: Recorder, access: Access, row: Row) -> None:
        self._recorder, self._access, self._row = recorder, access, row
        self.gradient = recorder.guard(self._see)

    def value(self, array: Any) -> None:
        """Ignore the value: the forward hooks record it."""

    def _see(self, array: Any) -> None:
        """Fill the row with the statistics of the gradient."""
        recorder, current = self._recorder, self._recorder.current
        if not (current.sees_backward and current.is_open):
            return
        try:
            held = self._access.kind(array)
            fill(recorder, self._access, recorder.activation_grads, "activation_grad", self._row, held)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("activation_grad", error)


class Pair:
    """Where the numbers of one tensor go, and those of its gradient.

    Attributes:
        row: Row of the tensor.
        gradient_row: Row of its gradient.
    """

    __slots__ = ("_access", "_recorder", "gradient_row", "row")

    def __init__(self, recorder: Recorder, access: Access, row: Row, gradient_row: Row) -> None:
        self._recorder, self._access = recorder, access
        self.row, self.gradient_row = row, gradient_row

    def on_gradient(self, stamp: int, others: list[Row], gradient: Tensor) -> None:
        """Fill the gradient's row, and those of others that held the same tensor.

        Args:
            stamp: Of the (micro-)step that made the tensor; a gradient that comes in another one is not recorded.
        """
        recorder, current = self._recorder, self._recorder.current
        is_late = current.stamp != stamp or not current.sees_backward
        if is_late or gradient is None:  # one of several outputs that the loss does not reach
            return
        try:
            place = self._access.plain(gradient)
            if place is None:
                fill(recorder, self._access, recorder.activation_grads, "activation_grad", self.gradient_row, gradient)
            else:
                fill_at(recorder, recorder.activation_grads, "activation_grad", self.gradient_row, place)
            for row in others:
                row.copy_from(self.gradient_row)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("activation_grad", error)


class ModuleRows:
    """The pairs of one module, made when first needed and kept.

    Attributes:
        call: Number of the call that was seen last, from 0 in every micro-step.
        stamp: The micro-step that it was seen in.
        firsts: The pairs of the first tensors, by call.
    """

    __slots__ = ("_access", "_others", "_recorder", "call", "firsts", "site", "stamp")

    def __init__(self, recorder: Recorder, access: Access, site: str) -> None:
        self._recorder, self._access, self.site = recorder, access, site
        self.stamp, self.call = -1, 0
        self.firsts: list[Pair] = []
        self._others: dict[tuple[int, str], Pair] = {}

    def next(self) -> Pair:
        """Return the pair of the first tensor of the call that has just ended."""
        stamp = self._recorder.current.stamp
        self.call = self.call + 1 if stamp == self.stamp else 0
        self.stamp = stamp
        return self.firsts[self.call] if self.call < len(self.firsts) else self.pair(self.call, "")

    def pair(self, call: int, path: str) -> Pair:
        """Return the pair of the tensor at this path in what the call returned."""
        if not path and call < len(self.firsts):
            return self.firsts[call]
        found = self._others.get((call, path))
        if found is None:
            site, recorder = self.site + path, self._recorder
            rows = recorder.activations.row(site, call), recorder.activation_grads.row(site, call)
            found = Pair(recorder, self._access, *rows)
            if not path and call == len(self.firsts):
                self.firsts.append(found)
            else:
                self._others[call, path] = found
        return found


class LastSeen:
    """The tensor that was seen last, which is not kept alive, and where its numbers went.

    Attributes:
        tensor: Returns it while it exists.
        version: Version of its values.
        row: Row with its statistics; None before they are taken.
        gradient_rows: Rows that its gradient is copied to; None while it has no hook of ours.
    """

    __slots__ = ("gradient_rows", "row", "tensor", "version")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the tensor."""
        self.tensor: Callable[[], Tensor] = NoneType  # which gives None
        self.version = -1
        self.row: Row | None = None
        self.gradient_rows: list[Row] | None = None


class OutputHooks:
    """The forward hooks of one monitor. Each hook holds its own rows; nothing here holds a tensor.

    Args:
        is_training: Returns whether the model as a whole is in training mode.
        counts: Does what `OutputHooks.counts` does in the usual configuration, at a lower cost.

    Attributes:
        counts: Returns whether a forward that runs now is to be recorded.
    """

    def __init__(
        self,
        recorder: Recorder,
        access: Access,
        is_training: Callable[[], bool],
        counts: Callable[[], bool] | None = None,
    ) -> None:
        self.recorder, self.access = recorder, access
        is_recording, is_repeated = access.is_recording, access.is_repeated
        is_usual = counts is not None and recorder.config.record == "training"
        self.counts: Callable[[], bool] = (
            counts
            if is_usual and counts is not None
            else {
                "training": lambda: is_recording() and is_training() and not is_aside(),
                "gradients": lambda: is_recording() and not is_aside(),
                "all": lambda: not (is_repeated() or is_aside()),
            }[recorder.config.record]
        )
        self._sites: dict[str, ModuleRows] = {}
        self._told: set[str] = set()
        self.last = LastSeen()

    def hook(self, site: str) -> Callable[[Any, Any, Any], None]:
        """Return the forward hook of the module at this site."""
        recorder, current, access, counts = self.recorder, self.recorder.current, self.access, self.counts
        kind, plain, see, rows = access.kind, access.plain, self._see, self.rows_of(site)

        def after_forward(_module: Any, _inputs: Any, output: Any) -> None:
            if not current.is_looking or not counts():
                return
            try:
                pair = rows.next()
                if isinstance(output, kind):
                    place = plain(output)
                    if place is not None or access.is_floating(output):
                        see(pair, output, place)
                else:
                    self._see_all(rows, output)
            except Unsupported as error:
                self._tell_once(site, error)
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                recorder.fail("activation", error)
                recorder.fail("activation_grad", error)

        return after_forward

    def _see_all(self, rows: ModuleRows, output: Any) -> None:
        """Record the tensors of a nested output; one that cannot be read costs only itself."""
        number, call = 0, rows.call
        for number, (path, tensor) in enumerate(tensors_in(output, self.access), 1):  # noqa: B007  used below
            try:
                self._see(rows.pair(call, path), tensor, self.access.plain(tensor))
            except Unsupported as error:
                self._tell_once(rows.site + path, error)
        if number == MOST_TENSORS:
            self._tell_once(rows.site, f"of an output only the first {number} tensors are recorded")

    def _tell_once(self, site: str, error: Unsupported | str) -> None:
        if site not in self._told:
            self._told.add(site)
            self.recorder.event("monitor_fault", site, collector="activation", error=str(error))

    def gradient_hook(self, site: str, call: int, path: str) -> CompiledOutputHook:
        """Return what a compiled function gives the gradient of one output to; it fills the forward hook's row."""
        return CompiledOutputHook(self.recorder, self.access, self.rows_of(site).pair(call, path).gradient_row)

    def rows_of(self, site: str) -> ModuleRows:
        """Return the rows of the module at this site."""
        if site not in self._sites:
            self._sites[site] = ModuleRows(self.recorder, self.access, site)
        return self._sites[site]

    def _see(self, pair: Pair, tensor: Tensor, place: Place | None) -> None:
        """Record a tensor, unless it was recorded just now: containers return their last child's.

        Args:
            place: Where its values lie plainly; None where that is not known.
        """
        recorder, row, version, last = self.recorder, pair.row, self.access.version(tensor), self.last
        current = recorder.current
        if last.tensor() is not tensor or last.version != version:
            last.tensor, last.version, last.row, last.gradient_rows = ref(tensor), version, None, None
        if current.sees_forward:
            if last.row is not None:
                row.copy_from(last.row)
            else:
                if place is None:
                    fill(recorder, self.access, recorder.activations, "activation", row, tensor)
                else:
                    fill_at(recorder, recorder.activations, "activation", row, place)
                last.row = row
        if current.dumps:
            self._dump(row, tensor)
        if current.sees_backward and self.access.node(tensor) is not None:
            if last.gradient_rows is not None:
                last.gradient_rows.append(pair.gradient_row)
            else:
                last.gradient_rows = []
                take = recorder.guard(pair.on_gradient)
                tensor.register_hook(partial(take, current.stamp, last.gradient_rows))

    def _dump(self, row: Row, tensor: Tensor) -> None:
        """Store the whole tensor, and its gradient when it comes."""
        recorder, current, access = self.recorder, self.recorder.current, self.access
        stamp, site, call = current.stamp, row.site, row.call
        if "activation" in current.dumps:
            store(recorder, access, "activation", (site, call), tensor)
        if "activation_grad" in current.dumps and access.node(tensor) is not None:

            def take(gradient: Tensor) -> None:
                if current.stamp == stamp:
                    store(recorder, access, "activation_grad", (site, call), gradient)

            tensor.register_hook(recorder.guard(take))


def fill(recorder: Recorder, access: Access, rows: CallRows, subject: str, row: Row, tensor: Tensor) -> None:
    """Fill the row with the statistics of the tensor, and add its histogram if it is due.

    A tensor on a device is only asked for its numbers; they are there some time after the step.

    Raises:
        Unsupported: The tensor's values are not plain real numbers.
    """
    away = access.remote(tensor)
    if away is not None and recorder.device_results.accepts_requests:
        _fill_later(recorder, rows, subject, row, away)
        return
    place, owner = access.place(tensor)
    fill_at(recorder, rows, subject, row, place)
    del owner


def fill_at(recorder: Recorder, rows: CallRows, subject: str, row: Row, place: Place) -> None:
    """Fill the row with the statistics of the values at this place, and add their histogram if it is due."""
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
    """Store the whole tensor under its site and call, if it is wanted.

    Raises:
        Unsupported: The tensor cannot be stored.
    """
    away = access.remote(tensor)
    if away is not None and recorder.device_results.accepts_requests:
        recorder.whole_tensors.take_later(subject, place, away)
    else:
        recorder.whole_tensors.take(subject, place, access.array(tensor))


def _fill_later(recorder: Recorder, rows: CallRows, subject: str, row: Row, tensor: Tensor) -> None:
    recorder.device_results.request_row(tensor, row, more=recorder.more)
    if tensor.element_size() == 8:  # as float64, or whole numbers that become it
        rows.is_wide = True
    current = recorder.current
    if current.wants_histogram and subject in current.wants_histogram:
        recorder.device_results.request_histogram(tensor, row.site, subject, current.bins, row.call)
