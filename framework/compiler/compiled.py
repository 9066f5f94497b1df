"""A compiled function: the table of its specialisations, and the short way to the one that fits."""

import logging
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import update_wrapper
from importlib import import_module
from threading import RLock
from typing import Any

from ..context import CAPTURE, DEPTH, RECORDING
from ..errors import EngineError
from ..tensor import Tensor
from .captured import Apart, Captured
from .dynamic import DynamicCapture
from .signature import Signature, flatten
from .specialisation import Options, Specialisation
from .traced import CaptureError, TracedTensor

__all__ = ["CAPTURE_MODES", "FALLBACKS", "Compiled"]

_log = logging.getLogger(__name__)

#: Module and function of each way to capture: `(fn, signature) -> Captured`; loaded when first needed.
CAPTURE_MODES = {
    "ast": (".source", "capture_source"),
    "bytecode": (".bytecode", "capture_bytecode"),
    "trace": (".trace", "trace"),
}

#: What is done with code that cannot be captured.
FALLBACKS = ("error", "eager")

# Our choice: a function that needs more graphs than this is called with what should be a tensor, or `dynamic=True`.
_MANY = 32


class Compiled:
    """What `jit` returns: call it as the function it was made of.

    Args:
        fn: The function, or a cell.
        capture_mode: One of `CAPTURE_MODES`.
        options: For the compiler.
        is_dynamic: Lengths of axes are symbols.
        falls_back: What cannot be captured runs in plain Python, between compiled pieces.
        capture: In the place of the function of that mode.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        capture_mode: str,
        options: Options,
        is_dynamic: bool,
        falls_back: bool = False,
        capture: Callable[..., Captured] | None = None,
    ) -> None:
        update_wrapper(self, fn, updated=())
        self._fn = fn
        self._mode, self._options = capture_mode, options
        self._is_dynamic, self._falls_back = is_dynamic, falls_back
        self._table: dict[Signature, list[Specialisation]] = {}
        self._last: Specialisation | None = None
        self._lock = RLock()
        self._capture = capture
        self._apart: dict[Signature, Callable[..., Any]] = {}
        self._reasons: list[str] = []
        self._dynamic = DynamicCapture(self._captured)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the function returns."""
        if CAPTURE.get() is not None:
            return self._fn(*arguments, **options)
        last = self._last
        if last is not None and last.mode == (RECORDING.get(), DEPTH.get() > 0):
            arrays = last.enter(arguments, options)
            if arrays is not None:
                return last.run(arguments, options, arrays)
        return self._search(arguments, options)

    def _search(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The result by another specialisation than the last, or by a new one."""
        leaves: list[Any] = []
        structure = flatten((arguments, options), leaves)
        if any(isinstance(x, Tensor) and x.__fallback__ is not None for x in leaves):
            return self._by_python(leaves, arguments, options)
        signature = Signature.from_leaves(structure, leaves)
        mode = (RECORDING.get(), DEPTH.get() > 0)
        for known in self._table.get(signature, ()):
            if known.mode == mode:
                arrays = known.enter(arguments, options)
                if arrays is not None:
                    self._last = known
                    return known.run(arguments, options, arrays)
        if signature in self._apart:
            return self._apart[signature](arguments, options)
        with self._lock:
            try:
                made = self._specialise(signature, mode)
            except Apart as apart:
                self._reasons.append(f"it runs in pieces: {apart}")
                self._apart[signature] = apart.make(self._options)
                return self._apart[signature](arguments, options)
        arrays = made.enter(arguments, options)
        if arrays is None:
            raise CaptureError(
                f"what '{self._name}' was captured with changed while it was compiled "
                f"({made.differs(signature, mode)}); do not change it from another thread, or from inside"
            )
        self._last = made
        return made.run(arguments, options, arrays)

    def _by_python(self, leaves: list[Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if any(isinstance(x, TracedTensor) for x in leaves):
            raise CaptureError(
                f"'{self._name}' was called with a tensor that a function captured earlier left behind; "
                f"return tensors from compiled functions instead of keeping them in lists, attributes or globals"
            )
        return self._fn(*arguments, **options)

    def _specialise(self, signature: Signature, mode: tuple[bool, bool]) -> Specialisation:
        """A new entry of the table."""
        captured, is_new = self._whole(signature, mode)
        made = Specialisation(signature, captured, self._options, mode)
        if is_new:
            self._reasons.append(self._last.differs(signature, mode) if self._last is not None else "the first call")
        self._table.setdefault(signature, []).append(made)
        count = sum(map(len, self._table.values()))
        if count > _MANY:
            if len(self._reasons) == _MANY + 1:
                warnings.warn(
                    f"'{self._name}' was compiled {len(self._reasons)} times, the last time because "
                    f"{self._reasons[-1]}; pass what changes as a tensor, or compile with dynamic=True. "
                    f"Only {_MANY} graphs are kept",
                    RuntimeWarning,
                    stacklevel=4,
                )
            oldest = next(iter(self._table))
            self._table[oldest].pop(0)
            if not self._table[oldest]:
                del self._table[oldest]
        return made

    def _whole(self, signature: Signature, mode: tuple[bool, bool]) -> tuple[Captured, bool]:
        """The capture for a signature, and whether Python was run for it."""
        try:
            return self._dynamic(signature, mode) if self._is_dynamic else (self._captured(signature), True)
        except Exception as error:  # what the user's code raises, it raises again in plain Python
            if not self._falls_back or isinstance(error, Apart):
                raise
            refusal = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
        self._reasons.append(f"falls back to plain Python: {refusal}")
        _log.info("'%s' falls back to plain Python where it has to: %s", self._name, refusal)
        return self._captured(signature, "bytecode"), True

    def _captured(self, signature: Signature, mode: str = "") -> Captured:
        if self._capture is not None:
            return self._capture(self._fn, signature)
        module, function = CAPTURE_MODES[mode or self._mode]
        capture = getattr(import_module(module, __package__), function)
        captured: Captured = capture(self._fn, signature)
        return captured

    @property
    def _name(self) -> str:
        return getattr(self._fn, "__qualname__", type(self._fn).__name__)

    def explain(self) -> tuple[str, ...]:
        """Why the function was compiled, once for each time; then every place where plain Python runs it."""
        places = [place for run in self._apart.values() for place in getattr(run, "places", tuple)()]
        return (*self._reasons, *dict.fromkeys(places))

    def graphs(self) -> tuple[Any, ...]:
        """The captured graphs, in the order in which they were made."""
        return tuple(made.captured.graph for entries in self._table.values() for made in entries)

    def __get__(self, instance: Any, owner: type | None = None) -> "Compiled":
        """A compiled method of the instance, which keeps it."""
        if instance is None:
            return self
        kept = instance.__dict__ if hasattr(instance, "__dict__") else {}
        place = f"_compiled_{getattr(self._fn, '__name__', '')}"
        bound = kept.get(place)
        if not isinstance(bound, _Bound) or bound.of is not self:
            bound = kept[place] = _Bound(self, self._with(self._fn.__get__(instance, owner)))
        return bound.method

    def _with(self, fn: Callable[..., Any]) -> "Compiled":
        return Compiled(
            fn,
            capture_mode=self._mode,
            options=self._options,
            is_dynamic=self._is_dynamic,
            falls_back=self._falls_back,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "Compiled":
        return self._with(deepcopy(self._fn, memo))

    def __repr__(self) -> str:
        return f"jit({self._name}, capture_mode={self._mode!r})"


class _Bound:
    """A compiled method, as its instance keeps it; a copy of the instance makes its own."""

    __slots__ = ("method", "of")

    def __init__(self, of: Compiled, method: Compiled) -> None:
        self.of, self.method = of, method

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None
