"""Hooks before the modules of a model: they record each module's inputs and the gradients of these."""

from collections.abc import Callable, Iterable, Mapping

from ..recording.recorder import Recorder
from ..recording.row_buffers import Row
from ..tensor_access import Access, Tensor, Unsupported, every_tensor_in, tensors_in
from .output_hooks import fill, store

_NONE: Mapping[str, object] = {}


class InputHooks:
    """The forward-pre hooks of one monitor; each returns at once unless its subject is due.

    Args:
        counts: Whether a forward that begins now is to be recorded.
    """

    def __init__(self, recorder: Recorder, access: Access, counts: Callable[[], bool]) -> None:
        self._recorder, self._access, self._counts = recorder, access, counts
        config = recorder.config
        self.is_wanted = any(config.schedule(subject).is_ever_due for subject in ("input", "input_grad")) or any(
            section is not None and "input" in section.subjects for section in (config.dump, config.flight_recorder)
        )

    def hook(self, site: str) -> Callable[..., None]:
        """Return the hook of the module at this site: `hook(module, inputs[, keywords])`."""
        recorder, current = self._recorder, self._recorder.current
        stamp, call = -1, 0

        def before_forward(_module: object, inputs: Iterable[object], keywords: Mapping[str, object] = _NONE) -> None:
            nonlocal stamp, call
            sees_any = current.sees_inputs or current.sees_input_grads or "input" in current.dumps
            if not sees_any or not self._counts():
                return
            call = call + 1 if stamp == current.stamp else 0
            stamp = current.stamp
            try:
                named = dict(enumerate(inputs)) | dict(keywords)
                for path, tensor in tensors_in(named, self._access):
                    self._see(site + path, call, tensor)
                if "input" in current.dumps:  # every tensor, by its path, so that the call can be replayed
                    for path, tensor in every_tensor_in(named, self._access.kind):
                        self._dump(site + path, call, tensor)
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                recorder.fail("input", error)
                recorder.fail("input_grad", error)

        return before_forward

    def _see(self, site: str, call: int, tensor: Tensor) -> None:
        recorder, current = self._recorder, self._recorder.current
        if current.sees_inputs:
            self._fill("input", recorder.rows_of("input").row(site, call), tensor)
        if current.sees_input_grads and self._access.needs_gradient(tensor):
            stamp, row = current.stamp, recorder.rows_of("input_grad").row(site, call)

            def see_gradient(gradient: Tensor) -> None:
                if current.stamp != stamp or not current.sees_input_grads:
                    return
                try:
                    self._fill("input_grad", row, gradient)
                except Exception as error:  # noqa: BLE001  as above
                    recorder.fail("input_grad", error)

            tensor.register_hook(recorder.guard(see_gradient))

    def _dump(self, site: str, call: int, tensor: Tensor) -> None:
        try:
            store(self._recorder, self._access, "input", (site, call), tensor)
        except Unsupported:
            return

    def _fill(self, subject: str, row: Row, tensor: Tensor) -> None:
        try:
            fill(self._recorder, self._access, self._recorder.rows_of(subject), subject, row, tensor)
        except Unsupported:
            return
