"""Hooks of one quantity that come off while it is not due for a while: what is not there costs nothing."""

from collections.abc import Callable, Sequence
from typing import Any

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
        """Nothing; the hooks are on if they are needed now, and off if they will not be for the next few steps."""
        if self._is_resting:
            if self._is_needed():
                self._is_resting = False
                self._handles = [put(True) for put in reversed(self._puts)]  # each before the last one
        elif not self._is_needed() and self._rests() and self._may_rest():
            self._take_off()
            self._is_resting = True

    def remove(self) -> None:
        """Nothing; all hooks are off for good."""
        self._take_off()
        self._puts, self._is_resting = (), False

    def _take_off(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
