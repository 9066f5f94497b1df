"""The node tests that come with the package onnx, run through the importer: cases, comparison, and what is excused."""

import re
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

EXCUSES = Path(__file__).with_name("excused.txt")

#: Element types of "plain" cases: those that the engine computes in.
COMMON = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
}  # fmt: skip


@dataclass(frozen=True)
class NodeCase:
    """One case: a model of a node or a few, inputs and what must come out."""

    name: str
    model: object
    data_sets: tuple
    rtol: float
    atol: float

    @property
    def is_plain(self):
        """Whether it belongs to ai.onnx and its inputs and outputs are tensors of the common element types."""
        if any(node.domain not in ("", "ai.onnx") for node in self.model.graph.node):
            return False
        values = [*self.model.graph.input, *self.model.graph.output]
        return all(value.type.HasField("tensor_type") and _kind(value) in COMMON for value in values)


def _kind(value):
    from onnx import TensorProto, helper

    code = value.type.tensor_type.elem_type
    if code in (TensorProto.STRING, TensorProto.UNDEFINED):
        return "string"
    return np.dtype(helper.tensor_dtype_to_np_dtype(code)).name


@cache
def cases():
    """All node cases by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package computes its expectations when asked for them
        found = load_model_tests(kind="node")
    return {c.name: NodeCase(c.name, c.model, tuple(c.data_sets or ()), c.rtol, c.atol) for c in found}


@cache
def excused():
    """The cases that are known to fail, with the reason."""
    lines = [line for line in EXCUSES.read_text().splitlines() if line and not line.startswith("#")]
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines)


def run(case):
    """Nothing; the importer computes what the case expects.

    Raises:
        AssertionError: A number, shape or type differs.
    """
    from mindscope.framework.onnx.onnx_cell import load
    from mindscope.framework.onnx.onnx_values import outgoing

    cell = load(case.model)
    for inputs, outputs in case.data_sets:
        found = cell(*(_plain(x) for x in inputs))
        found = found if len(cell.output_names) > 1 else (found,)
        for y, wanted in zip(found, outputs, strict=True):
            compare(outgoing(y), _plain(wanted), case.rtol, case.atol)


def _plain(value):
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def compare(found, wanted, rtol, atol):
    """Nothing; both are equal in structure, shape and type, and close in value."""
    if isinstance(wanted, list | tuple):
        assert isinstance(found, list)
        for a, b in zip(found, wanted, strict=True):
            compare(a, b, rtol, atol)
        return
    if wanted is None:
        assert found is None
        return
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape}"
    if wanted.dtype.kind in "OSU":
        assert found.astype(str).tolist() == wanted.astype(str).tolist()
        return
    assert found.dtype == wanted.dtype, f"type {found.dtype}, expected {wanted.dtype}"
    if wanted.dtype.kind == "V" or wanted.dtype.name not in COMMON | {"complex64", "complex128"}:
        rtol = max(rtol, 2**-6) if wanted.dtype.name == "bfloat16" else rtol
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
