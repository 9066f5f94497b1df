"""Times the engine's primitives in the steps in which that is due, and follows the memory of what they return.

The table of primitives is changed for these steps only; at others nothing is in the way. The first primitive of the
next step, or its forward, ends a step.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from ....framework.hooks import register_backward_start_hook
from ....framework.primitive import PRIMITIVES
from ...quantities.operators import Allocation, OperatorLog, Span
from ...recording.recorder import Recorder

__all__ = ["EngineOperators"]


class EngineOperators:
    """Looks at the steps of one model from inside; `handles` and `remove` take everything off.

    Args:
        cells: All of the model, by site; the model itself under the empty one.
        counts: Whether a forward that runs now is to be recorded.
    """

    def __init__(self, recorder: Recorder, cells: Mapping[str, Any], counts: Callable[[], bool]) -> None:
        self._recorder, self._counts = recorder, counts
        self._log: OperatorLog | None = None
        self._originals: dict[str, tuple[Any, Any]] = {}
        self._alive: dict[int, tuple[Any, Allocation]] = {}
        self._sites: list[str] = []
        self._phase = ""
        self._began = 0.0
        self._keys = 0
        self._handles = [cells[""].register_forward_pre_hook(self._forward_begins)]
        for site, cell in cells.items():
            self._handles.append(cell.register_forward_pre_hook(partial(self._enter, site)))
            self._handles.append(cell.register_forward_hook(self._leave))
        self._handles.append(register_backward_start_hook(self._backward_begins))

    def remove(self) -> None:
        """Nothing; the step in progress is told, and the table is as it was."""
        self._end()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _forward_begins(self, _cell: Any, _inputs: Any) -> None:
        current = self._recorder.current
        if self._log is not None and self._log.step != current.step:
            self._end()
        if self._log is None and "operator" in current.due and self._counts():
            self._log = OperatorLog(current.step, time.time())
            self._began = time.perf_counter()
            self._phase = "forward"
            for name, primitive in PRIMITIVES.items():
                original = primitive.evaluate
                ours = self._timed(name, original)
                self._originals[name] = (original, ours)
                primitive.evaluate = ours

    def _backward_begins(self, _root: Any) -> None:
        self._phase = "backward"
        self._sites.clear()

    def _enter(self, site: str, _cell: Any, _inputs: Any) -> None:
        if self._log is not None:
            self._phase = "forward"
            self._sites.append(site)

    def _leave(self, _cell: Any, _inputs: Any, _output: Any) -> None:
        if self._sites:
            self._sites.pop()
            self._phase = "forward" if self._sites else "loss"

    def _end(self) -> None:
        """The log becomes an event, and the table is as it was, unless others have changed it meanwhile."""
        log, self._log = self._log, None
        if log is None:
            return
        for name, (original, ours) in self._originals.items():
            if PRIMITIVES[name].evaluate is ours:
                PRIMITIVES[name].evaluate = original
        self._originals = {}
        self._alive = {}
        self._sites = []
        try:
            last = max((span.start_s + span.seconds for span in log.spans), default=0.0)
            self._recorder.event("operators", "", **log.data(last))
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("operator", error)

    def _timed(self, name: str, evaluate: Callable[..., Any]) -> Callable[..., Any]:
        def run(*inputs: Any, **attributes: Any) -> Any:
            log = self._log
            if log is None:
                return evaluate(*inputs, **attributes)
            if log.step != self._recorder.current.step:
                self._end()
                return evaluate(*inputs, **attributes)
            began = time.perf_counter()
            result = evaluate(*inputs, **attributes)
            ended = time.perf_counter()
            seconds, site = ended - began, self._sites[-1] if self._sites else ""
            log.spans.append(Span(name, self._phase, site, began - self._began, seconds, seconds, 0))
            self._follow(log, name, site, result, inputs)
            return result

        return run

    def _follow(self, log: OperatorLog, name: str, site: str, result: Any, inputs: tuple[Any, ...]) -> None:
        for array in _made(result, inputs):
            self._keys += 1
            now = time.perf_counter() - self._began
            came = Allocation(now, self._keys, array.nbytes, name, self._phase, site)
            log.allocations.append(came)
            self._alive[came.key] = (ref(array, partial(self._freed, came)), came)

    def _freed(self, came: Allocation, _reference: Any) -> None:
        log = self._log
        if log is not None and self._alive.pop(came.key, None) is not None:
            now = time.perf_counter() - self._began
            log.allocations.append(came._replace(at_s=now, size_bytes=-came.size_bytes))


def _made(result: Any, inputs: tuple[Any, ...]) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays among the results that have memory of their own, which none of the inputs had before."""
    for one in result if isinstance(result, tuple) else (result,):
        if isinstance(one, np.ndarray) and one.base is None and not any(one is given for given in inputs):
            yield one
