"""The hooks on the modules of the watched sites, which come off while nothing of theirs is due for a while."""

from collections.abc import Callable, Iterable
from typing import Any

from ..recording.recorder import Recorder

OF_MODULES = frozenset({"activation", "activation_grad", "input", "input_grad"})
#: Puts the hooks of a site on and returns what takes them off; True for the second time and later.
Register = Callable[[str, bool], Any]


def _never(_site: str) -> bool:
    return False


class SiteHooks:
    """Follows the recorder: hooks that rest are not there at all, so that a step without them costs nothing.

    Args:
        register: The framework's way to put hooks on a module.
        may_rest: Of a site, whether its hooks may come off: where others hook the same module, their order counts.
    """

    def __init__(self, recorder: Recorder, register: Register, may_rest: Callable[[str], bool] = _never) -> None:
        self._recorder, self._register, self._may_rest = recorder, register, may_rest
        self._sites: dict[str, Any] = {}
        self._resting: set[str] = set()

    def __contains__(self, site: object) -> bool:
        """Whether the site is watched, its hooks on or at rest."""
        return site in self._sites or site in self._resting

    def watch(self, sites: Iterable[str]) -> None:
        """Nothing; these sites are watched, and no others."""
        wanted = dict.fromkeys(sites)
        for site in [site for site in self._sites if site not in wanted]:
            self._sites.pop(site).remove()
        self._resting &= wanted.keys()
        for site in wanted:
            if site not in self._sites and site not in self._resting:
                self._sites[site] = self._register(site, False)

    def follow(self) -> None:
        """Nothing; hooks are on if they are needed now, and off if they will not be for the next few steps."""
        current = self._recorder.current
        if current.is_looking or current.sees_inputs or current.sees_input_grads:
            if self._resting:
                self._wake()
        elif self._sites and self._recorder.due.rests(OF_MODULES):
            for site in [site for site in self._sites if self._may_rest(site)]:
                self._sites.pop(site).remove()
                self._resting.add(site)

    def remove(self) -> None:
        """Nothing; all hooks are off for good."""
        for handle in self._sites.values():
            handle.remove()
        self._sites = {}
        self._resting = set()

    def _wake(self) -> None:
        for site in self._resting:
            self._sites[site] = self._register(site, True)
        self._resting = set()
