"""Graphs in files: the text of the graph and, beside it, its tensors, in one safetensors file.

Any reader of safetensors opens such a file: its metadata hold, as JSON under `mindir`,

    version    of this layout
    graph      the text, as `printer` writes it
    table      what `$0`, `$1`, ... of the text stand for: {"weight": name, "trained": bool} or {"tensor": dtype, shape}

and its tensors are called by their number in the table, weights by their names. Nothing in it is ever executed: text is
parsed, and names of operations are looked up.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as save_arrays

from ..dtype import as_dtype, bfloat16, is_complex, real_dtype
from ..errors import EngineError
from ..tensor import Array, Parameter, Tensor
from ..whole_file import write_whole
from .clone import clone
from .ir_graph import Apply, ConstantNode, Graph, Node
from .parser import ParseError, parse
from .printer import to_text
from .verify import VerifyError, verify
from .visit import Scopes

__all__ = ["MindIRError", "load", "save"]

#: Raise it when old files can no longer be read as they were meant.
_VERSION = 1
_KEY = "mindir"
#: Element types as safetensors calls them; complex numbers are stored as pairs.
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "I8": "int8", "I16": "int16",
    "I32": "int32", "I64": "int64", "F16": "float16", "BF16": bfloat16, "F32": "float32", "F64": "float64",
}  # fmt: skip
#: Operations that are only there for who watches; a file is watched by nobody.
_PASSED_BY = ("mark", "mark_gradient", "observe", "observe_gradient", "segment")


class MindIRError(EngineError, ValueError):
    """A graph that cannot be written to a file, or a file that holds none."""


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write the graph and the values of its weights to the file; if anything fails, the file keeps what it held.

    Marks of cells and observers are left out.

    Raises:
        MindIRError: The graph uses something that only this process has: a hook, a Python function.
        OSError: The file cannot be written.
    """
    bare = _unwatched(graph)
    aside: list[object] = []
    text = to_text(bare, aside)
    arrays: dict[str, Array] = {}
    table = [_entry(value, number, arrays, bare) for number, value in enumerate(aside)]
    content = {"version": _VERSION, "graph": text, "table": table}
    write_whole(Path(path), save_arrays(arrays, {_KEY: json.dumps(content)}))


def load(path: str | os.PathLike[str]) -> Graph:
    """Return the graph in a file; its weights are new parameters.

    Raises:
        MindIRError: The file is no MindIR file of this engine, is cut short or damaged, was written by a newer version,
            or needs an operation that is not there.
        FileNotFoundError: There is no file.
    """
    try:
        raw = Path(path).read_bytes()
        content = json.loads(_metadata(raw)[_KEY])
        version = content["version"]
    except (SafetensorError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise MindIRError(
            f"'{path}' cannot be read as a MindIR file ({error}); it is none, or was cut short or damaged: export the "
            f"network again"
        ) from error
    if version != _VERSION:
        raise MindIRError(
            f"'{path}' has version {version!r} of the MindIR layout, this engine reads version {_VERSION}; "
            f"{'update the engine' if isinstance(version, int) and version > _VERSION else 'export the network again'}"
        )
    try:
        arrays = _arrays(raw)
        table = [_value(entry, number, arrays) for number, entry in enumerate(content["table"])]
        return verify(parse(content["graph"], table))
    except (
        SafetensorError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        kind = "needs what this engine does not have" if isinstance(error, ParseError) else "is damaged"
        if isinstance(error, VerifyError):
            kind = "holds a graph that is not well formed"
        raise MindIRError(f"'{path}' {kind}: {error}") from error


def _metadata(raw: bytes) -> dict[str, str]:
    """Return the strings in a safetensors file."""
    deserialize(raw)  # type: ignore[no-untyped-call] # checks lengths and offsets
    length = int.from_bytes(raw[:8], "little")
    found: dict[str, str] = json.loads(raw[8 : 8 + length])["__metadata__"]
    return found


def _arrays(raw: bytes) -> dict[str, Array]:
    """Return the arrays in a safetensors file; its NumPy reader knows no bfloat16."""
    found = {}
    for name, entry in deserialize(raw):  # type: ignore[no-untyped-call] # of a compiled module
        found[name] = np.frombuffer(bytearray(entry["data"]), _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def _entry(value: object, number: int, arrays: dict[str, Array], graph: Graph) -> dict[str, object]:
    """Return what the table says of a value, whose array goes to the others."""
    if isinstance(value, Parameter):
        name = value.name or str(number)
        if name in arrays:
            raise MindIRError(f"'{graph.name}' has two weights called '{name}'; give them names of their own")
        arrays[name] = _storable(value.numpy())
        return {"weight": name, "trained": value.requires_grad, "dtype": str(value.dtype), "shape": value.shape}
    if isinstance(value, Tensor | np.ndarray):
        array = value.numpy() if isinstance(value, Tensor) else value
        arrays[str(number)] = _storable(array)
        return {"tensor": str(number), "dtype": str(array.dtype), "shape": array.shape}
    users = [node for inner in Scopes(graph).graphs for node in Scopes(graph).order(inner) if _uses(node, value)]
    where = f" ({users[0].where}, {users[0]!r})" if users else ""
    raise MindIRError(
        f"'{graph.name}' uses {value!r}{where}, which lives in this process and cannot be written to a file; "
        f"remove the hook or the call of Python code before exporting"
    )


def _uses(node: Apply, value: object) -> bool:
    constants = [x.value for x in node.arguments if isinstance(x, ConstantNode)]
    return any(x is value for x in (*node.attributes.values(), *constants))


def _storable(array: Array) -> Array:
    """Return the array as safetensors can hold it: complex numbers as pairs of real ones."""
    array = np.asarray(array, order="C")
    if is_complex(array.dtype):
        return array.reshape(*array.shape, 1).view(real_dtype(array.dtype))
    return array


def _value(entry: dict[str, Any], number: int, arrays: dict[str, Array]) -> object:
    dtype, shape = as_dtype(entry["dtype"]), tuple(entry["shape"])
    name = entry.get("weight") or entry["tensor"]
    array = np.ascontiguousarray(arrays[name])
    if is_complex(dtype):
        array = array.view(dtype)
    if array.dtype != dtype or array.size != int(np.prod(shape)):
        raise MindIRError(f"entry {number} of its table is {array.dtype} of {array.size} elements, not {dtype} {shape}")
    array = array.reshape(shape)
    return Parameter(array, name, bool(entry["trained"])) if "weight" in entry else array


def _unwatched(graph: Graph) -> Graph:
    """Return a copy without what only shows values to somebody."""
    copy = clone(graph)
    scopes = Scopes(copy)
    for inner in scopes.graphs:
        for node in scopes.order(inner):
            node.inputs = [_passed(x) for x in node.inputs]
        inner.output = _passed(inner.result)
    return copy


def _passed(node: Node) -> Node:
    while isinstance(node, Apply) and any(node.applies(name) for name in _PASSED_BY):
        node = node.arguments[0]
    return node
