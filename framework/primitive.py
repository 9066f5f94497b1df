"""Primitives: named operations with evaluation, inference and differentiation side by side, all in one table.

A primitive is made of pure functions.

    evaluate(*arrays, **attributes)    -> array, or a tuple of arrays
    infer(*specs, **attributes)        -> Spec, or a tuple of Specs: shape and dtype without values
    vjp                                -> how gradients of the outputs become gradients of the inputs; either
        a tuple of rules, one an argument   rule(g, out, *inputs, **attributes) -> Tensor, None where none exists
        one joint rule                      rule(needs, g, out, *inputs, **attributes) -> one Tensor or None an argument
        NOT_DIFFERENTIABLE                  outputs never require a gradient
    eager_vjp(needs, g, out, *inputs, **attributes)
                                       -> one array or None an argument: the bits that `vjp` gives, from arrays;
                                          or NotImplemented, and the rules of `vjp` do it

The rules of `vjp` work on tensors and are written with primitives, so that derivatives of any order come from the same
table. `eager_vjp` is a shortcut for the operations that small networks are made of: a way back that nobody records,
captures or intercepts spends most of its time between the primitives of their rules.
`out` is None unless the primitive says `saves_output`. Arguments are tensors or Python numbers: weak constants.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .context import CAPTURE, QUIET, RECORDING
from .dtype import is_inexact
from .errors import DtypeError, NameTaken
from .random import Key
from .specs import evaluation_error
from .tape_node import Gradient, TapeNode, attach_output, unrecorded_alias
from .tensor import Tensor, wrap

__all__ = ["NOT_DIFFERENTIABLE", "PRIMITIVES", "Primitive"]

# Rules take as many arguments as their primitive has.
Rule: TypeAlias = Callable[..., Any]
#: What a primitive returns: a tensor, or a tuple of them if it has several outputs.
Results: TypeAlias = Tensor | tuple[Tensor, ...]

PRIMITIVES: "dict[str, Primitive]" = {}
NOT_DIFFERENTIABLE: tuple[Rule | None, ...] = ()


class Primitive:
    """One named operation; calling it evaluates, and records where a gradient may be asked for.

    Args:
        name: Its key in `PRIMITIVES`.
        evaluate: Arrays (and Python numbers) to an array or a tuple of arrays.
        infer: Specs to a Spec or a tuple of Specs.
        vjp: Rules as the module describes.
        eager_vjp: The shortcut that the module describes; only for one output.
        saves_output: Whether the rules read `out`.
        is_effect: It does something besides its result: no pass of the compiler removes, copies or merges it.
    """

    __slots__ = (
        "_joint",
        "_rules",
        "eager_vjp",
        "evaluate",
        "infer",
        "is_differentiable",
        "is_effect",
        "name",
        "saves_output",
    )

    def __init__(
        self,
        name: str,
        evaluate: Callable[..., Any],
        infer: Callable[..., Any],
        vjp: Sequence[Rule | None] | Rule,
        *,
        eager_vjp: Rule | None = None,
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
        self.eager_vjp = eager_vjp
        self.is_differentiable = bool(self._joint or self._rules)
        self.saves_output = saves_output
        self.is_effect = is_effect
        PRIMITIVES[name] = self

    def __call__(self, *inputs: object, **attributes: object) -> Tensor:
        """Return the output; a primitive of several outputs is called by `several`."""
        tracked = False
        values: list[object] = []
        for x in inputs:
            if isinstance(x, Tensor):
                if x.__fallback__ is not None:
                    return call_fallback(self, inputs, attributes)  # type: ignore[no-any-return]
                values.append(x._data)
                if x.requires_grad:
                    tracked = True
            elif isinstance(x, Key) and x.__fallback__ is not None:
                return call_fallback(self, inputs, attributes)  # type: ignore[no-any-return]
            else:
                values.append(x)
        capture = CAPTURE.get()
        if capture is not None:
            captured: Tensor = record_intercepted(self, inputs, attributes, capture.apply(self, inputs, attributes))
            return captured
        try:
            if QUIET.get():
                result = self.evaluate(*values, **attributes)
            else:
                with np.errstate(all="ignore"):
                    result = self.evaluate(*values, **attributes)
        except (ValueError, TypeError, IndexError) as error:
            raise evaluation_error(self.name, self.infer, values, attributes, error) from error
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

    def several(self, *inputs: object, **attributes: object) -> tuple[Tensor, ...]:
        """Return the outputs of a primitive that has more than one."""
        return self(*inputs, **attributes)  # type: ignore[return-value]

    def _record(self, inputs: tuple[object, ...], attributes: dict[str, object], result: object) -> Any:
        if type(result) is tuple:
            node = TapeNode(self, inputs, attributes, result if self.saves_output else None, len(result))
            return tuple([attach_output(array, node, index) for index, array in enumerate(result)])
        if type(result) is not np.ndarray:
            result = np.asarray(result)
        made = wrap(result)
        if not is_inexact(result.dtype):
            return made
        node = TapeNode(self, inputs, attributes, result if self.saves_output else None, 1)
        if not node.is_packed:
            node.eager_vjp = self.eager_vjp
        made._node = node
        made.requires_grad = True
        return made

    def pull_back(
        self, node: TapeNode, inputs: tuple[object, ...], needs: Sequence[bool], g: Gradient
    ) -> Sequence[Tensor | None]:
        """Return the gradients of the arguments that need one, from the gradients `g` of the outputs."""
        out = node.saved_output()
        if self._joint is not None:
            return self._joint(needs, g, out, *inputs, **node.attributes)  # type: ignore[no-any-return]
        return [
            rule(g, out, *inputs, **node.attributes) if need and rule is not None else None
            for need, rule in zip(needs, self._rules, strict=True)
        ]

    def __repr__(self) -> str:
        return f"Primitive({self.name!r})"


def _wrapped(result: object) -> Any:
    if type(result) is tuple:
        return tuple([wrap(array) for array in result])
    return wrap(np.asarray(result))


def _share_versions(made: Any, inputs: tuple[object, ...]) -> None:
    """Let results that share the memory of an input also share its count of changes in place."""
    for result in made if type(made) is tuple else (made,):
        array = result._data
        base = array.base
        for x in inputs:
            if isinstance(x, Tensor):
                of_input = x._data
                if of_input is array or (base is not None and (of_input is base or of_input.base is base)):
                    result._version = x._version
                    break


def call_fallback(primitive: Primitive, inputs: tuple[object, ...], attributes: dict[str, object]) -> Any:
    """Return what the first class of the inputs that handles this primitive makes of it, in order of priority."""
    kinds: dict[type[Any], None] = {
        type(x): None for x in inputs if isinstance(x, Tensor | Key) and x.__fallback__ is not None
    }
    for kind in sorted(kinds, key=lambda kind: -kind.__fallback_priority__):
        handler = kind.__fallback__
        result = NotImplemented if handler is None else handler(primitive, inputs, attributes)
        if result is not NotImplemented:
            return record_intercepted(primitive, inputs, attributes, result)
    names = ", ".join(kind.__name__ for kind in kinds)
    raise DtypeError(f"'{primitive.name}' is not implemented by {names}; handle it in __fallback__, or pass a Tensor")


def record_intercepted(
    primitive: Primitive, inputs: tuple[object, ...], attributes: dict[str, object], result: object
) -> Any:
    """Return the result that an interception gave, recorded where an argument requires a gradient.

    The node holds the arguments and results as they are, tensors of the intercepting class: the way back is made of
    the same primitives and is intercepted in the same way.
    """
    if not primitive.is_differentiable or not RECORDING.get():
        return result
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        return result
    outputs = result if isinstance(result, tuple) else (result,)
    if not any(isinstance(y, Tensor) and is_inexact(y.dtype) for y in outputs):
        return result
    saved: object = None
    if primitive.saves_output:
        saved = tuple([unrecorded_alias(y) if isinstance(y, Tensor) else y for y in outputs])
        saved = saved if isinstance(result, tuple) else saved[0]
    node = TapeNode(primitive, inputs, attributes, saved, len(outputs))
    placed = tuple([attach_output(y, node, i) if isinstance(y, Tensor) else y for i, y in enumerate(outputs)])
    return placed if isinstance(result, tuple) else placed[0]
