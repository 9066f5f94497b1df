"""Code of the user's own that a command runs: what it raises is told with its place, and is no fault of ours."""

import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

from .failures import WrongUse

_PACKAGE = __name__.partition(".")[0]
#: Where models are called.
_MODELS = f"{_PACKAGE}.armour.model."


@contextmanager
def own_code(failed: str) -> Iterator[None]:
    """While it is open, code of the user's own runs.

    Args:
        failed: What has failed where that code raises, the begin of the sentence.

    Raises:
        WrongUse: The code raised, or left by `sys.exit`; file, line and error are named.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        raise WrongUse(_told(failed, error)) from error


@contextmanager
def calls_own_code() -> Iterator[None]:
    """While it is open, code of ours calls a model, or something else that the user has named.

    Raises:
        WrongUse: What was called raised; file, line and error are named. Errors that come from elsewhere pass.
    """
    try:
        yield
    except WrongUse:
        raise
    except Exception as error:
        raised = error.__cause__ if _is_ours(error) and isinstance(error.__cause__, Exception) else error
        if _own(_frames(raised)):
            raise WrongUse(_told("your own code fails", raised)) from error
        if _is_of_a_called_library(error):
            raise WrongUse(
                f"the model cannot be called: {_what(error)}; look at the shape and dtype of x in the data, or see it "
                f"whole with --debug"
            ) from error
        raise


def _told(failed: str, error: BaseException) -> str:
    return f"{failed}: {_place(error)}{_what(error)}; mend it there, or see it whole with --debug"


def _what(error: BaseException) -> str:
    said = str(error.msg if isinstance(error, SyntaxError) else error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _place(error: BaseException) -> str:
    """File and line of what was raised: the innermost of the user's, or else of any, code; empty without any."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}, "
    frames = [(file, line) for file, line, module in _frames(error) if not _is_of_the_package(module)]
    for file, line in reversed(_own(_frames(error)) or frames):
        return f"{file}, line {line}, "
    return ""


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    """File, line and module of each frame that has a file, outermost first."""
    found = [
        (frame.f_code.co_filename, line, str(frame.f_globals.get("__name__")))
        for frame, line in walk_tb(error.__traceback__)
    ]
    return [one for one in found if not one[0].startswith("<")]


def _own(frames: list[tuple[str, int, str]]) -> list[tuple[str, int]]:
    """File and line of those that are the user's: neither ours nor of what is installed."""
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return [
        (file, line)
        for file, line, module in frames
        if not _is_of_the_package(module) and not libraries.intersection(Path(file).parents)
    ]


def _is_of_a_called_library(error: Exception) -> bool:
    """Whether a framework raised it where it was called as the model: a model without code of its own."""
    frames = _frames(error)
    ours = [module for _, _, module in frames if _is_of_the_package(module)]
    return bool(ours) and ours[-1].startswith(_MODELS) and not _is_ours(error)


def _is_ours(error: Exception) -> bool:
    return _is_of_the_package(type(error).__module__)


def _is_of_the_package(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE
