"""Loads NumPy with the number of threads that a script sets at its top, since it is loaded before the script runs.

NumPy's BLAS reads `OMP_NUM_THREADS` and the like once, as it is loaded. The assignments that a script makes before it
imports anything are read from its text, as far as they are plain; for whatever else it sets, a remark says that it came
too late. The script itself finds the environment as it was.
"""

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

__all__ = ["came_too_late", "load_numpy_for", "settings_of"]

#: What the BLAS libraries that NumPy is built with read as they are loaded.
_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def load_numpy_for(words: list[str]) -> dict[str, str]:
    """Import NumPy as if the script had set its thread variables before; return those that NumPy was loaded with.

    Args:
        words: The script's path, or `-m` and its module, and its arguments.
    """
    before = _current()
    if "numpy" not in sys.modules and (path := _path_of(words)) is not None:
        try:
            os.environ.update(settings_of(path.read_text(encoding="utf-8"), before))
            import_module("numpy")
        except (OSError, SyntaxError, ValueError):
            pass  # whoever runs the script says what is wrong with it
        finally:
            loaded = _current()
            for name in loaded.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)
        return loaded
    return before


def came_too_late(loaded: Mapping[str, str]) -> str:
    """Return a remark on variables that the script has set otherwise than NumPy was loaded with; empty without any."""
    now = _current()
    late = [f"{name}={now[name]}" for name in _VARIABLES if name in now and now[name] != loaded.get(name)]
    if not late:
        return ""
    return (
        f"the script has set {', '.join(late)}, but NumPy was loaded before it and keeps its threads; set such a "
        "variable in the shell, or by plain assignments to os.environ at the top of the script, before its imports"
    )


def settings_of(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the thread variables that a script sets at its top, before it imports anything but the standard library.

    Args:
        text: The script's.
        environment: As it is when the script begins, for `setdefault`.

    Raises:
        SyntaxError: The text is no Python.
    """
    found: dict[str, str] = {}
    for name, value, is_default in _assignments(ast.parse(text).body, {}):
        if name in _VARIABLES and not (is_default and (name in found or name in environment)):
            found[name] = value
    return found


def _current() -> dict[str, str]:
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def _path_of(words: list[str]) -> Path | None:
    """Return the file that is run; of a module the one below the working directory, which is looked for first."""
    if words[0] != "-m":
        return Path(words[0])
    base = Path(*words[1].split(".")) if len(words) > 1 else Path()
    return next((path for path in (base.with_suffix(".py"), base / "__main__.py") if path.is_file()), None)


def _assignments(body: list[ast.stmt], names: dict[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield name, value, and whether it is a default only, up to the first import from outside the standard library."""
    for statement in body:
        if _imports_others(statement):
            return
        if isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
            for element in statement.iter.elts if isinstance(statement.iter, ast.Tuple | ast.List) else ():
                if (value := _text(element, names)) is not None:
                    yield from _assignments(statement.body, {**names, statement.target.id: value})
        elif isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name):
            if (value := _text(statement.value, names)) is not None:
                names[target.id] = value
        else:
            for key, given, is_default in _pairs(statement):
                name, value = _text(key, names), _text(given, names)
                if name is not None and value is not None:
                    yield name, value, is_default


def _imports_others(statement: ast.stmt) -> bool:
    for node in ast.walk(statement):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
        if any(module.partition(".")[0] not in sys.stdlib_module_names for module in modules):
            return True
    return False


def _pairs(statement: ast.stmt) -> Iterator[tuple[ast.expr | None, ast.expr, bool]]:
    """Yield what the statement puts into `os.environ`: key, value, and whether as a default only."""
    if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Subscript):
        if _is_environment(target.value):
            yield target.slice, statement.value, False
    elif isinstance(statement, ast.AugAssign) and _is_environment(statement.target):
        yield from _of_dictionary(statement.value)
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        function = call.func
        if not isinstance(function, ast.Attribute) or not _is_environment(function.value):
            return
        if function.attr == "setdefault" and len(call.args) == 2:
            yield call.args[0], call.args[1], True
        elif function.attr == "update":
            yield from (pair for argument in call.args for pair in _of_dictionary(argument))
            yield from ((ast.Constant(one.arg), one.value, False) for one in call.keywords)


def _of_dictionary(node: ast.expr) -> Iterator[tuple[ast.expr | None, ast.expr, bool]]:
    if isinstance(node, ast.Dict):
        yield from ((key, value, False) for key, value in zip(node.keys, node.values, strict=True))


def _is_environment(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id == "environ"
    )


def _text(node: ast.expr | None, names: Mapping[str, str]) -> str | None:
    """Return the string that an expression plainly is; None of any other expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int):
        return str(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
        return _text(node.args[0], names)
    return None
