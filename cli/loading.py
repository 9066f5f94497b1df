"""Models and samples named on the command line."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .failures import WrongUse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def load_model(reference: str) -> object:
    """The model behind `file.py:name` or `package.module:name`; a function of that name is called for it.

    Raises:
        WrongUse: There is no such file, module or name.
    """
    found = load_named(reference, what="a model")
    return found() if callable(found) and _is_maker(found) else found


def load_named(reference: str, *, what: str) -> object:
    """What stands behind `file.py:name` or `package.module:name`, as it is.

    Args:
        what: It is meant to be, for the error.

    Raises:
        WrongUse: There is no such file, module or name.
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
    specification.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise WrongUse(f"no module {error.name!r}; a file is named with its .py") from None


def _is_maker(found: object) -> bool:
    """Functions and classes make a model; what has parameters is one, although it can be called as well."""
    return isinstance(found, type) or (
        callable(found) and not hasattr(found, "parameters") and not hasattr(found, "get_parameters")
    )
