"""Handles of hooks that come off together."""

from collections.abc import Sequence
from typing import Any


class Several:
    """Handles that come off together."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Takes all of them off."""
        for handle in self._handles:
            handle.remove()
