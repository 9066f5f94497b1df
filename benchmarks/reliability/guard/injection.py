"""Makes one function raise wherever it is called from: its code is exchanged, whoever holds a reference to it."""

import gc
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import mindscope

_ROOT = f"{Path(mindscope.__file__).parent}/"
#: Folders whose functions are tried, and modules beside them.
_OURS = tuple(f"{_ROOT}{part}" for part in ("probe/", "insight/", "storage/", "watching.py"))
KINDS = (RuntimeError, SystemExit, RecursionError, MemoryError, KeyboardInterrupt)
#: The functions that have raised.
RAISED: list[str] = []


def _injected(kind: type[BaseException]) -> type[BaseException]:
    def __init__(self: BaseException) -> None:  # noqa: N807  a method of the class that is made
        kind.__init__(self)
        RAISED.append(kind.__name__)

    return type(f"Injected{kind.__name__}", (kind,), {"__init__": __init__})


_INJECTED = {kind.__name__: _injected(kind) for kind in KINDS}
#: Functions of the interpreter's making: a loop or a class, no call that anybody wrote.
_IMPLICIT = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>", "<lambda>")


def is_injected(error: BaseException | None) -> bool:
    """Return whether the error, or one that it came from, is one of a trial."""
    return error is not None and (
        isinstance(error, tuple(_INJECTED.values())) or is_injected(error.__cause__) or is_injected(error.__context__)
    )


def name_of(code: CodeType) -> str:
    """Return `folder/file.py:qualified.name:line` of a function of ours."""
    return f"{code.co_filename.removeprefix(_ROOT)}:{code.co_qualname}:{code.co_firstlineno}"


def functions_called(training: Callable[[Callable[[int], None]], object]) -> dict[str, str]:
    """Return the functions of ours that are called from step 0 on, by name, and in which kind of thread.

    Args:
        training: Runs, and calls its argument before each step.
    """
    found: dict[CodeType, str] = {}

    def see(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in found and code.co_filename.startswith(_OURS):
            is_main = threading.current_thread() is threading.main_thread()
            found[code] = "training" if is_main else "thread"
        elif event == "call" and found.get(code) == "thread" and threading.current_thread() is threading.main_thread():
            found[code] = "training"

    def begin(number: int) -> None:
        if number == 0:
            sys.setprofile(see)

    threading.setprofile(see)
    try:
        training(begin)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {name_of(code): where for code, where in found.items() if code.co_name not in _IMPLICIT}


class Injector:
    """Knows the code of all functions of ours, also of those that are made by others when they run."""

    def __init__(self) -> None:
        self._codes: dict[str, CodeType] = {}
        self._parents: dict[CodeType, CodeType] = {}
        for function in gc.get_objects():
            if type(function) is FunctionType and function.__code__.co_filename.startswith(_OURS):
                self._note(function.__code__)

    def _note(self, code: CodeType) -> None:
        self._codes[name_of(code)] = code
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._parents[inner] = code
                self._note(inner)

    def knows(self, name: str) -> bool:
        """Return whether there is such a function."""
        return name in self._codes

    def inject(self, name: str, kind: str) -> None:
        """Make the function raise an error of this kind from now on."""
        code = self._codes[name]
        self._exchange(code, _raising(code, _INJECTED[kind]))

    def _exchange(self, code: CodeType, replacement: CodeType) -> None:
        for function in _functions_of(code):
            function.__code__ = replacement
        parent = self._parents.get(code)
        if parent is not None:
            consts = tuple(replacement if one is code else one for one in parent.co_consts)
            changed = parent.replace(co_consts=consts)
            self._parents[replacement] = changed
            self._exchange(parent, changed)


def _functions_of(code: CodeType) -> Iterable[FunctionType]:
    return [one for one in gc.get_referrers(code) if isinstance(one, FunctionType) and one.__code__ is code]


def _raise(*_: object, **__: object) -> None:
    raise "placeholder"  # type: ignore[misc]  # noqa: B016  its constant is exchanged for a class


def _raising(code: CodeType, kind: type[BaseException]) -> CodeType:
    """Return code that raises, with the name, place and free variables of the function's own."""
    pattern = _raise.__code__
    return pattern.replace(
        co_consts=tuple(kind if one == "placeholder" else one for one in pattern.co_consts),
        co_freevars=code.co_freevars,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )
