"""Generated kernels on disk: one module a kernel, named by the hash of its source; numba keeps its machine code beside.

The folder is `$MINDSCOPE_CACHE`, by default `$XDG_CACHE_HOME/mindscope` or `~/.cache/mindscope`. A file is written
under another name and then renamed, so that readers and writers in other processes see a whole one or none. What
cannot be written or is damaged costs a compilation, never a run.
"""

import hashlib
import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

from ...kernels import exponential, slopes

__all__ = ["cache_folder", "kernel_from_source"]

_log = logging.getLogger(__name__)

# Whatever changes the machine code must change this text: its hash names the file beside which numba keeps the code.
_SOURCES = b"".join(Path(str(one.__file__)).read_bytes() for one in (exponential, slopes))
_INLINED = hashlib.sha256(_SOURCES).hexdigest()[:16]
_HEAD = f'''"""A fused kernel in exact arithmetic, generated; it may be deleted at any time.
Inlined: {_INLINED}."""
import numpy as np
from mindscope.framework.kernels.exponential import exp
from mindscope.framework.kernels.slopes import gelu_slope, silu_slope
'''


_KERNELS: dict[tuple[str, tuple[Any, ...]], Callable[..., None]] = {}


def cache_folder() -> Path:
    """Where compiled things are kept; it need not exist."""
    chosen = os.environ.get("MINDSCOPE_CACHE")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "mindscope"


def kernel_from_source(source: str, signature: tuple[Any, ...]) -> Callable[..., None]:
    """The compiled function `kernel` of the source, for arguments of these numba types; of equal ones the same."""
    key = (source, signature)
    if key not in _KERNELS:
        module, is_cached = _module(_HEAD + source)
        _KERNELS[key] = _compiled(module.kernel, signature, is_cached)
    return _KERNELS[key]


def _compiled(function: Callable[..., None], signature: tuple[Any, ...], is_cached: bool) -> Callable[..., None]:
    """The entry point for this signature: it takes the arguments as they are, without looking at their types."""
    # No fast arithmetic: an operation gives the same bits in every group that it may be fused into.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    kind = numba.void(*signature)
    if is_cached:
        try:
            return _entry(numba.njit(kind, cache=True, **options)(function))
        except Exception as error:  # noqa: BLE001 (a damaged cache raises whatever unpickling does)
            _log.info("the kernel cache in %s was of no use (%s); compiling", cache_folder(), error)
    return _entry(numba.njit(kind, **options)(function))


def _entry(dispatcher: Any) -> Callable[..., None]:  # numba's dispatchers have no public type
    (compiled,) = dispatcher.overloads.values()
    entry: Callable[..., None] = compiled.entry_point
    return entry


def _module(source: str) -> tuple[ModuleType, bool]:
    """The source as a module, and whether it stands in a file that numba can cache beside."""
    name = "mindscope_kernel_" + hashlib.sha256(source.encode()).hexdigest()[:24]
    if name in sys.modules:
        return sys.modules[name], True
    try:
        path = _written(name, source)
    except OSError as error:
        _log.info("kernels cannot be cached in %s (%s)", cache_folder(), error)
        module = ModuleType(name)
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
        return module, False
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba finds the function's globals there
    spec.loader.exec_module(module)
    return module, True


def _written(name: str, source: str) -> Path:
    """The file with this source; written now if it is missing or holds anything else."""
    folder = cache_folder() / "kernels"
    path = folder / f"{name}.py"
    if path.is_file() and path.read_text(encoding="utf-8") == source:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(source)
    os.replace(temporary, path)
    return path
