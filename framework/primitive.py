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
from .errors import NameTaken
from .interception import intercepted, record_above
from .node import Node, output_of
from .random import Key
from .specs import refusal
from .tensor import Tensor, wrap

__all__ = ["NOT_DIFFERENTIABLE", "PRIMITIVES", "Primitive"]

# Rules take as many arguments as their primitive has.
Rule: TypeAlias = Callable[..., Any]

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

    def __call__(self, *inputs: Any, **attributes: Any) -> Tensor:
        """The output; a primitive of several outputs is called by `several`."""
        tracked = False
        values = []
        for x in inputs:
            if isinstance(x, Tensor):
                if x.__fallback__ is not None:
                    return intercepted(self, inputs, attributes)  # type: ignore[no-any-return]
                values.append(x._data)
                if x.requires_grad:
                    tracked = True
            elif isinstance(x, Key) and x.__fallback__ is not None:
                return intercepted(self, inputs, attributes)  # type: ignore[no-any-return]
            else:
                values.append(x)
        capture = CAPTURE.get()
        if capture is not None:
            captured: Tensor = record_above(self, inputs, attributes, capture.apply(self, inputs, attributes))
            return captured
        try:
            if QUIET.get():
                result = self.evaluate(*values, **attributes)
            else:
                with np.errstate(all="ignore"):
                    result = self.evaluate(*values, **attributes)
        except (ValueError, TypeError, IndexError) as error:
            raise refusal(self, values, attributes, error) from error
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

    def _record(self, inputs: tuple[Any, ...], attributes: dict[str, Any], result: Any) -> Any:
        if type(result) is tuple:
            node = Node(self, inputs, attributes, result if self.saves_output else None, len(result))
            return tuple([output_of(array, node, index) for index, array in enumerate(result)])
        if type(result) is not np.ndarray:
            result = np.asarray(result)
        made = wrap(result)
        if not is_inexact(result.dtype):
            return made
        node = Node(self, inputs, attributes, result if self.saves_output else None, 1)
        if not node.is_packed:
            node.eager_vjp = self.eager_vjp
        made._node = node
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

    def __repr__(self) -> str:
        return f"Primitive({self.name!r})"


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
