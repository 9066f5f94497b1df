"""One call of a model: its arguments, the tensors inside of them by name, and calls that differ in some of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributions import Distribution
from torch.nn.utils.rnn import PackedSequence

#: Inputs are kept up to this size together, 16 MiB: a check copies them several times. Our choice.
MOST_BYTES = 1 << 24
_MOST_TENSORS, _DEEPEST = 16, 4
_HALVES = frozenset({torch.float16, torch.bfloat16})


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The arguments of a call.

    Args:
        arguments: The positional ones.
        keywords: The others.
        names: Names of the positional ones, as the model's forward spells them.
        made: Names of the tensors that the program's networks have made, and gradients flow through.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    names: tuple[str, ...] = ()
    made: frozenset[str] = frozenset()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the plain tensors inside of the arguments by name, such as `x` or `batch[mask]`."""
        found: dict[str, torch.Tensor] = {}
        for at, argument in enumerate(self.arguments):
            found.update(_tensors(self._name(at), argument, 0))
        for name, argument in self.keywords.items():
            found.update(_tensors(name, argument, 0))
        return dict(list(found.items())[:_MOST_TENSORS])

    def replaced(self, changes: Mapping[str, torch.Tensor]) -> "ModelCall":
        """Return the same call with other tensors under these names."""
        arguments = tuple(_replaced(self._name(at), value, changes, 0) for at, value in enumerate(self.arguments))
        keywords = {name: _replaced(name, value, changes, 0) for name, value in self.keywords.items()}
        return ModelCall(arguments, keywords, self.names, self.made)

    def copied(self) -> "ModelCall | None":
        """Return the call with clones of its tensors; None if they are too large to keep."""
        tensors = self.tensors()
        if sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) > MOST_BYTES:
            return None
        made = frozenset(name for name, tensor in tensors.items() if tensor.grad_fn is not None)
        return replace(self.replaced({name: tensor.detach().clone() for name, tensor in tensors.items()}), made=made)

    def in_precision_of(self, model: torch.nn.Module) -> "ModelCall":
        """Return the call with float32 where autocast made float16 or bfloat16, if the model has no such weights."""
        held = {parameter.dtype for parameter in model.parameters()}
        if torch.float32 not in held or not held.isdisjoint(_HALVES):
            return self
        low = {name: tensor.float() for name, tensor in self.tensors().items() if tensor.dtype in _HALVES}
        return self.replaced(low) if low else self

    def _name(self, position: int) -> str:
        return self.names[position] if position < len(self.names) else f"argument {position}"


def input_words(name: str) -> str:
    """Return the input of this name in words; one that is called `input` has no other name."""
    first, bracket, inside = name.partition("[")
    return f"the input{bracket}{inside}" if first in ("input", "inputs") else f"the input {name}"


def call_of(model: torch.nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> ModelCall:
    """Return a call of this model with these arguments."""
    try:
        parameters = signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return ModelCall(arguments, keywords)
    plain = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return ModelCall(arguments, keywords, tuple([each.name for each in parameters if each.kind in plain]))


def _is_plain(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_meta


def _tensors(name: str, value: object, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        if _is_plain(value):
            yield name, value
    elif depth < _DEEPEST and isinstance(value, Mapping):
        for key, inner in value.items():
            if not (isinstance(inner, torch.Tensor) and inner.grad_fn is not None):  # written there by the model itself
                yield from _tensors(f"{name}[{key}]", inner, depth + 1)
    elif isinstance(value, PackedSequence):
        yield name, value.data  # what stands beside it says where its samples are
    elif depth < _DEEPEST and isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _tensors(f"{name}[{at}]", inner, depth + 1)


def _replaced(name: str, value: Any, changes: Mapping[str, torch.Tensor], depth: int) -> Any:
    if isinstance(value, torch.Tensor):
        return changes.get(name, value)
    if depth < _DEEPEST and type(value) is dict:
        return {key: _replaced(f"{name}[{key}]", inner, changes, depth + 1) for key, inner in value.items()}
    if isinstance(value, PackedSequence):
        return value._replace(data=changes.get(name, value.data))
    if depth < _DEEPEST and isinstance(value, list | tuple):
        items = [_replaced(f"{name}[{at}]", inner, changes, depth + 1) for at, inner in enumerate(value)]
        if type(value) in (list, tuple):
            return type(value)(items)
        return value._make(items) if hasattr(value, "_make") else value  # a named tuple
    return value


def outputs_of(value: object) -> Iterator[torch.Tensor]:
    """Yield the floating-point tensors that a model has returned, nested as they may be."""
    return (one for one in _tensors_in(value) if one.is_floating_point())


def whole_numbers_of(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors of whole numbers that a model has returned, such as lengths, nested as they may be."""
    return (one for one in _tensors_in(value) if not one.is_floating_point() and not one.is_complex())


def _tensors_in(value: object, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if _is_plain(value) and value.numel():
            yield value
    elif depth < _DEEPEST:
        for inner in _parts(value):
            yield from _tensors_in(inner, depth + 1)


def _parts(value: object) -> Iterable[object]:
    """Return what is inside of a collection, of an object of fields, or of a distribution: what tells it apart."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Distribution):
        return [vars(value).get(name) for name in (*value.arg_constraints, "base_dist")]
    if hasattr(value, "__dataclass_fields__") or isinstance(value, SimpleNamespace):
        return [getattr(value, name, None) for name in getattr(value, "__dataclass_fields__", None) or vars(value)]
    return ()


def has_same_tensors(earlier: Mapping[str, torch.Tensor] | None, tensors: Mapping[str, torch.Tensor]) -> bool:
    """Return whether two calls were given equal tensors under the same names; False where there is no earlier one."""
    if earlier is None or earlier.keys() != tensors.keys():
        return False
    return all(torch.equal(earlier[name], tensor) for name, tensor in tensors.items() if tensor.dim())
