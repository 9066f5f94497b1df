"""`jit`: a function that is captured once for every signature of its arguments and from then on runs as a graph.

Lengths of 2 or more become symbols, equal ones the same symbol: they mostly are equal for a reason. What the code asks
of them and has no answer for all lengths (`if n > 5`, a weight of 6 columns that meets an axis of length n) is answered
by the lengths at hand and becomes a guard. A later call whose lengths keep the guards is served by the same graph, with
its lengths filled in: Python is not run again.

Reference:
    Equal lengths as one symbol is what PyTorch 2 calls duck shaping (Ansel et al. 2024, "PyTorch 2", section 4).
"""

import logging
import warnings
from collections.abc import Callable, Collection
from copy import deepcopy
from difflib import get_close_matches
from functools import partial, update_wrapper
from importlib import import_module
from threading import RLock
from typing import Any, NamedTuple, cast

from ..context import CAPTURE, DEPTH, RECORDING
from ..errors import EngineError
from ..ir import Graph, OpaqueType
from ..ir.clone import bind
from ..specs import Shape, Spec
from ..symbolic import Assumption, Dim, assuming, unify
from ..tensor import Tensor
from .captured_graph import Apart, Captured
from .guards import GuardSet
from .pipeline import backend_named
from .signature import Leaf, Signature, flatten
from .specialisation import Options, Specialisation
from .traced import CaptureError, TracedTensor

__all__ = ["CAPTURE_MODES", "FALLBACKS", "Compiled", "DynamicCapture", "jit"]


class _General(NamedTuple):
    """One capture for many lengths, and what it took for granted."""

    signature: Signature
    mode: tuple[bool, bool]
    captured: Captured
    guards: GuardSet
    assumptions: tuple[Assumption, ...]

    def lengths(self, signature: Signature, mode: tuple[bool, bool]) -> dict[str, int] | None:
        """Return the symbols' values for a call that this capture is good for; None for others."""
        if (signature.structure, signature.needs, mode) != (self.signature.structure, self.signature.needs, self.mode):
            return None
        known: dict[str, int] = {}
        for general, spec in zip(self.signature.specs, signature.specs, strict=True):
            if not isinstance(general, Spec) or not isinstance(spec, Spec):
                if general != spec:
                    return None
            elif general.dtype != spec.dtype or not unify(general.shape, spec.shape, known):
                return None
        if any(length < 2 for length in known.values()) or not self.guards.hold():
            return None
        return known if all(assumption.holds(known) for assumption in self.assumptions) else None


class DynamicCapture:
    """Captures of one function, each for many lengths.

    Args:
        capture: Captures it for a signature.
    """

    def __init__(self, capture: Callable[[Signature], Captured]) -> None:
        self._capture = capture
        self._known: list[_General] = []

    def __call__(self, signature: Signature, mode: tuple[bool, bool]) -> tuple[Captured, bool]:
        """Return the graph for this signature, and whether Python was run for it.

        A function that cannot be captured for many lengths is captured for these alone.
        """
        for general in self._known:
            lengths = general.lengths(signature, mode)
            if lengths is not None:
                return _filled(general.captured, lengths), False
        symbolic, lengths = _symbols(signature)
        if lengths:
            try:
                with assuming(lengths) as assumptions:
                    captured = self._capture(symbolic)
            except (EngineError, TypeError, AttributeError):  # of code that a length must be a number for
                return self._capture(signature), True  # which tells what is wrong with concrete shapes
            made = tuple(dict.fromkeys(assumptions))
            self._known.append(_General(symbolic, mode, captured, GuardSet(captured.guards), made))
            return _filled(captured, lengths), True
        return self._capture(signature), True

    def graphs(self) -> tuple[Graph, ...]:
        """Return the captured graphs, with symbolic lengths."""
        return tuple(general.captured.graph for general in self._known)


def _filled(captured: Captured, lengths: dict[str, int]) -> Captured:
    return captured._replace(graph=bind(captured.graph, lengths))


def _symbols(signature: Signature) -> tuple[Signature, dict[str, int]]:
    """Return the signature with a symbol for every length of 2 or more, and their values."""
    names: dict[int, Dim] = {}
    specs: list[Spec | OpaqueType] = []
    for spec in signature.specs:
        if isinstance(spec, Spec):
            shape = tuple(
                length if length < 2 else names.setdefault(length, Dim(f"n{len(names)}")) for length in spec.shape
            )
            spec = Spec(cast("Shape", shape), spec.dtype, weak=spec.weak)
        specs.append(spec)
    lengths = {str(name): length for length, name in names.items()}
    return Signature(signature.structure, tuple(specs), signature.needs), lengths


_log = logging.getLogger(__name__)

#: Module and function of each way to capture: `(fn, signature) -> Captured`; loaded when first needed.
CAPTURE_MODES = {
    "ast": (".source", "capture_source"),
    "bytecode": (".bytecode", "capture_bytecode"),
    "trace": (".capture", "trace"),
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
        self._apart: dict[Signature, Callable[..., object]] = {}
        self._reasons: list[str] = []
        self._dynamic = DynamicCapture(self._captured)

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # as the function takes and returns
        """Return what the function returns."""
        if CAPTURE.get() is not None:
            return self._fn(*arguments, **options)
        last = self._last
        if last is not None and last.mode == (RECORDING.get(), DEPTH.get() > 0):
            arrays = last.enter(arguments, options)
            if arrays is not None:
                return last.run(arguments, options, arrays)
        return self._search(arguments, options)

    def _search(self, arguments: tuple[object, ...], options: dict[str, object]) -> object:
        """Return the result by another specialisation than the last, or by a new one."""
        leaves: list[Leaf] = []
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

    def _by_python(self, leaves: list[Leaf], arguments: tuple[object, ...], options: dict[str, object]) -> object:
        if any(isinstance(x, TracedTensor) for x in leaves):
            raise CaptureError(
                f"'{self._name}' was called with a tensor that a function captured earlier left behind; "
                f"return tensors from compiled functions instead of keeping them in lists, attributes or globals"
            )
        return self._fn(*arguments, **options)

    def _specialise(self, signature: Signature, mode: tuple[bool, bool]) -> Specialisation:
        """Return a new entry of the table."""
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
        """Return the capture for a signature, and whether Python was run for it."""
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
        """List why the function was compiled, once for each time, then every place where plain Python runs it."""
        places = [place for run in self._apart.values() for place in getattr(run, "places", tuple)()]
        return (*self._reasons, *dict.fromkeys(places))

    def graphs(self) -> tuple[Graph, ...]:
        """Return the captured graphs, in the order in which they were made."""
        return tuple(made.captured.graph for entries in self._table.values() for made in entries)

    def __get__(self, instance: object, owner: type | None = None) -> "Compiled":
        """Return a compiled method of the instance, which keeps it."""
        if instance is None:
            return self
        kept = instance.__dict__ if hasattr(instance, "__dict__") else {}
        place = f"_compiled_{getattr(self._fn, '__name__', '')}"
        bound = kept.get(place)
        if not isinstance(bound, _BoundCompiled) or bound.of is not self:
            bound = kept[place] = _BoundCompiled(self, self._with(self._fn.__get__(instance, owner)))
        return bound.method

    def _with(self, fn: Callable[..., object]) -> "Compiled":
        return Compiled(
            fn,
            capture_mode=self._mode,
            options=self._options,
            is_dynamic=self._is_dynamic,
            falls_back=self._falls_back,
        )

    def __deepcopy__(self, memo: dict[int, object]) -> "Compiled":
        return self._with(deepcopy(self._fn, memo))

    def __repr__(self) -> str:
        return f"jit({self._name}, capture_mode={self._mode!r})"


class _BoundCompiled:
    """A compiled method, as its instance keeps it; a copy of the instance makes its own."""

    __slots__ = ("method", "of")

    def __init__(self, of: Compiled, method: Compiled) -> None:
        self.of, self.method = of, method

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        return None


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    capture_mode: str = "ast",
    jit_level: str = "O1",
    dynamic: bool = False,
    backend: str = "numpy",
    fallback: str = "error",
) -> Any:  # what came in, compiled: a function, a method, a cell; or a decorator
    """Return the function, compiled; usable as a decorator, with or without arguments, on methods too.

    A call whose tensors have new shapes or dtypes, whose other arguments have new values, or before which something
    that the function had read outside of its arguments has changed, compiles it once more; `explain()` of the result
    tells why. Gradients flow through a compiled function as through any operation. Weights are read and written where
    they are. Called with tensors of classes that intercept primitives (inside `vmap`, on another device) it runs as
    plain Python; called while another function is compiled it becomes part of that one.

    Args:
        fn: A function of tensors, random keys, and nested tuples, lists and dicts of them; other arguments are
            constants. Or a cell, or a method.
        capture_mode: How Python becomes a graph. "ast": from its source; `if`, `while` and `for` over tensors become
            part of the graph. "bytecode": from what the interpreter would run; where values are needed the function is
            split. "trace": by running it once; a branch over a tensor is an error.
        jit_level: "O0" runs the graph as captured, "O1" optimises it.
        dynamic: Compile once for all lengths of the axes of the arguments; what is assumed of them is guarded.
        backend: A name known to `register_backend`.
        fallback: What is done with code that cannot be captured, such as a call that needs the values of a tensor.
            "error": a CaptureError names file, line, construct and remedy. "eager": the function runs as compiled
            pieces with plain Python between them, as with "bytecode"; `explain()` lists the places, the log says them
            once. A function that another compiled one calls becomes part of that, whose word counts.

    Raises:
        ValueError: An unknown word.
        CaptureError: When called: code that cannot be captured.

    Example:
        >>> step = jit(value_and_grad(loss_fn, None, net.trainable_params()))
        >>> loss, gradients = step(x, y)
    """
    _check("capture_mode", capture_mode, CAPTURE_MODES)
    _check("jit_level", jit_level, ("O0", "O1"))
    _check("fallback", fallback, FALLBACKS)
    try:
        backend_named(backend)
    except KeyError as error:
        raise ValueError(f"jit expects the name of a backend: {error.args[0]}") from error
    make = partial(
        Compiled,
        capture_mode=capture_mode,
        options=Options(jit_level, backend),
        is_dynamic=bool(dynamic),
        falls_back=fallback == "eager",
    )
    if fn is None:
        return make
    if not callable(fn):
        raise TypeError(f"jit expects a function, a method or a cell, got {type(fn).__name__}")
    return make(fn)


def _check(what: str, word: object, known: Collection[str]) -> None:
    if word in known:
        return
    near = get_close_matches(str(word), list(known), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} expects {' or '.join(map(repr, known))}, got {word!r}{hint}")
