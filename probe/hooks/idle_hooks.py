"""Hooks that come off while nothing of theirs is due for a while: what is not there costs nothing."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..recording.recorder import Recorder


class Several:
    """Handles that come off together."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Remove all of them."""
        for handle in self._handles:
            handle.remove()


#: Puts a hook on and returns what takes it off; True for the second time and later: it comes before those of others.
Put = Callable[[bool], Any]


class RestingHooks:
    """Hooks that are put on and taken off together.

    Args:
        puts: In the order of their calls.
        is_needed: Whether they have something to do in the step in progress.
        rests: Whether they have nothing to do now and in the few steps that come.
        may_rest: Whether they may come off at all: where others hook the same modules, their order counts.
    """

    def __init__(
        self,
        puts: Sequence[Put],
        *,
        is_needed: Callable[[], bool],
        rests: Callable[[], bool],
        may_rest: Callable[[], bool],
    ) -> None:
        self._puts, self._is_needed, self._rests, self._may_rest = puts, is_needed, rests, may_rest
        self._handles = [put(False) for put in puts]
        self._is_resting = False

    def follow(self) -> None:
        """Register the hooks if they are needed now; remove them if they will not be for the next few steps."""
        if self._is_resting:
            if self._is_needed():
                self.wake()
        elif not self._is_needed() and self._rests() and self._may_rest():
            self._take_off()
            self._is_resting = True

    def wake(self) -> None:
        """Register the hooks for what is about to happen, if they rest."""
        if self._is_resting:
            self._is_resting = False
            self._handles = [put(True) for put in reversed(self._puts)]  # each before the last one

    def remove(self) -> None:
        """Remove all hooks for good."""
        self._take_off()
        self._puts, self._is_resting = (), False

    def _take_off(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []


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
        """Return whether the site is watched, its hooks registered or at rest."""
        return site in self._sites or site in self._resting

    def watch(self, sites: Iterable[str]) -> None:
        """Watch these sites, and no others."""
        wanted = dict.fromkeys(sites)
        for site in [site for site in self._sites if site not in wanted]:
            self._sites.pop(site).remove()
        self._resting &= wanted.keys()
        for site in wanted:
            if site not in self._sites and site not in self._resting:
                self._sites[site] = self._register(site, False)

    def follow(self) -> None:
        """Register the hooks if they are needed now; remove them if they will not be for the next few steps."""
        current = self._recorder.current
        if current.is_looking or current.sees_inputs or current.sees_input_grads:
            if self._resting:
                self._wake()
        elif self._sites and self._recorder.due.rests(OF_MODULES):
            for site in [site for site in self._sites if self._may_rest(site)]:
                self._sites.pop(site).remove()
                self._resting.add(site)

    def remove(self) -> None:
        """Remove all hooks for good."""
        for handle in self._sites.values():
            handle.remove()
        self._sites = {}
        self._resting = set()

    def _wake(self) -> None:
        for site in self._resting:
            self._sites[site] = self._register(site, True)
        self._resting = set()
