"""Operators of one's own: C++ kernels compiled here, and functions of numba or NumPy, registered as primitives.

C++ is compiled with the system's compiler, cached by content, and called through a plain C interface. A kernel is a
function of C linkage that takes a table of arrays and fills the last of them:

    #include "mindscope.h"

    MINDSCOPE_KERNEL(scaled_sine) {            // (const Array* arrays, int count, const double* numbers) -> int
        const double* x = arrays[0].as<double>();
        double* y = arrays[1].as<double>();
        for (long long i = 0; i < arrays[0].size(); ++i) y[i] = numbers[0] * std::sin(x[i]);
        return 0;                              // anything else is an error number
    }
"""

import ctypes
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from functools import wraps
from hashlib import blake2b
from pathlib import Path

import numpy as np

from .errors import EngineError, ShapeError
from .ops.operands import as_tensor
from .primitive import NOT_DIFFERENTIABLE, Primitive, Rule
from .specs import Spec
from .tensor import Array, Tensor

__all__ = ["CompileError", "CustomOpBuilder", "custom_op"]

#: Specs of the inputs to the spec of the output.
Infer = Callable[..., Spec]


def custom_op(
    name: str,
    kernel: Callable[..., object],
    *,
    infer: Infer,
    vjp: Rule | Sequence[Rule | None] | None = None,
    out: bool = True,
) -> Callable[..., Tensor]:
    """Return an operator that computes with a kernel of one's own; it is recorded, compiled and mapped as any
    primitive.

    Args:
        name: Of the primitive; no other may have it.
        kernel: A function compiled by numba, or any function of arrays: `kernel(*inputs, out)` fills `out`, which has
            the inferred shape and dtype; with `out=False` it returns the result. Inputs are C-contiguous.
        infer: `infer(*specs, **attributes)`: shape and dtype of the result, `Spec(shape, dtype)`.
        vjp: Rules as `Primitive` describes them, made of tensor operations; None for no derivative.
        out: Whether the kernel fills an array that it is given.

    Returns:
        A function of tensors, and of attributes by keyword, which the kernel gets by keyword too.

    Raises:
        NameTaken: A primitive of that name stands already.
    """

    def evaluate(*arrays: Array | complex, **attributes: object) -> Array:
        given = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
        spec = infer(*(Spec(np.shape(x), np.asarray(x).dtype) for x in given), **attributes)
        if out:
            result = np.empty(spec.shape, spec.dtype)
            kernel(*given, result, **attributes)
            return result
        made = np.asarray(kernel(*given, **attributes))
        if made.shape != spec.shape or made.dtype != spec.dtype:
            raise ShapeError(
                f"the kernel of '{name}' returned {made.shape} {made.dtype}, but infer says {spec.shape} {spec.dtype}"
            )
        return made

    rules = NOT_DIFFERENTIABLE if vjp is None else vjp
    primitive = Primitive(name, evaluate, infer, rules)

    @wraps(kernel, assigned=("__doc__",), updated=())
    def operator(*inputs: object, **attributes: object) -> Tensor:
        return primitive(*(as_tensor(x) for x in inputs), **attributes)

    operator.__name__ = operator.__qualname__ = name
    return operator


_HEADER = """#pragma once
#include <cmath>
#include <cstdint>
struct Array {
    void* data; const long long* shape; int ndim; int itemsize;
    template <typename T> T* as() const { return static_cast<T*>(data); }
    long long size() const { long long n = 1; for (int i = 0; i < ndim; ++i) n *= shape[i]; return n; }
};
#if defined(_WIN32)
#define MINDSCOPE_EXPORT extern "C" __declspec(dllexport)
#else
#define MINDSCOPE_EXPORT extern "C" __attribute__((visibility("default")))
#endif
#define MINDSCOPE_KERNEL(name) MINDSCOPE_EXPORT int name(const Array* arrays, int count, const double* numbers)
"""
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")


class CompileError(EngineError, RuntimeError):
    """C++ that does not compile, or no compiler to do it; the message has the compiler's own, with file and line."""


class _Array(ctypes.Structure):
    """What the header calls Array."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_longlong)),
        ("ndim", ctypes.c_int),
        ("itemsize", ctypes.c_int),
    )


class CustomOpBuilder:
    """Compiles a file of C++ kernels and makes operators of them.

    Args:
        name: Of the library.
        sources: Files of C++; each may include "mindscope.h", which stands beside them when they are compiled.
        cflags: Further flags for the compiler.
        cache: Folder for compiled libraries; by default one for the user below the system's cache folder.

    Example:
        >>> library = CustomOpBuilder("waves", ["waves.cpp"]).load()
        >>> sine = library.operator("scaled_sine", infer=lambda x, factor: x, vjp=...)
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[str | Path] | str | Path,
        *,
        cflags: Sequence[str] = (),
        cache: str | Path | None = None,
    ) -> None:
        self.name = name
        given = [sources] if isinstance(sources, str | Path) else list(sources)
        self.sources = [Path(source) for source in given]
        for source in self.sources:
            if not source.is_file():
                raise CompileError(f"custom operators '{name}': there is no source file {source}")
        self._flags = (*_FLAGS, *cflags)
        self._cache = Path(cache) if cache is not None else _user_cache()

    def load(self) -> "_Library":
        """Return the compiled library; compiled only if these sources, flags and compiler have not been before.

        Raises:
            CompileError: No compiler was found, or it refused the sources.
        """
        compiler = find_compiler()
        target = self._cache / f"{self.name}-{self._digest(compiler)}.so"
        if not target.is_file():
            self._compile(compiler, target)
        return _Library(self.name, ctypes.CDLL(str(target)))

    def _digest(self, compiler: str) -> str:
        state = blake2b(digest_size=12)
        for part in (compiler, *self._flags, _HEADER, *(source.read_text(encoding="utf-8") for source in self.sources)):
            state.update(part.encode() + b"\0")
        return state.hexdigest()

    def _compile(self, compiler: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            (Path(folder) / "mindscope.h").write_text(_HEADER, encoding="utf-8")
            made = Path(folder) / target.name
            command = [compiler, *self._flags, f"-I{folder}", "-o", str(made), *map(str, self.sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompileError(f"custom operators '{self.name}' do not compile:\n{done.stderr.strip()}")
            os.replace(made, target)  # at once: another process may be compiling the same


def find_compiler() -> str:
    """Return the path of the system's C++ compiler: `CXX`, then Python's own, then the usual names.

    Raises:
        CompileError: There is none.
    """
    configured = str(sysconfig.get_config_var("CXX") or "").split()
    for name in (os.environ.get("CXX", ""), *configured[:1], "c++", "g++", "clang++"):
        found: str | None = shutil.which(name) if name else None
        if found:
            return found
    raise CompileError(
        "custom C++ operators need a compiler, and none of c++, g++ and clang++ is on the PATH; install one, or "
        "name it in the environment variable CXX"
    )


def _user_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mindscope" / "operators"


class _Library:
    """A loaded library of kernels."""

    def __init__(self, name: str, library: ctypes.CDLL) -> None:
        self.name, self._library = name, library

    def operator(
        self,
        name: str,
        *,
        infer: Callable[..., Spec],
        vjp: Rule | Sequence[Rule | None] | None = None,
        numbers: Sequence[str] = (),
    ) -> Callable[..., Tensor]:
        """Return an operator that runs the kernel of that name.

        Args:
            name: Of the kernel, and of the primitive.
            infer: `infer(*specs, **attributes)`: shape and dtype of the result.
            vjp: Rules as `Primitive` describes them; None for no derivative.
            numbers: Attributes, by keyword, that the kernel gets as `numbers`, in this order.

        Raises:
            CompileError: The library has no kernel of that name.
        """
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise CompileError(
                f"the library '{self.name}' has no kernel '{name}'; define it as MINDSCOPE_KERNEL({name})"
            ) from None
        function.restype = ctypes.c_int
        function.argtypes = (ctypes.POINTER(_Array), ctypes.c_int, ctypes.POINTER(ctypes.c_double))

        def kernel(*arrays: Array, **attributes: float) -> None:
            table, kept = _table([np.asarray(x) for x in arrays[:-1]] + [arrays[-1]])
            values = (ctypes.c_double * max(1, len(numbers)))(*(float(attributes[word]) for word in numbers))
            status = function(table, len(arrays), values)
            del kept
            if status:
                raise EngineError(f"the kernel '{name}' of '{self.name}' returned error {status}")

        return custom_op(name, kernel, infer=infer, vjp=vjp)


def _table(arrays: Sequence[Array]) -> tuple[ctypes.Array[_Array], list[object]]:
    """Return the arrays as the kernel sees them, and what must live while it looks."""
    shapes = [(ctypes.c_longlong * max(1, x.ndim))(*x.shape) for x in arrays]
    rows = [_Array(x.ctypes.data, shape, x.ndim, x.itemsize) for x, shape in zip(arrays, shapes, strict=True)]
    return (_Array * len(rows))(*rows), [*shapes, *arrays]
