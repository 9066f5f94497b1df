"""Primitives: named operations with evaluation, inference and differentiation side by side, all in one table.

A primitive is made of pure functions.

    evaluate(*arrays, **attributes)    -> array, or a tuple of arrays
    infer(*specs, **attributes)        -> Spec, or a tuple of Specs: shape and dtype without values
    vjp                                -> how gradients of the outputs become gradients of the inputs; either
        a tuple of rules, one an argument   rule(g, out, *inputs, **attributes) -> Tensor, None where none exists
        one joint rule                      rule(needs, g, out, *inputs, **attributes) -> one Tensor or None an argument
        NOT_DIFFERENTIABLE                  outputs never require a gradient

The rules work on tensors and are written with primitives, so that derivatives of any order come from the same table.
`out` is None unless the primitive says `saves_output`. Arguments are tensors or Python numbers: weak constants.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from .context import CAPTURE, QUIET, RECORDING
from .dtype import Dtype, bool_, complex64, float32, int64, is_inexact
from .errors import (
    ChangedTensorError,
    DataDependentShape,
    DtypeError,
    EngineError,
    FreedGraphError,
    NameTaken,
    ShapeError,
)
from .hooks import Hooks
from .random import Key
from .saved import SAVING, Packed, Shell, same_values
from .shape import Spec
from .tensor import Tensor, wrap

__all__ = ["NOT_DIFFERENTIABLE", "PRIMITIVES", "Node", "Primitive"]

# Rules take as many arguments as their primitive has.
Rule: TypeAlias = Callable[..., Any]

PRIMITIVES: "dict[str, Primitive]" = {}
NOT_DIFFERENTIABLE: tuple[Rule | None, ...] = ()

_order = count(1)


class Node:
    """One recorded application of a primitive: what its vjp needs on the way back."""

    __slots__ = ("attributes", "hooks", "inputs", "is_packed", "order", "outputs", "primitive", "size", "versions")

    def __init__(
        self,
        primitive: "Primitive",
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        outputs: Any,  # arrays (tensors of a class that intercepts primitives) or a tuple of them, None if not saved
        size: int,
    ) -> None:
        saving = SAVING.get()
        self.is_packed = saving is not None
        if saving is not None:
            inputs, outputs = saving.keep(inputs, outputs)
        self.primitive = primitive
        self.inputs: tuple[Any, ...] | None = inputs
        self.attributes = attributes
        self.outputs: Any = outputs
        self.size = size  # number of outputs
        self.order = next(_order)
        self.hooks: dict[int, Hooks] | None = None
        self.versions = tuple([x._version[0] if isinstance(x, Tensor) else 0 for x in inputs])

    def __lt__(self, other: "Node") -> bool:
        return self.order > other.order  # the latest first: the order of the way back, as a heap wants it

    def hooks_of(self, index: int) -> Hooks:
        """The hooks on output `index`."""
        if self.hooks is None:
            self.hooks = {}
        return self.hooks.setdefault(index, {})

    def saved_inputs(self) -> tuple[Any, ...]:
        """The arguments, if they are still here and unchanged."""
        inputs = self.inputs
        if inputs is None:
            raise FreedGraphError(
                f"the graph through '{self.primitive.name}' was freed by an earlier backward pass; "
                f"pass retain_graph=True to that one, or compute the result again"
            )
        for position, (x, version) in enumerate(zip(inputs, self.versions, strict=True)):
            if isinstance(x, Tensor) and x._version[0] != version:
                name = getattr(x, "name", "")
                who = f"argument {position} of '{self.primitive.name}'{f' (parameter {name!r})' if name else ''}"
                raise ChangedTensorError(
                    f"{who}, shape {x.shape}, was changed in place after it was used; "
                    f"go backward before the change, or compute the result again"
                )
        if self.is_packed:
            return tuple([x.full() if type(x) is Shell else x for x in inputs])
        return inputs

    def saved_output(self) -> Any:  # a tensor, a tuple of tensors, or None
        """The outputs as tensors that belong to this node, where the primitive saves them."""
        if self.outputs is None:
            return None
        if self.size == 1 and not isinstance(self.outputs, tuple):
            return _output(self.outputs, self, 0)
        return tuple(_output(array, self, index) for index, array in enumerate(self.outputs))

    def free(self) -> None:
        """Nothing; what was saved is let go."""
        self.inputs = None
        self.outputs = None


def _output(value: Any, node: Node, index: int) -> Tensor:
    """A tensor around an array (packed or not), or of the values of a tensor, at its place in the graph."""
    if isinstance(value, Tensor):
        result = same_values(value)
    else:
        result = wrap(value.array() if isinstance(value, Packed) else value)
    result._node = node
    result._index = index
    result.requires_grad = is_inexact(result.dtype)
    return result


def _wrapped(result: Any) -> Any:
    if type(result) is tuple:
        return tuple([wrap(array) for array in result])
    return wrap(np.asarray(result))


def _share_versions(made: Any, inputs: tuple[Any, ...]) -> None:
    """Nothing; results that share the memory of an input also share its count of changes in place."""
    for result in made if type(made) is tuple else (made,):
        array = result._data
        base = array.base
        for x in inputs:
            if isinstance(x, Tensor):
                of_input = x._data
                if of_input is array or (base is not None and (of_input is base or of_input.base is base)):
                    result._version = x._version
                    break


class Primitive:
    """One named operation; calling it evaluates, and records where a gradient may be asked for.

    Args:
        name: Its key in `PRIMITIVES`.
        evaluate: Arrays (and Python numbers) to an array or a tuple of arrays.
        infer: Specs to a Spec or a tuple of Specs.
        vjp: Rules as the module describes.
        saves_output: Whether the rules read `out`.
        is_effect: It does something besides its result: no pass of the compiler removes, copies or merges it.
    """

    __slots__ = ("_joint", "_rules", "evaluate", "infer", "is_differentiable", "is_effect", "name", "saves_output")

    def __init__(
        self,
        name: str,
        evaluate: Callable[..., Any],
        infer: Callable[..., Any],
        vjp: Sequence[Rule | None] | Rule,
        *,
        saves_output: bool = False,
        is_effect: bool = False,
    ) -> None:
        if name in PRIMITIVES:
            raise NameTaken(f"a primitive '{name}' is registered already; give the new one another name")
        self.name = name
        self.evaluate = evaluate
        self.infer = infer
        self._joint: Rule | None = vjp if callable(vjp) else None
        self._rules: tuple[Rule | None, ...] = () if callable(vjp) else tuple(vjp)
        self.is_differentiable = bool(self._joint or self._rules)
        self.saves_output = saves_output
        self.is_effect = is_effect
        PRIMITIVES[name] = self

    def __call__(self, *inputs: Any, **attributes: Any) -> Tensor:
        """The output; a primitive of several outputs is called by `several`."""
        tracked = False
        values = []
        for x in inputs:
            if isinstance(x, Tensor):
                if x.__fallback__ is not None:
                    return self._intercepted(inputs, attributes)  # type: ignore[no-any-return]
                values.append(x._data)
                if x.requires_grad:
                    tracked = True
            elif isinstance(x, Key) and x.__fallback__ is not None:
                return self._intercepted(inputs, attributes)  # type: ignore[no-any-return]
            else:
                values.append(x)
        capture = CAPTURE.get()
        if capture is not None:
            captured: Tensor = self._record_above(inputs, attributes, capture.apply(self, inputs, attributes))
            return captured
        try:
            if QUIET.get():
                result = self.evaluate(*values, **attributes)
            else:
                with np.errstate(all="ignore"):
                    result = self.evaluate(*values, **attributes)
        except (ValueError, TypeError, IndexError) as error:
            raise self._explain(error, values, attributes) from error
        made = (
            self._record(inputs, attributes, result)
            if tracked and self.is_differentiable and RECORDING.get()
            else wrap(result)
            if type(result) is np.ndarray
            else _wrapped(result)
        )
        if type(made) is tuple or made._data.base is not None or (values and made._data is values[0]):
            _share_versions(made, inputs)
        return made

    def several(self, *inputs: Any, **attributes: Any) -> tuple[Tensor, ...]:
        """The outputs of a primitive that has more than one."""
        return self(*inputs, **attributes)  # type: ignore[return-value]

    def _intercepted(self, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """What the first class of the inputs that handles this primitive makes of it, in order of priority."""
        kinds: dict[Any, None] = {
            type(x): None for x in inputs if isinstance(x, Tensor | Key) and x.__fallback__ is not None
        }
        for kind in sorted(kinds, key=lambda kind: -kind.__fallback_priority__):
            handler = kind.__fallback__
            result = NotImplemented if handler is None else handler(self, inputs, attributes)
            if result is not NotImplemented:
                return self._record_above(inputs, attributes, result)
        names = ", ".join(kind.__name__ for kind in kinds)
        raise DtypeError(f"'{self.name}' is not implemented by {names}; handle it in __fallback__, or pass a Tensor")

    def _record_above(self, inputs: tuple[Any, ...], attributes: dict[str, Any], result: Any) -> Any:
        """The result that an interception gave, recorded where an argument requires a gradient.

        The node holds the arguments and results as they are, tensors of the intercepting class: the way back is made of
        the same primitives and is intercepted in the same way.
        """
        if not self.is_differentiable or not RECORDING.get():
            return result
        if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        if not any(isinstance(y, Tensor) and is_inexact(y.dtype) for y in outputs):
            return result
        saved: Any = None
        if self.saves_output:
            saved = tuple([same_values(y) if isinstance(y, Tensor) else y for y in outputs])
            saved = saved if isinstance(result, tuple) else saved[0]
        node = Node(self, inputs, attributes, saved, len(outputs))
        placed = tuple([_output(y, node, i) if isinstance(y, Tensor) else y for i, y in enumerate(outputs)])
        return placed if isinstance(result, tuple) else placed[0]

    def _record(self, inputs: tuple[Any, ...], attributes: dict[str, Any], result: Any) -> Any:
        if type(result) is tuple:
            node = Node(self, inputs, attributes, result if self.saves_output else None, len(result))
            return tuple([_output(array, node, index) for index, array in enumerate(result)])
        if type(result) is not np.ndarray:
            result = np.asarray(result)
        if not is_inexact(result.dtype):
            return wrap(result)
        made = wrap(result)
        made._node = Node(self, inputs, attributes, result if self.saves_output else None, 1)
        made.requires_grad = True
        return made

    def pull_back(self, node: Node, inputs: tuple[Any, ...], needs: Sequence[bool], g: Any) -> Sequence[Tensor | None]:
        """The gradients of the arguments that need one, from the gradients `g` of the outputs."""
        out = node.saved_output()
        if self._joint is not None:
            return self._joint(needs, g, out, *inputs, **node.attributes)  # type: ignore[no-any-return]
        return [
            rule(g, out, *inputs, **node.attributes) if need and rule is not None else None
            for need, rule in zip(needs, self._rules, strict=True)
        ]

    def _explain(self, error: Exception, values: list[Any], attributes: dict[str, Any]) -> EngineError:
        """The error in the words of this primitive: what infer says, or else what NumPy said."""
        specs = [spec_of(value) for value in values]
        shapes = ", ".join(f"{s.shape} {s.dtype}" if isinstance(s, Spec) else type(s).__name__ for s in specs)
        reason: Exception = error
        try:
            self.infer(*specs, **attributes)
        except DataDependentShape:
            pass
        except EngineError as better:
            reason = better
        except (ValueError, TypeError, IndexError):
            pass
        plain = DtypeError if isinstance(reason, TypeError) else ShapeError
        kind = type(reason) if isinstance(reason, EngineError) else plain
        return kind(f"'{self.name}' cannot take {shapes}: {reason}")

    def __repr__(self) -> str:
        return f"Primitive({self.name!r})"


def spec_of(value: Any) -> Any:  # of an array, a tensor or a number a Spec; a key stands for itself
    """The shape and dtype of a value; a random key, which has neither, stands for itself."""
    if isinstance(value, bool):
        return Spec((), bool_, weak=True)
    if isinstance(value, int):
        return Spec((), int64, weak=True)
    if isinstance(value, float):
        return Spec((), float32, weak=True)
    if isinstance(value, complex):
        return Spec((), complex64, weak=True)
    if isinstance(value, Key):
        return value
    dtype: Dtype = value.dtype
    return Spec(tuple(value.shape), dtype)
