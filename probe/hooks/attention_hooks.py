"""Hooks around attention modules: which module an attention call belongs to, and what is recorded of it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..quantities.attention_statistics import ATTENTION, Float, Take, attention_statistics, logits_of, sample_of
from ..recording.recorder import Recorder
from ..recording.row_buffers import Row
from ..tensor_access import Tensor

#: Softmax in a module whose class name contains one of these counts as attention.
_NAMES = ("attention", "attn")


class DeviceAttention(Protocol):
    """Reads attention on a device: `(5,)` numbers of `ATTENTION`; arguments as `logits_of` takes them."""

    def is_on_device(self, tensor: Tensor) -> bool:
        """Return whether the tensor lies on the device."""

    def attention(
        self, query: Tensor, key: Tensor, mask: Tensor | None, *, scale: float | None, last_seen: int | None, turn: int
    ) -> Tensor:
        """Return the numbers of the attention between query and key."""

    def softmax(self, scores: Tensor, *, scale: float, last_seen: int | None, turn: int) -> Tensor:
        """Return the numbers of these logits."""


class AttentionCalls:
    """The attention calls inside one model's forward.

    Args:
        counts: Whether a forward that runs now is to be recorded.
        take: Gives what an index picks of a tensor, as an array.
        on_device: Reads attention where it lies on a device; None where there is no such thing.

    Attributes:
        is_named: Whether the configuration asks for it, so that it is told when there is none.
    """

    def __init__(
        self, recorder: Recorder, counts: Callable[[], bool], take: Take, on_device: "DeviceAttention | None" = None
    ) -> None:
        self._recorder, self._counts, self._take, self._on_device = recorder, counts, take, on_device
        self._inside: list[tuple[str, bool]] = []
        self._calls: dict[str, int] = {}
        self._stamp, self._seen = -1, True
        self.is_named = "attention" in recorder.config.subjects

    def attending(self, modules: Mapping[str, object]) -> list[str]:
        """Return the sites to hook: those named after attention, or all where the configuration asks for it."""
        if self.is_named:
            return list(modules)
        return [site for site, module in modules.items() if _attends(module)]

    def entering(self, site: str, module: object) -> Callable[..., None]:
        """Return the hook before the forward of a module."""
        entry = (site, _attends(module))

        def enter(*_: object) -> None:
            current = self._recorder.current
            if current.stamp != self._stamp:
                self._begin()
            if "attention" in current.due and not current.is_away and self._counts():
                self._inside.append(entry)

        return enter

    def leaving(self, site: str) -> Callable[..., None]:
        """Return the hook behind the forward of a module."""

        def leave(*_: object) -> None:
            while self._inside and self._inside.pop()[0] != site:
                pass

        return leave

    def attention(
        self,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        *,
        scale: float | None,
        last_seen: int | None,
    ) -> None:
        """Record the call if it runs inside a watched module. Arguments as `logits_of` takes them."""
        if self._inside:
            options: dict[str, Any] = {"scale": scale, "last_seen": last_seen, "turn": self._recorder.current.step}
            reader = self._device_reader(query)
            if reader is not None:
                self._record_later(lambda: reader.attention(query, key, mask, **options))
            else:
                self._record(lambda: logits_of(query, key, mask, take=self._take, **options))

    def softmax(self, scores: Tensor, *, scale: float = 1.0, last_seen: int | None = None) -> None:
        """Record logits `(..., queries, keys)` if the softmax is that of attention."""
        if self._inside and self._inside[-1][1] and len(scores.shape) > 2:
            options: dict[str, Any] = {"scale": scale, "last_seen": last_seen, "turn": self._recorder.current.step}
            reader = self._device_reader(scores)
            if reader is not None:
                self._record_later(lambda: reader.softmax(scores, **options))
            else:
                self._record(lambda: sample_of(scores, take=self._take, **options))

    def _begin(self) -> None:
        """Begin a micro-step; report once if attention was due in the one before and none was seen."""
        if not self._seen:
            self._seen = True
            self._recorder.event(
                "monitor_fault", collector="attention", error="attention was due, and none was seen in the forward"
            )
        elif self._stamp == -1 and "attention" in self._recorder.current.due and self.is_named:
            self._seen = False
        self._stamp = self._recorder.current.stamp
        self._inside.clear()
        self._calls.clear()

    def _device_reader(self, tensor: Tensor) -> "DeviceAttention | None":
        """Return the reader of attention on the tensor's device; None on the host."""
        reader = self._on_device
        is_readable = (
            reader is not None and reader.is_on_device(tensor) and self._recorder.device_results.accepts_requests
        )
        return reader if is_readable else None

    def _record(self, read: Callable[[], Float]) -> None:
        self._put(lambda row: row.put(attention_statistics(read())))

    def _record_later(self, read: Callable[[], Tensor]) -> None:
        """Record five numbers that are computed on a device once they arrive."""

        def request(row: Row) -> None:
            device_results = self._recorder.device_results
            fetched = device_results.fetch(read())
            row.wait_for(device_results.make("attention", lambda: fetched.array))

        self._put(request)

    def _put(self, put: Callable[[Row], None]) -> None:
        recorder, (site, _) = self._recorder, self._inside[-1]
        self._seen = True
        if "attention" not in recorder.current.due:
            return
        try:
            call = self._calls.get(site, -1) + 1
            put(recorder.open_rows("attention", ATTENTION).row(site, call))
            self._calls[site] = call
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("attention", error)


def _attends(module: object) -> bool:
    name = type(module).__name__.casefold()
    return any(word in name for word in _NAMES)
