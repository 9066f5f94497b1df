"""The engine's exceptions.

EngineError
    ShapeError (ValueError)      shapes that do not fit together
    DtypeError (TypeError)       dtypes an operation cannot take
    GradientError (RuntimeError) differentiation that cannot be done as asked
        FreedGraphError          a second way back through a graph that was freed by the first
        ChangedTensorError       a tensor needed for the gradient was changed in place
    DataDependentShape (TypeError) a shape that only the values tell
    NumericalError (ValueError)  values for which there is no answer: a singular matrix
    NameTaken (ValueError)       a name registered twice
"""

from typing import Self

__all__ = [
    "ChangedTensorError",
    "DataDependentShape",
    "DtypeError",
    "EngineError",
    "FreedGraphError",
    "GradientError",
    "NameTaken",
    "NumericalError",
    "ShapeError",
]


class EngineError(Exception):
    """What every exception of the engine derives from; it can name the cell that was running."""

    site: str | None = None

    def at(self, site: str) -> Self:
        """Return this error, with the innermost running cell named in front of its message (the first name stays)."""
        if self.site is None:
            self.site = site
            self.args = (f"in cell '{site}': {self.args[0] if self.args else ''}", *self.args[1:])
        return self


class ShapeError(EngineError, ValueError):
    """Shapes that do not fit together."""


class DtypeError(EngineError, TypeError):
    """A dtype that an operation cannot take."""


class DataDependentShape(EngineError, TypeError):
    """The shape of a result depends on values, which inference does not have."""

    @classmethod
    def of(cls, what: str, instead: str) -> Self:
        """Return the error of that operation, with what to use where shapes must be known."""
        return cls(
            f"the shape of {what} depends on the data, so it cannot be inferred or compiled; "
            f"use {instead}, or run this part eagerly"
        )


class GradientError(EngineError, RuntimeError):
    """A gradient that cannot be computed as asked."""


class FreedGraphError(GradientError):
    """The recorded graph was freed by an earlier backward pass."""


class ChangedTensorError(GradientError):
    """A tensor that the gradient needs was changed in place after it was used."""


class NumericalError(EngineError, ValueError):
    """Values for which an operation has no answer, such as a singular matrix to be inverted."""


class NameTaken(EngineError, ValueError):
    """A name that is registered already."""
