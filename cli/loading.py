"""Models and samples named on the command line."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .failures import WrongUse
from .own_code import own_code

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def load_model(reference: str) -> object:
    """The model behind `file.py:name` or `package.module:name`; a function of that name is called for it.

    Raises:
        WrongUse: There is no such file, module or name, the function needs arguments, or what the file says raises.
    """
    found = load_named(reference, what="a model")
    if not callable(found) or not _is_maker(found):
        return found
    _check_needs_nothing(found, reference)
    with own_code(f"{reference} makes no model"):
        return found()


def load_named(reference: str, *, what: str) -> object:
    """What stands behind `file.py:name` or `package.module:name`, as it is.

    Args:
        what: It is meant to be, for the error.

    Raises:
        WrongUse: There is no such file, module or name, or loading it raises.
    """
    from ..storage import nearest

    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise WrongUse(f"{what} is named 'file.py:name' or 'package.module:name', got {reference!r}")
    module = _load_file(Path(place)) if place.endswith(".py") else _import(place)
    if not hasattr(module, name):
        raise WrongUse(f"{place} has no {name!r}{nearest(name, vars(module))}")
    return getattr(module, name)


def load_samples(path: str) -> "tuple[NDArray[np.generic], NDArray[np.generic]]":
    """Inputs `x` and classes `y` of an `.npz` file.

    Raises:
        WrongUse: There is no such file, it is no `.npz`, or one of the two arrays is missing.
    """
    import zipfile

    import numpy as np

    if not Path(path).is_file():
        raise WrongUse(f"no data at {path!r}; --data expects an .npz file with arrays x and y")
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = [name for name in ("x", "y") if name not in arrays]
            if not missing:
                return arrays["x"], arrays["y"]
            held = ", ".join(arrays) or "nothing"
    except (ValueError, AttributeError, EOFError, zipfile.BadZipFile):
        raise WrongUse(f"{path!r} is not an .npz file; write one with numpy.savez(path, x=..., y=...)") from None
    raise WrongUse(f"{path!r} lacks {' and '.join(missing)}; it holds {held}")


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


def _check_needs_nothing(maker: Callable[..., object], reference: str) -> None:
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # of some that are written in C nothing is known
        return
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in optional]
    if needed:
        raise WrongUse(
            f"{reference} needs {', '.join(needed)}, and what makes a model is called without arguments; "
            f"name a function of your own that takes none and returns the model"
        )


def _is_maker(found: object) -> bool:
    """Functions and classes make a model; what has parameters is one, although it can be called as well."""
    return isinstance(found, type) or (
        callable(found) and not hasattr(found, "parameters") and not hasattr(found, "get_parameters")
    )
