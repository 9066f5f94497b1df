"""Values that are not there yet: text with traced values in it, iterables over such, gaps where paths disagree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..traced import CaptureError

__all__ = ["Gap", "TracedIterable", "TracedText"]


class TracedText:
    """Words with traced values among them: for `print` and messages, where it is put together at run time."""

    __slots__ = ("parts",)

    def __init__(self, parts: "list[str | tuple[Any, str]]") -> None:
        self.parts = parts

    def __str__(self) -> str:
        raise CaptureError(
            "an f-string with a traced value in it has no text yet; it can only be printed, or be a message"
        )


@dataclass(frozen=True, slots=True)
class TracedIterable:
    """What a loop over traced values goes through.

    Attributes:
        length: An int, or a traced one.
        item: The value at a traced place.
        name: For messages.
    """

    length: Any
    item: Callable[[Any], Any]
    name: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What a variable holds where paths have met that disagree about it; an error when it is read."""

    reason: str
