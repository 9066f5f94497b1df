"""Fuzzes models in files: ONNX and MindIR."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.framework.mindir import GraphCell, export, load
from mindscope.framework.onnx import load as load_onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzzing.fuzz import Reader
from tests.fuzzing.mutations import mutated, mutated_text


class _Net(nn.Cell):
    """Layers, an attribute that is a tuple, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 2, key=Key(0))

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = ops.relu(self.fc(x)) * Tensor(np.float32(0.5))
        return hidden, ops.softmax(hidden, axis=-1).sum(axis=(0, 1))


def _mindirs(folder: Path) -> list[bytes]:
    path = folder / "net.mindir"
    export(_Net(), Tensor(np.ones((2, 3), np.float32)), file_name=path)
    return [path.read_bytes()]


def _mutated_mindirs(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a file whose bytes, or whose text or table behind right lengths, are mutated."""
    if draw.random() < 0.3:
        return mutated(draw, seeds)
    content = draw.choice(seeds)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    kept = json.loads(header["__metadata__"]["mindir"])
    if draw.random() < 0.7:
        kept["graph"] = mutated_text(draw, kept["graph"])
        text = json.dumps(kept)
    else:
        text = mutated_text(draw, json.dumps(kept))
    header["__metadata__"]["mindir"] = text
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + content[8 + length :]


def _read_mindir(data: bytes, folder: Path) -> None:
    path = folder / "net.mindir"
    path.write_bytes(data)
    GraphCell(load(path))


def _onnx_models(_folder: Path) -> list[bytes]:
    weight, bias = np.ones((3, 4), np.float32), np.zeros(4, np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 3), ("y", 4)))
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    branch = helper.make_graph([helper.make_node("Relu", ["h"], ["b"])], "branch", [], [_unshaped("b")])
    nodes = [
        helper.make_node("Gemm", ["x", "layer.weight", "layer.bias"], ["h"], alpha=0.5),
        helper.make_node("If", ["flag"], ["c"], then_branch=branch, else_branch=branch),
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.int64([1, 4]), "k")),
        helper.make_node("LayerNormalization", ["c", "layer.bias"], ["n"], axis=-1),
        helper.make_node("Tanh", ["n"], ["y"]),
    ]
    stored = [numpy_helper.from_array(weight, "layer.weight"), numpy_helper.from_array(bias, "layer.bias")]
    graph = helper.make_graph(nodes, "net", [x, flag], [y], stored)
    opsets = [helper.make_opsetid("", 20)]
    return [helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()]


def _unshaped(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _mutated_models(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a model whose bytes, or one of whose messages, are mutated."""
    if draw.random() < 0.4:
        return mutated(draw, seeds)
    model = onnx.ModelProto.FromString(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 3))):
        _change_message(draw, draw.choice(list(_messages(model))))
    return model.SerializeToString()


def _messages(message: object) -> list[object]:
    found = [message]
    for field, value in message.ListFields():  # type: ignore[attr-defined]
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                found += _messages(each)
    return found


_INTEGERS = (-1, 0, 1, 2, 7, 16, 23, 99, 2**31 - 1)
_TEXTS = ("", "x", "h", "Loop", "Relu", "Conv", "ai.onnx.ml", "n" * 5000, "a.b..c", "../../etc/passwd", "nodes", "0")


def _change_message(draw: random.Random, message: object) -> None:
    fields = message.DESCRIPTOR.fields  # type: ignore[attr-defined]
    field = draw.choice(fields)
    if draw.random() < 0.3 or field.message_type is not None:
        set_fields = message.ListFields()  # type: ignore[attr-defined]
        if set_fields:
            message.ClearField(draw.choice(set_fields)[0].name)  # type: ignore[attr-defined]
        return
    value: object = draw.choice(_INTEGERS)
    if field.cpp_type == field.CPPTYPE_STRING:
        value = draw.choice(_TEXTS)
        if field.type == field.TYPE_BYTES:
            value = str(value).encode() if draw.random() < 0.5 else draw.randbytes(16)
    elif field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        value = draw.choice((0.0, -1.0, float("nan"), float("inf")))
    elif field.cpp_type == field.CPPTYPE_ENUM:
        value = draw.choice(list(field.enum_type.values_by_number))
    elif field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        value = abs(int(draw.choice(_INTEGERS)))
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def _read_onnx(data: bytes, folder: Path) -> None:
    path = folder / "net.onnx"
    path.write_bytes(data)
    load_onnx(path)


MINDIR = Reader("mindir", _mindirs, _read_mindir, mutate=_mutated_mindirs)
ONNX = Reader("onnx", _onnx_models, _read_onnx, mutate=_mutated_models)
