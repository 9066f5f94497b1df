"""Which losses and clippings of the process belong to an engine model, and what they tell of its training."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ....framework.optim import clip
from ....framework.tensor import Tensor
from ...facts import Facts
from ...facts.losses import LossCall
from ...recording.recorder import Recorder
from .loss_input import made_by, sample_of
from .losses import factor_of, loss_of
from .source import EngineSource
from .view import EngineView

_listeners: list["EngineFacts"] = []
_original: list[Any] = []


class EngineFacts:
    """The facts of one cell.

    Losses are told by the tape that a backward pass is about to follow, so that none is seen in a compiled step. The
    norm before clipping is told by the function that measures it for `clip_by_global_norm`, which is replaced while
    anybody listens: compiled functions do not call it, and so are not disturbed.
    """

    def __init__(
        self,
        model: Any,
        cells: Mapping[str, Any],
        view: EngineView,
        recorder: Recorder,
        *,
        counts: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._recorder, self._view = recorder, view
        self._limit: float | None = None
        self.facts = Facts(recorder, EngineSource(model, cells, view), counts=counts, changed=changed)
        self._handles: list[Any] = []
        if recorder.config.causality:
            self._handles.append(model.register_forward_pre_hook(self.facts.sample))
        _listeners.append(self)
        if len(_listeners) == 1:
            _original.append(clip.global_norm)
            clip.global_norm = _telling(clip.global_norm)

    def remove(self) -> None:
        """Nothing; nobody listens any more."""
        for handle in self._handles:
            handle.remove()
        if self in _listeners:
            _listeners.remove(self)
            if not _listeners:
                clip.global_norm = _original.pop()

    def backward_begins(self, root: Tensor) -> None:
        """A backward pass of this training starts here: its tape tells which loss made the root."""
        if not self.facts.has_forward:
            return
        if not self.facts.loss_is_due(""):
            self.facts.backward_begins(None)
            return
        found = loss_of(root)
        if found is not None:
            name, given, inputs = found
            shapes = tuple(one.shape for one in inputs if isinstance(one, Tensor))
            labels = inputs[1].numpy if len(inputs) > 1 and isinstance(inputs[1], Tensor) else None
            self.facts.loss_called(LossCall(name, lambda: sample_of(given), shapes, None, labels, made_by(given)))
        self.facts.backward_begins(None, factor_of(root))

    def clipped(self, gradients: Sequence[NDArray[Any]], norm: float, limit: float) -> None:
        """Gradients, perhaps of this model, are about to be shortened."""
        if not gradients or not self._is_mine(gradients[0]):
            return
        self._recorder.flush()
        if self._limit != limit:
            self._limit = limit
            self._recorder.event("clipping", by="norm", limit=limit)
        self._recorder.current.clip = (norm, limit)

    def _is_mine(self, gradient: NDArray[Any]) -> bool:
        place = gradient.ctypes.data
        held = (one.grad for one in self._view.parameters if one.shape == gradient.shape)
        return any(one is not None and one.numpy().ctypes.data == place for one in held)


def _telling(measure: Callable[..., float]) -> Callable[..., float]:
    def global_norm(gradients: Sequence[NDArray[Any]]) -> float:
        norm = measure(gradients)
        caller = sys._getframe(1)
        if caller.f_code is clip.clip_by_global_norm.__code__:  # the only one that knows the limit
            for listener in tuple(_listeners):
                listener.clipped(gradients, norm, float(caller.f_locals["max_norm"]))
        return norm

    return global_norm
