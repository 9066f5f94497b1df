"""Hooks on rectified and bounded layers: they find units that are dead or saturated."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ..quantities.silent_units import UNITS, Kind, Units, kind_of
from ..recording.recorder import Recorder
from ..tensor_access import Access, ForwardHook, Tensor, Unsupported

NAME: Final = "activation/units"


def unit_hooks(
    recorder: Recorder, access: Access, counts: Callable[[], bool], modules: Mapping[str, object]
) -> Iterator[tuple[str, ForwardHook]]:
    """Yield site and forward hook of each layer that is looked at; none unless the quantity is ever due.

    Args:
        counts: Whether a forward that runs now is to be recorded.
        modules: By site, those that the configuration picks.
    """
    if recorder.config.schedule(NAME).is_ever_due:
        for site, module in modules.items():
            kind = kind_of(module)
            if kind is not None:
                yield site, _UnitHook(recorder, access, counts, site, kind)


class _UnitHook:
    """The hook on one module; it looks at the first call of each micro-step."""

    __slots__ = ("_access", "_counts", "_recorder", "_site", "_stamp", "_units")

    def __init__(self, recorder: Recorder, access: Access, counts: Callable[[], bool], site: str, kind: Kind) -> None:
        self._recorder, self._access, self._counts, self._site = recorder, access, counts, site
        self._units, self._stamp = Units(kind), -1

    def __call__(self, _module: object, _inputs: object, output: object) -> None:
        recorder, current = self._recorder, self._recorder.current
        if NAME not in current.due or current.stamp == self._stamp or current.is_away or not self._counts():
            return
        self._stamp = current.stamp
        if not isinstance(output, self._access.kind):
            return
        tensor: Tensor = output
        try:
            device_tensor = self._access.remote(tensor)
            if device_tensor is not None and recorder.device_results.accepts_requests:
                self._look_later(device_tensor)
                return
            place = self._access.plain(tensor) if self._units.kind == "rectified" else None
            if place is None:
                found = self._units.look(self._access.array(tensor))
            else:
                found = self._units.look_at(place[0], place[2], tensor.shape)
            if found is not None:
                recorder.open_rows(NAME, UNITS).row(self._site, 0).put(found)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail(NAME, error)

    def _look_later(self, output: Tensor) -> None:
        """Record the units of a tensor on a device once a sample of it arrives."""
        rows, device_results = self._units.sample(output), self._recorder.device_results
        if rows is not None:
            fetched = device_results.fetch(rows)
            future = device_results.make(NAME, lambda: self._units.judge(fetched.array))
            self._recorder.open_rows(NAME, UNITS).row(self._site, 0).wait_for(future)
