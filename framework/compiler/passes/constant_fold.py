"""What depends on constants alone, computed once at compile time."""

from typing import Any

import numpy as np

from ...errors import EngineError
from ...ir import Apply, Constant, Graph, Node
from ...primitive import Primitive
from ...shape import Spec
from ...tensor import Tensor, wrap
from ..rebuild import rebuild

__all__ = ["fold_constants"]

# A folded value is stored in the compiled function, so a larger one is only kept where it costs no more than
# what it is made of. Our choice.
_LARGEST_BYTES = 1 << 16


def fold_constants(graph: Graph) -> Graph:
    """In: any graph. Out: applications of primitives to constants are replaced by their (small) values.

    What raises is left for the run, where the error has its place; primitives that take a random key are left too.
    """
    return rebuild(graph, _folded)


def _folded(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    function = inputs[0]
    if not isinstance(function, Constant) or not isinstance(function.value, Primitive):
        return None
    if not all(isinstance(x, Constant) for x in inputs) or getattr(function.value, "is_effect", False):
        return None
    values = [_array(x.value) for x in inputs[1:] if isinstance(x, Constant)]
    if any(value is None for value in values) or not _is_small(node, values):
        return None
    try:
        with np.errstate(all="ignore"):
            result = function.value.evaluate(*values, **node.attributes)
    except (EngineError, ValueError, TypeError, IndexError, ZeroDivisionError):
        return None
    if isinstance(result, tuple):
        return None
    return Constant(wrap(np.array(result)), node.type)


def _array(value: Any) -> Any:  # a number stays one: it is a weak operand
    if isinstance(value, Tensor):
        return value._data
    return value if isinstance(value, np.ndarray | np.generic | bool | int | float | complex) else None


def _is_small(node: Apply, values: list[Any]) -> bool:
    if not isinstance(node.type, Spec):
        return False
    taken = sum(value.nbytes for value in values if isinstance(value, np.ndarray))
    made: int = node.type.size * node.type.dtype.itemsize
    return made <= max(_LARGEST_BYTES, taken)
