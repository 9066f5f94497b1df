"""Reading models: parameters, gradients, compilation, subgraphs, functions, and files that are wrong."""

import weakref
from itertools import pairwise

import numpy as np
import pytest
from mindscope.framework import Tensor, grad, value_and_grad
from mindscope.framework.compiler import jit
from mindscope.framework.errors import ShapeError
from mindscope.framework.onnx import BrokenModel, UnknownOperator, UnsupportedFeature, operator
from mindscope.framework.onnx.onnx_cell import load
from mindscope.framework.onnx.operator_call import OPERATORS
from onnx import TensorProto, helper, numpy_helper, save

_random = np.random.default_rng(5)


def real(*shape):
    return _random.standard_normal(shape).astype(np.float32)


def _info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def _model(nodes, inputs, outputs, stored=(), opsets=(("", 20),), functions=()):
    graph = helper.make_graph(nodes, "net", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in stored])
    imports = [helper.make_opsetid(*entry) for entry in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


_WEIGHT, _BIAS = real(3, 4), real(4)


def _perceptron():
    return _model(
        [
            helper.make_node("Gemm", ["x", "layer.weight", "layer.bias"], ["h"]),
            helper.make_node("Tanh", ["h"], ["y"]),
        ],
        [_info("x", ["batch", 3])],
        [_info("y", ["batch", 4])],
        [("layer.weight", _WEIGHT), ("layer.bias", _BIAS)],
    )


def test_stored_floats_are_parameters_under_dotted_names():
    net = load(_perceptron())
    assert set(net.parameters_dict()) == {"layer.weight", "layer.bias"}
    assert [site for site, _ in net.cells_and_names()] == ["", "layer", "nodes", "nodes.h", "nodes.y"]
    x = real(2, 3)
    np.testing.assert_allclose(net(x).numpy(), np.tanh(x @ _WEIGHT + _BIAS), rtol=1e-5)


def test_a_model_can_be_trained():
    net, x, target = load(_perceptron()), Tensor(real(8, 3)), Tensor(np.tanh(real(8, 4)))
    step = value_and_grad(lambda x: ((net(x) - target) ** 2).mean(), None, net.trainable_params())
    losses = []
    for _ in range(20):
        loss, gradients = step(x)
        for parameter, g in zip(net.trainable_params(), gradients, strict=True):
            parameter.set_data(parameter.numpy() - 0.5 * g.numpy())
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_gradients_are_those_of_the_same_formula():
    net, x = load(_perceptron()), Tensor(real(2, 3))
    weight, bias = Tensor(_WEIGHT), Tensor(_BIAS)
    ours = grad(lambda x: net(x).sum())(x)
    same = grad(lambda x: (x @ weight + bias).tanh().sum())(x)
    np.testing.assert_allclose(ours.numpy(), same.numpy(), rtol=1e-5)


def _reshaping():
    """A model that calculates a shape from its input and reshapes by it."""
    return _model(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "first"], ["n"]),
            helper.make_node("Mul", ["n", "two"], ["m"]),
            helper.make_node("Unsqueeze", ["m", "axes"], ["m1"]),
            helper.make_node("Concat", ["m1", "rest"], ["shape"], axis=0),
            helper.make_node("Reshape", ["x", "shape"], ["y"]),
        ],
        [_info("x", ["n", 4])],
        [_info("y", ["a", "b"])],
        [(k, np.array(v, np.int64)) for k, v in (("first", 0), ("two", 2), ("axes", [0]), ("rest", [-1]))],
    )


@pytest.mark.parametrize("mode", ["trace", "ast", "bytecode"])
@pytest.mark.parametrize("make", [_perceptron, _reshaping])
def test_a_model_compiles_to_the_same_numbers(make, mode):
    net = load(make())
    x = Tensor(real(2, 3 if make is _perceptron else 4))
    compiled = jit(net, capture_mode=mode)
    np.testing.assert_allclose(compiled(x).numpy(), net(x).numpy(), rtol=1e-6)
    assert compiled(x).shape == net(x).shape


def test_a_compiled_training_step_has_the_same_gradients():
    net, x = load(_perceptron()), Tensor(real(4, 3))
    step = value_and_grad(lambda x: (net(x) ** 2).sum(), None, net.trainable_params())
    compiled = jit(step, capture_mode="trace")
    for a, b in zip(compiled(x)[1], step(x)[1], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_branches_see_the_values_around_them():
    then = helper.make_graph([helper.make_node("Add", ["x", "w"], ["t"])], "then", [], [_info("t", [2])])
    other = helper.make_graph([helper.make_node("Sub", ["x", "w"], ["e"])], "else", [], [_info("e", [2])])
    model = _model(
        [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        [_info("x", [2]), _info("c", [], TensorProto.BOOL)],
        [_info("y", [2])],
        [("w", np.array([1, 2], np.float32))],
    )
    net, x = load(model), np.zeros(2, np.float32)
    compiled = jit(net, capture_mode="trace")
    for run in (net, compiled):  # one compiled graph serves both
        assert run(Tensor(x), Tensor(np.array(True))).tolist() == [1, 2]
        assert run(Tensor(x), Tensor(np.array(False))).tolist() == [-1, -2]


def test_functions_of_the_model_take_their_attributes_from_the_call():
    scale = helper.make_node("Constant", [], ["k"])
    attribute = helper.make_attribute("value_float", 0.0)
    attribute.ref_attr_name, attribute.type = "factor", attribute.type
    attribute.ClearField("f")
    scale.attribute.append(attribute)
    function = helper.make_function(
        "own", "Scaled", ["a"], ["b"], [scale, helper.make_node("Mul", ["a", "k"], ["b"])],
        [helper.make_opsetid("", 20)], ["factor"],
    )  # fmt: skip
    model = _model(
        [helper.make_node("Scaled", ["x"], ["y"], domain="own", factor=3.0)],
        [_info("x", [2])],
        [_info("y", [2])],
        opsets=(("", 20), ("own", 1)),
        functions=[function],
    )
    assert load(model)(np.array([1, 2], np.float32)).tolist() == [3, 6]


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_an_unknown_operator_is_told_at_load_with_node_domain_and_remedy(domain):
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="the_node", domain=domain)
    model = _model([node], [_info("x", [2])], [_info("y", [2])], opsets=(("", 20), ("com.example", 1)))
    place = f"Frobnicate of domain '{domain or 'ai.onnx'}'"
    with pytest.raises(UnknownOperator, match=rf"'the_node' asks for operator {place}.*register one"):
        load(model)


def test_an_operator_can_be_registered():
    @operator("Double", domain="com.example.registered")
    def double(call, x):
        return x * call.get("factor", 2.0)

    try:
        node = helper.make_node("Double", ["x"], ["y"], domain="com.example.registered")
        opsets = (("", 20), ("com.example.registered", 1))
        model = _model([node], [_info("x", [2])], [_info("y", [2])], opsets=opsets)
        assert load(model)(np.ones(2, np.float32)).tolist() == [2, 2]
    finally:
        del OPERATORS["com.example.registered", "Double"]


def test_a_truncated_file_a_text_and_an_empty_file_are_no_models(tmp_path):
    whole = _perceptron().SerializeToString()
    for number, content in enumerate((whole[: len(whole) // 2], b"this is no model at all", b"")):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(content)
        with pytest.raises(BrokenModel, match=path.name):
            load(path)
    with pytest.raises(FileNotFoundError, match="no ONNX file"):
        load(tmp_path / "missing.onnx")


def test_a_model_that_breaks_the_rules_is_told_so():
    model = _perceptron()
    model.graph.node[1].input[0] = "nowhere"
    with pytest.raises(BrokenModel, match="nowhere"):
        load(model)


def test_a_file_reads_like_the_model_it_was_written_from(tmp_path):
    save(_perceptron(), tmp_path / "net.onnx")
    x = real(2, 3)
    assert np.array_equal(load(tmp_path / "net.onnx")(x).numpy(), load(_perceptron())(x).numpy())


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((), r"expects 1 inputs \(x\), got 0"),
        ((real(2, 5),), r"declared with shape \('\?', 3\), got \(2, 5\)"),
        ((real(2, 3).astype(np.float64),), "declared float32, got float64"),
    ],
)
def test_wrong_inputs_are_compared_with_what_the_model_declares(inputs, words):
    with pytest.raises(ShapeError, match=words):
        load(_perceptron())(*inputs)


def test_an_error_inside_names_the_node():
    node = helper.make_node("Reshape", ["x", "s"], ["y"], name="bad")
    model = _model([node], [_info("x", ["n"])], [_info("y", [2, 2])], [("s", np.array([2, 2], np.int64))])
    with pytest.raises(ShapeError, match=r"node 'bad' \(Reshape\).*cannot reshape"):
        load(model)(np.zeros(3, np.float32))


def test_what_a_known_operator_cannot_do_is_named():
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="four")
    model = _model(
        [node], [_info("x", [1, 1, 2, 2, 2, 2])], [_info("y", [1, 1, 2, 2, 2, 2])], [("w", real(1, 1, 1, 1, 1, 1))]
    )
    with pytest.raises(UnsupportedFeature, match="4 axes"):
        load(model)(real(1, 1, 2, 2, 2, 2))


def test_a_value_is_let_go_after_its_last_use_but_not_before_a_branch_has_seen_it():
    made, alive = [], []

    @operator("Count", domain="com.example.count")
    def count(call, x):
        alive.append(sum(reference() is not None for reference in made))
        y = x + 1.0
        made.append(weakref.ref(y))
        return y

    names = [f"v{i}" for i in range(6)]
    body = helper.make_graph([helper.make_node("Add", ["v5", "v1"], ["t"])], "then", [], [_info("t", [7, 11])])
    nodes = [helper.make_node("Count", [a], [b], domain="com.example.count") for a, b in pairwise(names)]
    nodes.append(helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body))
    model = _model(
        nodes,
        [_info("v0", [7, 11]), _info("c", [], TensorProto.BOOL)],
        [_info("y", [7, 11])],
        opsets=(("", 20), ("com.example.count", 1)),
    )
    try:
        net = load(model)
        assert net(np.zeros((7, 11), np.float32), np.array(True)).numpy()[0, 0] == 6
        # What the branch reads (v1, the first that is made) stays; of the others only the newest does.
        assert alive == [0, 1, 2, 2, 2]
    finally:
        del OPERATORS["com.example.count", "Count"]


def test_every_node_is_a_cell_that_hooks_see():
    net, shown = load(_perceptron()), []
    for site, cell in net.cells_and_names():
        if site.startswith("nodes."):
            cell.register_forward_hook(lambda cell, inputs, output, site=site: shown.append((site, output.shape)))
    handle = net.nodes.name_cells()["y"].register_forward_hook(lambda cell, inputs, output: output * 0.0)
    assert not net(real(2, 3)).numpy().any()
    assert shown == [("nodes.h", (2, 4)), ("nodes.y", (2, 4))]
    handle.remove()
    assert net(real(2, 3)).numpy().any()
