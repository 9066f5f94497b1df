"""Keeps warnings as a program shows them without us: each names the program's own line, and is shown as often.

Python names the caller of what has warned, so many frames above it. `skipped_by_warnings` keeps our frames from being
counted; `CallingPlaces` calls what a mode of torch holds up as from the line that has called it; `without_warnings` is
for what we call once more. Filters and registries of the program stay as they are: `warnings.catch_warnings` would make
all of them forget what was shown already.
"""

import linecache
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Behind the file's name of frames that are not counted: `warnings` skips those with both words in it, as they are the
#: frames of an import (`_is_internal_frame`).
_SKIPPED: Final = " [not counted by warnings, as importlib._bootstrap]"
#: Name of the frame that stands for the program's line.
_STAND_IN: Final = "called_by_mindscope"


def skipped_by_warnings(function: _Function) -> _Function:
    """Have warnings of what the function calls name its caller; a traceback shows its own line all the same."""
    file = function.__code__.co_filename if isinstance(function, FunctionType) else _SKIPPED
    if not file.endswith(_SKIPPED):
        linecache.cache.setdefault(file + _SKIPPED, (partial(_text, file),))  # read when asked
        function.__code__ = function.__code__.replace(co_filename=file + _SKIPPED)
    return function


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


class CallingPlaces:
    """Calls functions so that their warnings name the line that has called them, though a mode of torch lies between.

    Args:
        handing_over: The code of torch's functions that hand a call over to a mode.
    """

    def __init__(self, handing_over: CodeType) -> None:
        self._handing_over = handing_over
        self._known: dict[tuple[int, int], tuple[CodeType, Mapping[str, Any], Callable[..., Any]]] = {}

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Call the function; to be called by the mode itself. Where no place is found, it is called as it is."""
        stand_in = None
        try:
            frame = self._caller(sys._getframe(2))
            stand_in = None if frame is None else self._stand_in(frame)
        except BaseException:  # noqa: BLE001  the training must not feel that we fail
            pass
        if stand_in is None:
            return function(*arguments, **options)
        try:
            return stand_in(function, arguments, options)
        except BaseException as error:
            with suppress(Exception):
                _without_stand_in(error)
            raise

    def clear(self) -> None:
        """Forget the places."""
        self._known.clear()

    def _caller(self, frame: FrameType | None) -> FrameType | None:
        """Return the frame that has called the function, from the one that has called the mode."""
        if frame is not None and frame.f_code is self._handing_over:  # the function itself is written in Python
            frame = None if frame.f_back is None else frame.f_back.f_back
        while frame is not None and frame.f_code.co_filename.endswith(_SKIPPED):
            frame = frame.f_back
        return frame

    def _stand_in(self, frame: FrameType) -> Callable[..., Any]:
        key = id(frame.f_code), frame.f_lasti
        known = self._known.get(key)
        if known is None or known[0] is not frame.f_code or known[1] is not frame.f_globals:
            code = _called.__code__.replace(
                co_filename=frame.f_code.co_filename, co_firstlineno=frame.f_lineno or 0, co_name=_STAND_IN
            )
            known = self._known[key] = frame.f_code, frame.f_globals, FunctionType(code, frame.f_globals)
        return known[2]


#: On one line, whose number is that of the program.
_called: Final = lambda function, arguments, options: function(*arguments, **options)  # noqa: E731


def _without_stand_in(error: BaseException) -> None:
    """Leave the frame that stands for the program's line out of the traceback."""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_name == _STAND_IN:
        trace.tb_next = trace.tb_next.tb_next


class _ThisThread:
    """A filter's pattern that takes every text in one thread, until it is over."""

    def __init__(self) -> None:
        self.thread = get_ident()

    def match(self, _text: str) -> bool:
        """Return whether this is the thread."""
        return get_ident() == self.thread


@contextmanager
def without_warnings() -> Iterator[None]:
    """Neither show nor note warnings of this thread in the block: the program has had them already.

    Another list lies over the program's filters, which is read in their place. They are not changed, so that what was
    shown once stays known.
    """
    pattern, usual = _ThisThread(), warnings.filters
    ours: list[Any] = [("ignore", pattern, Warning, None, 0), *usual]  # a pattern is what has `match`
    warnings.filters = ours
    try:
        yield
    finally:
        pattern.thread = 0
        if warnings.filters is ours:
            warnings.filters = usual
