"""The array of logits among the several things that a model may return."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from ..array_api import Array
from ..errors import InvalidModel


class OutputField:
    """The one array of logits among what a model returns.

    Args:
        name: Key, attribute or index of a dict, named tuple, dataclass or tuple; None finds the only one that fits, and
            takes it from then on.
    """

    def __init__(self, name: str | int | None) -> None:
        self._name = name

    def of(self, output: object, samples: int) -> Array:
        """Return the array.

        Raises:
            InvalidModel: There is no such field, or not exactly one that may hold logits of so many samples.
        """
        parts = _fields(output)
        if parts is None:
            if self._name is not None and not _is_array(output):
                raise InvalidModel(f"output={self._name!r} names a field, but the model returns a {_type(output)}")
            return output
        if self._name is None:
            self._name = _only_fitting(output, parts, samples)
        if isinstance(self._name, int) and self._name not in parts and -len(parts) <= self._name < len(parts):
            return list(parts.values())[self._name]
        if self._name not in parts:
            raise InvalidModel(f"the model returns no {self._name!r}; it returns {_listed(parts)}")
        return parts[self._name]

    def is_empty(self, output: Array) -> bool:
        """Return False: logits are never without a gradient unless the model hides it."""
        return False


def _fields(output: object) -> dict[str | int, Array] | None:
    """Return the parts of a structure by name or index, None for anything else."""
    if isinstance(output, Mapping):
        return dict(output)
    if isinstance(output, tuple) and hasattr(output, "_asdict"):
        return dict(output._asdict())
    if isinstance(output, tuple) or (isinstance(output, list) and output and all(map(_is_array, output))):
        return dict(enumerate(output))
    if is_dataclass(output) and not isinstance(output, type) and not _is_array(output):
        return {field.name: getattr(output, field.name) for field in fields(output)}
    return None


def _only_fitting(output: object, parts: Mapping[str | int, Array], samples: int) -> str | int:
    arrays = {name: tuple(part.shape) for name, part in parts.items() if _is_array(part)}
    rows = [name for name, shape in arrays.items() if len(shape) == 2 and shape[0] == samples and shape[1] > 1]
    columns = [name for name, shape in arrays.items() if shape in ((samples,), (samples, 1))]
    deep = [name for name, shape in arrays.items() if len(shape) > 2 and shape[0] == samples]
    fitting = rows or columns or deep
    if len(fitting) == 1:
        return fitting[0]
    number = "several" if fitting else "none"
    raise InvalidModel(
        f"the model returns a {_type(output)} of {_listed(parts)}, {number} of which may be logits "
        f"({samples}, classes); name the field: wrap(model, output='logits'), or output=0 for the first"
    )


def _listed(parts: Mapping[str | int, Array]) -> str:
    return ", ".join(f"{name} {tuple(part.shape) if _is_array(part) else _type(part)}" for name, part in parts.items())


def _is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _type(value: object) -> str:
    return type(value).__name__
