"""Hooks on the modules of a model: activations as each module returns, their gradients on the way back."""

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

from ..access.tensors import MOST_TENSORS, Access, Place, Tensor, Unsupported, tensors_in
from ..aside import is_aside
from ..recording.call_rows import Row
from ..recording.recorder import Recorder
from .compiled import CompiledTap
from .filling import fill, fill_at, store
from .module_rows import ModuleRows, Pair


class LastSeen:
    """The tensor that was seen last, which is not kept alive, and where its numbers went.

    Attributes:
        tensor: Gives it while it is there.
        version: Of its values.
        row: Has its statistics; None before they are taken.
        gradient_rows: Those that its gradient is copied to; None while it has no hook of ours.
    """

    __slots__ = ("gradient_rows", "row", "tensor", "version")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing; no tensor was seen."""
        self.tensor: Callable[[], Tensor] = _nothing
        self.version = -1
        self.row: Row | None = None
        self.gradient_rows: list[Row] | None = None


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
        self._sites: dict[str, ModuleRows] = {}
        self._told: set[str] = set()
        self.last = LastSeen()
        self.forget = self.last.forget

    def hook(self, site: str) -> Callable[[Any, Any, Any], None]:
        """The forward hook of the module at this site."""
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

        return recorder.timed(after_forward)

    def _see_all(self, rows: ModuleRows, output: Any) -> None:
        """Records the tensors of a nested output; one that cannot be read costs only itself."""
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

    def gradient_tap(self, site: str, call: int, path: str) -> CompiledTap:
        """What a compiled function shows the gradient of one output to; it fills the row that the forward hook has."""
        return CompiledTap(self.recorder, self.access, self.rows_of(site).pair(call, path).gradient_row)

    def rows_of(self, site: str) -> ModuleRows:
        """The rows of the module at this site."""
        if site not in self._sites:
            self._sites[site] = ModuleRows(self.recorder, self.access, site)
        return self._sites[site]

    def _see(self, pair: Pair, tensor: Tensor, place: Place | None) -> None:
        """Records a tensor. One that was seen just now is not read again: containers hand on their last child's.

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
                tensor.register_hook(partial(pair.on_gradient, current.stamp, last.gradient_rows))

    def _dump(self, row: Row, tensor: Tensor) -> None:
        """Nothing; the whole tensor is stored, and its gradient once it comes by."""
        recorder, current, access = self.recorder, self.recorder.current, self.access
        stamp, site, call = current.stamp, row.site, row.call
        if "activation" in current.dumps:
            store(recorder, access, "activation", (site, call), tensor)
        if "activation_grad" in current.dumps and access.node(tensor) is not None:

            def take(gradient: Tensor) -> None:
                if current.stamp == stamp:
                    store(recorder, access, "activation_grad", (site, call), gradient)

            tensor.register_hook(recorder.timed(take))


def _nothing() -> None:
    return None
