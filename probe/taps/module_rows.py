"""The rows of one module: one pair a call and path, for what it returned and for the gradient of that."""

from ..access.tensors import Access, Tensor, Unsupported
from ..recording.call_rows import Row
from ..recording.recorder import Recorder
from .filling import fill, fill_at


class Pair:
    """Where the numbers of one tensor go, and those of its gradient.

    Attributes:
        row: Of the tensor.
        gradient_row: Of its gradient.
        on_gradient: `on_gradient(stamp, others, gradient)` fills it, and the rows of others that held the same tensor;
            a gradient that comes in another (micro-)step than the one of the stamp is left alone.
    """

    __slots__ = ("_access", "_recorder", "gradient_row", "on_gradient", "row")

    def __init__(self, recorder: Recorder, access: Access, row: Row, gradient_row: Row) -> None:
        self._recorder, self._access = recorder, access
        self.row, self.gradient_row = row, gradient_row
        self.on_gradient = recorder.timed(self._see_gradient)

    def _see_gradient(self, stamp: int, others: list[Row], gradient: Tensor) -> None:
        recorder, current = self._recorder, self._recorder.current
        if current.stamp != stamp or not current.sees_backward:
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
        """The pair of the first tensor of the call that has just ended."""
        stamp = self._recorder.current.stamp
        self.call = self.call + 1 if stamp == self.stamp else 0
        self.stamp = stamp
        return self.firsts[self.call] if self.call < len(self.firsts) else self.pair(self.call, "")

    def pair(self, call: int, path: str) -> Pair:
        """That of the tensor at this path in what the call returned."""
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
