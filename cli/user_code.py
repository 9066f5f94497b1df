"""Load models and functions of the user, run them, and report what they raise with its file and line."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import TYPE_CHECKING

from .failures import WrongUse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def load_model(reference: str) -> object:
    """Load the model `file.py:name` or `package.module:name`; call it first when it is a function.

    Raises:
        WrongUse: There is no such file, module or name, the function needs arguments, or the code raises.
    """
    return made_model(load_named(reference, what="a model"), reference)


def made_model(found: object, reference: str) -> object:
    """Return the model that was loaded; call it first when it is a function or a class.

    Raises:
        WrongUse: The function needs arguments, or its code raises.
    """
    if not callable(found) or not _is_maker(found):
        return found
    if needed := needed_arguments(found):
        raise WrongUse(
            f"{reference} needs {', '.join(needed)}, but it is called without arguments to make the model; "
            f"name a function that takes none and returns the model"
        )
    with own_code(f"{reference} makes no model"):
        return found()


def load_named(reference: str, *, what: str) -> object:
    """Load the object `file.py:name` or `package.module:name` as it is.

    Args:
        what: What the object is, for error messages.

    Raises:
        WrongUse: There is no such file, module or name, or loading it raises.
    """
    from ..storage import nearest

    source, _, name = reference.rpartition(":")
    if not source or not name:
        raise WrongUse(f"{what} is named 'file.py:name' or 'package.module:name', got {reference!r}")
    module = _load_file(Path(source)) if source.endswith(".py") else _import(source)
    if not hasattr(module, name):
        raise WrongUse(f"{source} has no {name!r}{nearest(name, vars(module))}")
    return getattr(module, name)


def load_samples(path: str) -> "tuple[NDArray[np.generic], NDArray[np.generic]]":
    """Load inputs `x` and classes `y` from an `.npz` file.

    Raises:
        WrongUse: There is no such file, it is no `.npz`, or one of the two arrays is missing.
    """
    arrays = load_arrays(path)
    missing = [name for name in ("x", "y") if name not in arrays]
    if missing:
        raise WrongUse(f"{path!r} lacks {' and '.join(missing)}; it holds {', '.join(arrays) or 'nothing'}")
    x, y = arrays["x"], arrays["y"]
    is_number = x.dtype.kind in "biuf" and y.dtype.kind in "biuf"
    if not is_number or x.ndim == 0 or (x.ndim > 1 and y.shape[:1] != x.shape[:1]):
        raise WrongUse(
            f"{path!r} must hold numbers x and a class y for each of them, got x {x.dtype}{x.shape} and y "
            f"{y.dtype}{y.shape}"
        )
    return x, y


def load_arrays(path: str) -> "dict[str, NDArray[np.generic]]":
    """Load the arrays of an `.npz` file by name.

    Raises:
        WrongUse: There is no such file, or it is no `.npz`.
    """
    from ..storage.npz_files import UnreadableArrays, read_npz

    if not Path(path).is_file():
        raise WrongUse(f"no data at {path!r}; --data expects an .npz file with arrays x and y")
    try:
        return dict(read_npz(Path(path)))
    except UnreadableArrays as error:
        raise WrongUse(
            f"{path!r} is not an .npz file of plain arrays; write one with numpy.savez(path, x=..., y=...) ({error})"
        ) from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise WrongUse(f"no file at {str(path)!r}")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise WrongUse(f"{str(path)!r} cannot be loaded as Python")
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    with own_code(f"{path} cannot be loaded"):
        specification.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        with own_code(f"{name} cannot be loaded"):
            return importlib.import_module(name)
    except WrongUse as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and f"{name}.".startswith(f"{cause.name}."):
            raise WrongUse(f"no module {cause.name!r}; a file is named with its .py") from None
        raise


def needed_arguments(function: Callable[..., object]) -> list[str]:
    """Return the names of the arguments without which the function cannot be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in optional
    ]


def _is_maker(found: object) -> bool:
    """Return whether the object is a function or class that makes a model, and not a model itself."""
    return isinstance(found, type) or (
        callable(found) and not hasattr(found, "parameters") and not hasattr(found, "get_parameters")
    )


_PACKAGE = __name__.partition(".")[0]
#: The package that calls models.
_MODELS = f"{_PACKAGE}.armour.model."


@contextmanager
def own_code(failed: str) -> Iterator[None]:
    """Run code of the user, and report what it raises as wrong use.

    Args:
        failed: The begin of the error message.

    Raises:
        WrongUse: The code raised or called `sys.exit`; the message names file, line and error.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        raise WrongUse(_report(failed, error)) from error


@contextmanager
def calls_own_code() -> Iterator[None]:
    """Run our own code that calls a model or function of the user, and report what that raises as wrong use.

    Raises:
        WrongUse: The user's code raised; the message names file, line and error. Other errors pass.
    """
    try:
        yield
    except WrongUse:
        raise
    except Exception as error:
        raised = error.__cause__ if _is_ours(error) and isinstance(error.__cause__, Exception) else error
        if _own(_frames(raised)):
            raise WrongUse(_report("your own code fails", raised)) from error
        if _is_of_a_called_library(error):
            raise WrongUse(
                f"the model cannot be called: {_what(error)}; check the shape and dtype of x in the data, or see the "
                f"traceback with --debug"
            ) from error
        raise


def _report(failed: str, error: BaseException) -> str:
    return f"{failed}: {_location(error)}{_what(error)}; fix it there, or see the traceback with --debug"


def _what(error: BaseException) -> str:
    message = str(error.msg if isinstance(error, SyntaxError) else error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _location(error: BaseException) -> str:
    """Return file and line of the error: in the user's innermost frame, else in any; empty without frames."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}, "
    frames = [(file, line) for file, line, module in _frames(error) if not _is_of_the_package(module)]
    for file, line in reversed(_own(_frames(error)) or frames):
        return f"{file}, line {line}, "
    return ""


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    """Return file, line and module of each frame that has a file, outermost first."""
    found = [
        (frame.f_code.co_filename, line, str(frame.f_globals.get("__name__")))
        for frame, line in walk_tb(error.__traceback__)
    ]
    return [frame for frame in found if not frame[0].startswith("<")]


def _own(frames: list[tuple[str, int, str]]) -> list[tuple[str, int]]:
    """Return file and line of the user's frames: neither of mindscope nor of an installed library."""
    from ..storage.code_places import is_library

    return [(file, line) for file, line, module in frames if not (_is_of_the_package(module) or is_library(file))]


def _is_of_a_called_library(error: Exception) -> bool:
    """Return whether a framework raised the error when the model was called: a model without code of its own."""
    frames = _frames(error)
    ours = [module for _, _, module in frames if _is_of_the_package(module)]
    return bool(ours) and ours[-1].startswith(_MODELS) and not _is_ours(error)


def _is_ours(error: Exception) -> bool:
    return _is_of_the_package(type(error).__module__)


def _is_of_the_package(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE
