"""The one guard between a training and what is ours: what we raise switches ours off, and the training goes on.

Frameworks, scripts and the interpreter call us at few places: hooks of modules, tensors and optimizers, functions that
we have replaced, modes on torch's stacks, methods of a monitor, the end of the process. Each of these places hands
whatever it catches to a guard; between them and the work nobody else needs to catch anything.

An exception belongs to the training, and reaches it, where

- it is the end that somebody has asked us for (`TrainingStopped`, `Stopped`), or
- a signal has struck while our code ran: a handler of Python's own or of the script's has raised it, so that Ctrl-C, a
  time limit or a preemption work as they do without us. Its traceback tells: it passes through the handler's code; of
  Python's own handler for Ctrl-C, which is no Python code, it ends at an instruction that raises nothing by itself.

Every other exception is ours, `SystemExit` and `KeyboardInterrupt` from a `raise` in a quantity or a callback included.
"""

import dis
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, TracebackType
from typing import Any, Final
from weakref import WeakSet

from ..storage.code_places import OUR_FILES
from .errors import CollectiveRefused, Stopped, TrainingStopped
from .warning_places import CallingPlaces

__all__ = ["Guard", "belongs_to_training", "guards_at_rest", "is_ours"]

_log = logging.getLogger(__name__)
_RAISING: Final = frozenset({dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"]})
#: Methods of modes hand on what torch called with this instruction: what it raises is the called function's. So is what
#: seems to be raised by `CallingPlaces.call`, which leaves the frame that it calls with out of the traceback.
_HANDED_ON: Final = ("__torch_function__", "__torch_dispatch__")
_HANDING_ON: Final = dis.opmap["CALL_FUNCTION_EX"]


#: All guards of the process.
_guards: "WeakSet[Guard]" = WeakSet()


class Guard:
    """Takes what one part of ours raises into the training; the first exception switches the part off.

    Hooks stay where they are, since a framework may be iterating over them; a guard that is off calls nothing.

    Args:
        switched_off: Called with the first exception, to record it and to switch off what costs; it may raise as well.
        words: Returns how the message begins that is logged.

    Attributes:
        is_off: Whether something was raised.
    """

    __slots__ = ("__weakref__", "_switched_off", "_told", "_untold", "_words", "is_off")

    def __init__(self, switched_off: Callable[[BaseException], object], words: Callable[[], str]) -> None:
        self._switched_off, self._words = switched_off, words
        self._told: set[tuple[type, str, CodeType | None]] = set()
        self._untold: tuple[str, BaseException] | None = None
        self.is_off = False
        _guards.add(self)

    def __call__(self, work: Callable[..., Any], *, otherwise: Any = None) -> Callable[..., Any]:
        """Return the function with its exceptions kept from the caller.

        Args:
            otherwise: What the function returns once something was raised.
        """

        def call(*arguments: Any, **options: Any) -> Any:
            if self.is_off:
                return otherwise
            try:
                return work(*arguments, **options)
            except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
                self.failed(error)
                return otherwise

        return call

    def attempt(self, work: Callable[..., Any], *arguments: Any, otherwise: Any = None) -> Any:
        """Call what has to be done at the end, off or not, and return its result; otherwise if it raises."""
        try:
            return work(*arguments)
        except BaseException as error:  # noqa: BLE001  as above
            self.failed(error)
            return otherwise

    def failed(self, error: BaseException) -> None:
        """Switch off what is guarded, and say so once.

        Raises:
            BaseException: The error itself, if it belongs to the training.
        """
        if belongs_to_training(error):
            raise error
        if self.is_off:
            return
        self.is_off = True
        try:
            self.tell(self._words(), error)
            self._switched_off(error)
        except BaseException as another:
            if belongs_to_training(another):
                raise
            self.tell("the monitor failed", error)

    def tell(self, words: str, error: BaseException) -> None:
        """Log a failure, unless one that was raised by the same function was logged before."""
        try:
            origin = type(error), str(error), _origin(error)
            if origin not in self._told:
                _log.error("%s: %s: %s", words, type(error).__name__, error, exc_info=error)
                self._told.add(origin)
        except (RecursionError, MemoryError):  # too deep, or too full, to speak
            self._untold = words, error

    def tell_late(self) -> None:
        """Log a failure for which there was no room when it happened."""
        late, self._untold = self._untold, None
        if late is not None:
            self.tell(*late)

    def check_failed(self, error: BaseException) -> None:
        """Leave the check open that has raised this; say so where our own code raises, and not a program's model.

        Raises:
            BaseException: The error itself, if it belongs to the training.
        """
        if belongs_to_training(error):
            raise error
        if is_ours(error) and not isinstance(error, CollectiveRefused):
            self.tell("a check failed and stays open", error)

    def quietly(self) -> "_Quiet":
        """Return the context of a check, which ends at the first exception, as `check_failed` says."""
        return _Quiet(self)


@contextmanager
def guards_at_rest() -> Iterator[None]:
    """Have nothing of ours run in the process that a guard stands before, as long as the block runs."""
    resting = [guard for guard in list(_guards) if not guard.is_off]
    for guard in resting:
        guard.is_off = True
    try:
        yield
    finally:
        for guard in resting:
            guard.is_off = False


class _Quiet:
    """A block that ends at its first exception, unless that belongs to the training."""

    __slots__ = ("_guard",)

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if error is not None:
            self._guard.check_failed(error)
        return True


def belongs_to_training(error: BaseException) -> bool:
    """Return whether the training was meant to get this exception, though our code was running."""
    if isinstance(error, TrainingStopped | Stopped):
        return True
    if threading.current_thread() is not threading.main_thread():  # where no signal is handled
        return False
    trace = error.__traceback__
    handlers = _handlers()
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        if trace.tb_next is None:
            return type(error) is KeyboardInterrupt and not _raises(trace)
        trace = trace.tb_next
    return False


def _handlers() -> set[CodeType]:
    """Return the code of the script's handlers of signals."""
    found = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # of a partial function
        handler = getattr(handler, "__func__", handler)  # of a method
        if callable(handler) and not hasattr(handler, "__code__"):
            handler = type(handler).__call__
        if (code := getattr(handler, "__code__", None)) is not None:
            found.add(code)
    return found


def _raises(trace: TracebackType) -> bool:
    """Return whether the instruction that the frame has reached raises by itself."""
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] in _RAISING


def _origin(error: BaseException) -> CodeType | None:
    """Return the code that has raised the error."""
    trace = _innermost(error)
    return None if trace is None else trace.tb_frame.f_code


def _innermost(error: BaseException) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def is_ours(error: BaseException) -> bool:
    """Return whether a function of ours has raised the error, and not one that it has called."""
    trace = _innermost(error)
    if trace is None or not trace.tb_frame.f_code.co_filename.startswith(OUR_FILES):
        return False
    code = trace.tb_frame.f_code
    if code is CallingPlaces.call.__code__:
        return False
    return code.co_name not in _HANDED_ON or not _calls_on(trace)


def _calls_on(trace: TracebackType) -> bool:
    """Return whether the frame has reached `function(*arguments, **keywords)`: the call that it hands on."""
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _HANDING_ON
