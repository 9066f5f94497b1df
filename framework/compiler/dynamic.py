"""`jit(..., dynamic=True)`: one capture for many lengths of the axes.

Lengths of 2 or more become symbols, equal ones the same symbol: they mostly are equal for a reason. What the code asks
of them and has no answer for all lengths (`if n > 5`, a weight of 6 columns that meets an axis of length n) is answered
by the lengths at hand and becomes a guard. A later call whose lengths keep the guards is served by the same graph, with
its lengths filled in: Python is not run again.

Reference:
    Equal lengths as one symbol is what PyTorch 2 calls duck shaping (Ansel et al. 2024, "PyTorch 2", section 4).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import EngineError
from ..ir import Graph
from ..ir.bind import bind
from ..shape import Spec
from ..symbolic import Assumption, Dim, assuming, unify
from .captured import Captured
from .guards import GuardSet
from .signature import Signature

__all__ = ["DynamicCapture"]


class _General(NamedTuple):
    """One capture for many lengths, and what it took for granted."""

    signature: Signature
    mode: tuple[bool, bool]
    captured: Captured
    guards: GuardSet
    assumptions: tuple[Assumption, ...]

    def lengths(self, signature: Signature, mode: tuple[bool, bool]) -> dict[str, int] | None:
        """The symbols' values for a call that this capture is good for; None for others."""
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
        """The graph for this signature, and whether Python was run for it.

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
        """The captured graphs, with symbolic lengths."""
        return tuple(general.captured.graph for general in self._known)


def _filled(captured: Captured, lengths: dict[str, int]) -> Captured:
    return captured._replace(graph=bind(captured.graph, lengths))


def _symbols(signature: Signature) -> tuple[Signature, dict[str, int]]:
    """The signature with a symbol for every length of 2 or more, and their values."""
    names: dict[int, Dim] = {}
    specs: list[Any] = []
    for spec in signature.specs:
        if isinstance(spec, Spec):
            shape: Any = tuple(
                length if length < 2 else names.setdefault(length, Dim(f"n{len(names)}")) for length in spec.shape
            )
            spec = Spec(shape, spec.dtype, weak=spec.weak)
        specs.append(spec)
    lengths = {str(name): length for length, name in names.items()}
    return Signature(signature.structure, tuple(specs), signature.needs), lengths
