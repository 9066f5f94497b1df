"""Parameters that share memory, and ties that come apart while the training runs."""

from collections.abc import Callable, Sequence
from typing import Any

from ..recording.recorder import Recorder


class Ties:
    """Watches that parameters which shared memory as the run began still do.

    Args:
        owners: Site, module and attribute of every parameter, shared ones under each of their sites.
        memory: Where a parameter's values lie.
    """

    def __init__(
        self, recorder: Recorder, owners: Sequence[tuple[str, Any, str]], memory: Callable[[Any], int]
    ) -> None:
        self._recorder, self._memory = recorder, memory
        groups: dict[int, list[tuple[str, Any, str]]] = {}
        for site, module, name in owners:
            groups.setdefault(memory(getattr(module, name)), []).append((site, module, name))
        self._groups = [group for group in groups.values() if len(group) > 1]

    @property
    def sites(self) -> tuple[tuple[str, ...], ...]:
        """The sites of each group that shares memory."""
        return tuple(tuple(site for site, _, _ in group) for group in self._groups)

    def step_ends(self) -> bool:
        """Whether a tie has come apart since; `tie_broken` was told of it."""
        if not self._groups:
            return False
        apart = [group for group in self._groups if not self._holds(group)]
        for group in apart:
            self._groups.remove(group)
            self._recorder.event("tie_broken", group[0][0], sites=[site for site, _, _ in group])
        return bool(apart)

    def _holds(self, group: list[tuple[str, Any, str]]) -> bool:
        places = {self._memory(getattr(module, name)) for _, module, name in group}
        return len(places) == 1
