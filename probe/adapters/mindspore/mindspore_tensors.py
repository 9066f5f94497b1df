"""Where a MindSpore tensor lies, and the rest of what the hooks need to know of MindSpore's tensors.

Reading an address waits for the operations that are still in the queue of PyNative mode: what lies there is finished.
"""

from collections.abc import Iterable
from itertools import count
from operator import attrgetter
from typing import Any

import mindspore
from mindspore.graph.api import _pynative_executor as executor
from numpy.typing import NDArray

from ...kernels import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, readable
from ...tensor_access import Access, Node, Place, Tensor, Unsupported

CODES = {
    mindspore.float32: FLOAT32,
    mindspore.float64: FLOAT64,
    mindspore.float16: FLOAT16,
    mindspore.bfloat16: BFLOAT16,
}

# In-place operations leave a tensor's `_version` at 0 (2.10.0), so a tensor that is seen again counts as changed.
_versions = count()


def place_of(tensor: Tensor) -> tuple[Place, object]:
    """Return (address, size, code) of the tensor's values, and the object that keeps them there.

    Values that fill their memory in order are read where they lie; of others, and on other devices, NumPy makes a copy.

    Raises:
        Unsupported: The tensor is sparse, or its elements are not real numbers.
    """
    if not isinstance(tensor, mindspore.Tensor):
        raise Unsupported(f"{type(tensor).__name__} is not supported, only dense tensors are")
    code = CODES.get(tensor.dtype)
    if code is not None and tensor.is_contiguous() and tensor.device == "CPU":
        return (tensor.data_ptr() or 1, tensor.size, code), tensor
    try:
        data, code = readable(tensor.asnumpy())
    except TypeError as error:
        raise Unsupported(str(error)) from None
    return (data.ctypes.data or 1, data.size, code), data


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Return the values in their own shape and order, sharing memory where they can.

    Raises:
        Unsupported: The tensor is sparse.
    """
    if not isinstance(tensor, mindspore.Tensor):
        raise Unsupported(f"only dense tensors can be stored whole, got {type(tensor).__name__}")
    array: NDArray[Any] = tensor.asnumpy()
    return array


class _GraphNode:
    """A node of the graph of differentiation; MindSpore hands out a new object each time one is asked for."""

    __slots__ = ("_identity", "node")

    def __init__(self, node: Any) -> None:
        self.node = node
        self._identity = node._unique_id()

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _GraphNode) and other._identity == self._identity


def _node(tensor: Tensor) -> Node | None:
    node = tensor._grad_node
    return None if node is None else _GraphNode(node)


def _nodes_before(node: Node) -> Iterable[Node]:
    return [_GraphNode(before) for before, _ in node.node.next_functions if before is not None]


def _is_floating(tensor: Tensor) -> bool:
    return tensor.dtype in CODES


def _version(_tensor: Tensor) -> int:
    return next(_versions)


ACCESS = Access(
    kind=mindspore.Tensor,
    place=place_of,
    is_floating=_is_floating,
    version=_version,
    node=_node,
    before=_nodes_before,
    is_recording=executor.requires_grad,
    array=array_of,
    needs_gradient=attrgetter("_requires_grad"),
)
