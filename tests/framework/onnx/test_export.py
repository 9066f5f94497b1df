"""Cells and primitives written as ONNX models compute the same when they are read again, and in ONNX Runtime."""

import re
from importlib.util import find_spec

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, Tensor, nn, ops, set_seed
from mindscope.framework.onnx import ExportError, export
from mindscope.framework.onnx.exporting import WRITERS
from mindscope.framework.onnx.onnx_cell import load

from tests.contracts.primitive_cases import CASES

_random = np.random.default_rng(3)
_HAS_RUNTIME = find_spec("onnxruntime") is not None


def real(*shape):
    return _random.standard_normal(shape).astype(np.float32)


def _tuple(found):
    return found if isinstance(found, tuple) else (found,)


def _agree(fn, arrays, tolerance=1e-5, runtime=True, **options):
    """Nothing; the exported function gives what the function gives."""
    model = export(fn, *arrays, **options)
    wanted = [y.numpy() for y in _tuple(fn(*(Tensor(x) for x in arrays)))]
    again = [y.numpy() for y in _tuple(load(model)(*arrays))]
    found = [again]
    if runtime and _HAS_RUNTIME:
        found.append(_in_runtime(model, arrays))
    for outputs in found:
        for y, w in zip(outputs, wanted, strict=True):
            assert y.shape == w.shape
            np.testing.assert_allclose(y, w, rtol=tolerance, atol=tolerance)
    return model


def _in_runtime(model, arrays):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {given.name: x for given, x in zip(session.get_inputs(), arrays, strict=True)})


CELLS = {
    "perceptron": (lambda: nn.SequentialCell(nn.Dense(6, 8), nn.GELU(), nn.Dense(8, 3)), [real(4, 6)]),
    "convolutions": (
        lambda: nn.SequentialCell(
            nn.Conv2d(2, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dense(16, 3)
        ),
        [real(2, 2, 8, 8)],
    ),
    "transformer": (lambda: nn.TransformerBlock(8, 2), [real(2, 5, 8)]),
    "rows": (lambda: nn.SequentialCell(nn.Dense(4, 4), nn.RMSNorm(4), nn.SiLU(), nn.Softmax()), [real(2, 3, 4)]),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_computes_the_same_when_it_is_read_again(name):
    set_seed(0)
    make, arrays = CELLS[name]
    _agree(make(), arrays)


def test_parameters_are_stored_under_their_names_and_read_as_parameters():
    set_seed(0)
    net = nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2))
    again = load(export(net, real(2, 3)))
    theirs, ours = again.parameters_dict(), net.parameters_dict()
    assert set(ours) <= set(theirs)
    for name, parameter in ours.items():
        assert np.array_equal(parameter.numpy(), theirs[name].numpy())
        assert theirs[name].requires_grad


def _exports(name):
    """The cases of a primitive that use tensors of types that ONNX computes with."""
    for number, case in enumerate(CASES[name]):
        arrays = [x for x in case.args if isinstance(x, np.ndarray | np.generic)]
        if all(np.asarray(x).dtype.kind in "fiub" for x in arrays):
            yield number


_EVERY = [(name, number) for name in sorted(set(WRITERS) & set(CASES)) for number in _exports(name)]


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_a_primitive_is_written_as_nodes_that_compute_the_same(name, number):
    case = CASES[name][number]
    arrays = [np.asarray(x) for x in case.args if isinstance(x, np.ndarray | np.generic)]
    arrays = [x.astype(np.float32) if x.dtype == np.float64 else x for x in arrays]

    def call(*tensors):
        given = iter(tensors)
        args = [next(given) if isinstance(x, np.ndarray | np.generic) else x for x in case.args]
        found = PRIMITIVES[name](*args, **case.attributes)
        return found[: _GIVEN.get(name, len(found))] if isinstance(found, tuple) else found

    refusal = _refusal(call, arrays)
    if refusal is None:
        _agree(call, arrays, 2e-4)
    else:
        assert re.search(_REFUSED.get(name, "nothing is refused here"), refusal)


def _refusal(call, arrays):
    try:
        export(call, *arrays)
    except ExportError as error:
        return str(error)
    return None


#: How many outputs of a primitive have a counterpart in ONNX, where not all have.
_GIVEN = {"attention": 1, "gru": 2, "lstm": 3, "max_pool": 1}

#: What export says about cases that ONNX cannot express.
_REFUSED = {
    "avg_pool": "ceil mode",
    "cast": "complex",
    "getitem": "several arrays",
    "left_shift": "unsigned",
    "right_shift": "unsigned",
}


def test_what_cannot_be_written_is_named_with_its_line():
    with pytest.raises(ExportError, match=r"'erfinv'.*test_export.py:\d+.*no writer"):
        export(lambda x: ops.erfinv(x), real(3) * 0.1)


def test_a_random_cell_is_refused():
    net = nn.SequentialCell(nn.Dense(3, 3), nn.Dropout(0.5)).set_train()
    with pytest.raises(ExportError, match="set_train"):
        export(net, real(2, 3))


def test_names_of_inputs_and_outputs_can_be_given_and_the_file_is_written(tmp_path):
    path = tmp_path / "net.onnx"
    model = export(ops.relu, real(2, 3), path=path, input_names=["picture"], output_names=["shown"])
    assert [v.name for v in (*model.graph.input, *model.graph.output)] == ["picture", "shown"]
    net = load(path)
    assert net.run(picture=real(2, 3))["shown"].shape == (2, 3)


def test_an_opset_beyond_those_written_is_refused():
    with pytest.raises(ExportError, match="18 to 23"):
        export(ops.relu, real(2), opset=9)


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_every_opset_that_is_offered_passes_the_checker(opset):
    set_seed(0)
    _agree(nn.TransformerBlock(8, 2), [real(1, 3, 8)], runtime=opset < 23, opset=opset)


OPEN = {
    "perceptron": {0: "batch"},
    "convolutions": {0: "batch"},
    "transformer": {0: "batch", 1: "length"},
    "rows": {0: "batch", 1: "length"},
}


@pytest.mark.parametrize("name", OPEN)
def test_open_axes_take_any_length(name):
    set_seed(0)
    make, (example,) = CELLS[name]
    net = make()
    model = export(net, example, dynamic_axes={"x0": OPEN[name]})
    for extra in (0, 3):
        shape = [n + extra if axis in OPEN[name] else n for axis, n in enumerate(example.shape)]
        x = real(*shape)
        wanted = net(Tensor(x)).numpy()
        np.testing.assert_allclose(load(model)(x).numpy(), wanted, rtol=1e-5, atol=1e-5)
        if _HAS_RUNTIME:
            np.testing.assert_allclose(_in_runtime(model, [x])[0], wanted, rtol=1e-5, atol=1e-5)


def test_shapes_of_several_open_lengths_are_calculated_in_the_model():
    def flat_pairs(x):
        n, m, _ = x.shape
        return ops.broadcast_to(x.reshape(n * m, 1, 2), (n * m, n, 2)), ops.zeros_like(x)

    model = export(flat_pairs, real(2, 3, 2), dynamic_axes={0: {0: "n", 1: "m"}})
    x = real(4, 5, 2)
    for found, wanted in zip(load(model)(x), flat_pairs(Tensor(x)), strict=True):
        assert np.array_equal(found.numpy(), wanted.numpy())


@pytest.mark.parametrize(
    ("axes", "words"), [({"z": {0: "n"}}, "the inputs are x0"), ({"x0": {5: "n"}}, "axis 5 of 'x0'")]
)
def test_open_axes_that_do_not_exist_are_told(axes, words):
    with pytest.raises(ExportError, match=words):
        export(ops.relu, real(2), dynamic_axes=axes)
