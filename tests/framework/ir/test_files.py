"""MindIR files: what is written is read back and runs alike; what is none is one clear error."""

import json
import os

import numpy as np
import pytest
from mindscope.framework import Parameter, Tensor, bfloat16, grad, nn, ops, set_seed
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.errors import ShapeError
from mindscope.framework.ir import ConstantNode, Graph, equal, type_of
from mindscope.framework.ir.mindir_file import MindIRError, load, save
from mindscope.framework.mindir import export, graph_of
from mindscope.framework.random import Key
from mindscope.framework.specs import Spec
from mindscope.framework.symbolic import Dim
from safetensors.numpy import load_file, save_file

from tests.framework.compiler.graphs import F64, loop_graph, op, recursion_graph


def network():
    return nn.SequentialCell(nn.Dense(4, 8, key=Key(0)), nn.LayerNorm(8), nn.GELU(), nn.Dense(8, 3, key=Key(1)))


@pytest.mark.parametrize("graph", [recursion_graph(), loop_graph(lambda g, i, x: op(g, "sin", x), F64)])
def test_control_flow_is_read_back(graph, tmp_path):
    save(graph, tmp_path / "g.mindir")
    again = load(tmp_path / "g.mindir")
    assert equal(graph, again)
    arguments = [np.array(9), np.array(0.4)]
    assert evaluate(graph, arguments) == evaluate(again, arguments)


def test_tensors_of_every_kind_are_read_back_bit_by_bit(tmp_path):
    values = [
        np.arange(60.0).reshape(3, 20) * (0.1 - 0.3j), np.full(40, np.nan, np.float32), np.arange(20, dtype=np.uint8),
        np.linspace(0, 1, 33).astype(bfloat16), np.ones((5, 0, 3)), np.array(2 + 1j),
    ]  # fmt: skip
    g = Graph("g")
    g.output = op(g, "make_tuple", *(ConstantNode(Tensor(x)) for x in values))
    save(g, tmp_path / "g.mindir")
    assert equal(g, load(tmp_path / "g.mindir"))


def test_an_exported_network_runs_and_trains_without_its_code(tmp_path):
    net, x = network(), Tensor(np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32))
    export(net, x, file_name=tmp_path / "net")
    cell = nn.GraphCell(load(tmp_path / "net.mindir"))
    np.testing.assert_array_equal(cell(x).numpy(), net(x).numpy())
    assert {p.name: p.shape for p in cell.trainable_params()} == {p.name: p.shape for p in net.trainable_params()}
    assert [name for name, _ in cell.parameters_and_names()] == [name for name, _ in net.parameters_and_names()]

    def slopes(model):
        found = grad(lambda x: (model(x) ** 2).mean(), None, model.trainable_params())(x)
        return {p.name: g.numpy() for p, g in zip(model.trainable_params(), found, strict=True)}

    mine, its = slopes(cell), slopes(net)
    for name in its:
        np.testing.assert_allclose(mine[name], its[name], rtol=1e-5, atol=1e-6)


def test_a_file_is_safetensors_with_weights_under_their_names(tmp_path):
    net = network()
    export(net, Spec((2, 4), np.dtype(np.float32)), file_name=tmp_path / "net.mindir")
    arrays = load_file(tmp_path / "net.mindir")
    for name, parameter in net.parameters_and_names():
        np.testing.assert_array_equal(arrays[name], parameter.numpy())


def test_a_network_for_all_lengths_runs_for_each(tmp_path):
    net = network()
    export(net, Spec((Dim("batch"), 4), np.dtype(np.float32)), file_name=tmp_path / "net.mindir")
    cell = nn.GraphCell(load(tmp_path / "net.mindir"))
    for batch in (1, 2, 7):
        x = Tensor(np.random.default_rng(batch).normal(size=(batch, 4)).astype(np.float32))
        np.testing.assert_allclose(cell(x).numpy(), net(x).numpy(), rtol=1e-6, atol=1e-6)
    with pytest.raises(ShapeError, match=r"takes \(float32\[batch, 4\]\), got \(float32\[2, 5\]\)"):
        cell(Tensor(np.ones((2, 5), np.float32)))


def test_a_graph_cell_becomes_part_of_what_is_captured_around_it():
    inner = nn.GraphCell(graph_of(network(), [Spec((2, 4), np.dtype(np.float32))]))
    outer = graph_of(lambda x: (inner(x) * 2.0, ops.relu(x)), [Spec((2, 4), np.dtype(np.float32))])
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    doubled, _ = evaluate(outer, [x, *(p.weight.numpy() for p in outer.weights)])
    np.testing.assert_allclose(doubled, 2.0 * inner(Tensor(x)).numpy(), rtol=1e-6)


def test_random_keys_of_a_loaded_graph_are_taken_anew(tmp_path):
    net = nn.Dropout(p=0.5).set_train()
    x = Tensor(np.ones(1000, np.float32))
    export(net, x, file_name=tmp_path / "net.mindir")
    cell = nn.GraphCell(load(tmp_path / "net.mindir"))
    set_seed(1)
    first, second = cell(x).numpy(), cell(x).numpy()
    assert (first != second).any()
    set_seed(1)
    np.testing.assert_array_equal(cell(x).numpy(), first)


def _file(tmp_path):
    export(network(), Spec((2, 4), np.dtype(np.float32)), file_name=tmp_path / "net.mindir")
    return tmp_path / "net.mindir"


def _changed(path, change):
    arrays = load_file(path)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    content = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["mindir"])
    change(content, arrays)
    save_file(arrays, path, {"mindir": json.dumps(content)})


def test_a_file_that_is_none_cut_short_or_damaged_is_one_clear_error(tmp_path):
    whole = _file(tmp_path).read_bytes()
    broken = tmp_path / "broken.mindir"
    for content in (b"", b"hello", whole[:7], whole[:100], whole[:-1], b"\xff" * 64):
        broken.write_bytes(content)
        with pytest.raises(MindIRError, match=r"broken.mindir' cannot be read as a MindIR file .*export the"):
            load(broken)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.mindir")


def test_any_damaged_byte_is_noticed_or_harmless(tmp_path):
    path = _file(tmp_path)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(0)
    noticed = 0
    for place in rng.integers(0, header, 60):
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(0, 7))
        path.write_bytes(bytes(broken))
        try:
            load(path)
        except MindIRError:
            noticed += 1
    assert noticed > 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c, a: c.update(version=2), "has version 2 .* update the engine"),
        (lambda c, a: c.update(graph=c["graph"].replace("gelu", "gelu_9")), "needs what this .*'gelu_9'"),
        (lambda c, a: c["table"].pop(), "needs what this engine does not have: line 1"),
        (lambda c, a: a.pop("0.weight"), "is damaged"),
        (lambda c, a: a.update({"0.weight": np.zeros(3, np.float32)}), "entry . of its table is float32 of 3 elements"),
        (
            lambda c, a: c.update(graph=c["graph"].replace("float32[2, 8] = gelu", "float32[2, 9] = gelu")),
            "well formed",
        ),
    ],
)
def test_what_a_file_lacks_is_named(change, words, tmp_path):
    path = _file(tmp_path)
    _changed(path, change)
    with pytest.raises(MindIRError, match=words):
        load(path)


def test_what_lives_in_this_process_cannot_be_exported(tmp_path):
    def hook(arrays):
        return arrays

    g = Graph("g")
    g.output = op(g, "show", g.add_parameter(F64, "x"), hook=hook)
    with pytest.raises(MindIRError, match=r"'g' uses <function .*hook.*lives in this process"):
        save(g, tmp_path / "g.mindir")
    assert os.listdir(tmp_path) == []
    same = [Parameter(np.ones(20), "w"), Parameter(np.ones(20), "w")]
    g = Graph("g")
    first, second = (g.add_parameter(type_of(w), "w", w) for w in same)
    g.output = op(g, "add", first, second)
    with pytest.raises(MindIRError, match="two weights called 'w'"):
        save(g, tmp_path / "g.mindir")


def test_observers_and_marks_are_left_out(tmp_path):
    class Tap:
        def value(self, array):
            raise AssertionError

    g = Graph("g")
    x = op(g, "observe", g.add_parameter(F64, "x"), hook=Tap())
    g.output = op(g, "mark", op(g, "sin", x), cell=Tap(), call=0, index=0)
    save(g, tmp_path / "g.mindir")
    assert evaluate(load(tmp_path / "g.mindir"), [np.array(0.5)]) == np.sin(0.5)


def test_an_onnx_file_is_written_by_the_same_function(tmp_path):
    onnx = pytest.importorskip("onnx")
    export(network(), Tensor(np.ones((2, 4), np.float32)), file_name=tmp_path / "net", file_format="ONNX")
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"))


def test_only_two_formats_exist(tmp_path):
    with pytest.raises(ValueError, match="file_format expects MINDIR or ONNX, got 'AIR'"):
        export(network(), file_name=tmp_path / "net", file_format="AIR")
