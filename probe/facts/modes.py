"""Training flag and gradient mode of every forward of the model, and the modules whose flag is another."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from ...storage.records import Json
from ..recording.recorder import Recorder

_MOST_NAMES = 32
_Key = tuple[bool, bool, tuple[str, ...]]
_training = attrgetter("training")


class ForwardModes:
    """Counts the forwards of a step by their modes and tells of a step whose modes are not those of the step before.

    Args:
        modules: By site, the model itself under the empty one.
        is_recording: Whether gradients are on here and now.

    Attributes:
        counts: Of the forwards in the step in progress.
    """

    def __init__(self, recorder: Recorder, modules: Mapping[str, Any], is_recording: Callable[[], bool]) -> None:
        self._recorder, self._is_recording = recorder, is_recording
        self.look(modules)
        self.counts: dict[_Key, int] = {}
        self._before: frozenset[_Key] = frozenset()

    def forward_begins(self) -> None:
        """Notes the modes of a forward of the model."""
        flags = (*map(_training, self._modules),)
        others = self._others.get(flags)
        if others is None:
            others = self._others[flags] = tuple(
                [s for s, one in zip(self._sites, flags, strict=True) if one is not flags[0]]
            )
        key = flags[0], self._is_recording(), others
        self.counts[key] = self.counts.get(key, 0) + 1

    def step_ends(self) -> None:
        """Tells `forward_modes` when this step's differ from the last one's."""
        if not self.counts:
            return
        counts, self.counts = self.counts, {}
        if counts.keys() == self._before:
            return
        self._before = frozenset(counts)
        forwards: list[Json] = [self._described(key, count) for key, count in counts.items()]
        self._recorder.event("forward_modes", forwards=forwards, sensitive=_some(sorted(self._sensitive)))

    def look(self, modules: Mapping[str, Any]) -> None:
        """Nothing; these are the modules from now on."""
        self._sites = ["", *(site for site in modules if site)]
        self._modules = [modules[site] for site in self._sites]
        #: By the flags of all modules the sites of those whose flag is not that of the model.
        self._others: dict[tuple[bool, ...], tuple[str, ...]] = {}
        self._sensitive = frozenset(site for site, module in modules.items() if depends_on_mode(module))

    def _described(self, key: _Key, count: int) -> dict[str, Json]:
        training, gradients, others = key
        return {
            "training": training,
            "gradients": gradients,
            "count": count,
            "others": _some(others),
            "others_count": len(others),
            "sensitive_others": _some([site for site in others if site in self._sensitive]),
        }


def depends_on_mode(module: Any) -> bool:
    """Whether the module itself computes something else in training than in evaluation: dropout, running statistics."""
    kind = type(module).__name__.lower()
    if "dropout" in kind or "droppath" in kind:
        rate = getattr(module, "p", getattr(module, "drop_prob", 1.0))
        return not (isinstance(rate, int | float) and rate == 0.0)
    running = getattr(module, "running_mean", None)
    if running is None:
        running = getattr(module, "moving_mean", None)
    if running is not None:
        return True
    rate = getattr(module, "dropout", 0.0)  # attention and recurrent layers keep a rate of that name
    return isinstance(rate, float) and rate > 0.0


def _some(names: "list[str] | tuple[str, ...]") -> list[Json]:
    return list(names[:_MOST_NAMES])
