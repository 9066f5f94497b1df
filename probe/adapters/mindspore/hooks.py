"""What MindSpore's cells get as hooks: objects with two faces."""

from collections.abc import Callable
from typing import Any


def _seen_by_the_compiler(_self: object, *_arguments: object) -> None:
    return None


class Hook:
    """A hook as an object with two faces.

    PyNative mode calls it. The compiler of `@jit` takes the source of hooks into the graph, and fails on what it cannot
    parse; it reads the source where `inspect` finds it, behind `__wrapped__`, and there is nothing to do.
    """

    __slots__ = ("work",)

    def __init__(self, work: Callable[..., None]) -> None:
        self.work = work

    def __call__(self, *arguments: Any) -> None:
        """Nothing; the hook has done its work."""
        self.work(*arguments)

    __call__.__wrapped__ = _seen_by_the_compiler  # type: ignore[attr-defined]  # functions take any attribute
