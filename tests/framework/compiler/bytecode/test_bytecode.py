"""Capture from bytecode: whatever a function does, the compiled one gives what plain Python gives, again and again."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, grad, nn, value_and_grad
from mindscope.framework.compiler import jit
from mindscope.framework.compiler.bytecode.bytecode_frame import NULL, BytecodeFrame, DecodedCode, Instruction
from mindscope.framework.compiler.bytecode.concrete import Concrete
from mindscope.framework.compiler.bytecode.newer_instructions import TABLES

from tests.framework.compiler.bytecode import functions
from tests.framework.compiler.bytecode.functions import HOLDER, SPLIT, WHOLE, Around, Gated


def by_bytecode(fn):
    return jit(fn, capture_mode="bytecode")


def inputs(number):
    generator = np.random.default_rng(number)
    return [Tensor(generator.standard_normal((2, 3)) + (number % 3 - 1)) for _ in range(2)]


def plain(value):
    """A result as nested lists of numbers, with the classes of containers."""
    if isinstance(value, Tensor):
        return ["tensor", value.dtype, value.shape, value.asnumpy().tolist()]
    if isinstance(value, dict):
        return [dict, {key: plain(part) for key, part in value.items()}]
    return [type(value), [plain(part) for part in value]] if isinstance(value, list | tuple) else value


def assert_same(found, expected):
    found, expected = plain(found), plain(expected)
    if isinstance(expected, list) and expected[0] == "tensor":
        assert found[:3] == expected[:3]
        np.testing.assert_allclose(found[3], expected[3], rtol=1e-12, atol=1e-12)
    elif isinstance(expected, list) and expected[0] is dict:
        assert list(found[1]) == list(expected[1])
        for key in expected[1]:
            assert_plain(found[1][key], expected[1][key])
    else:
        assert_plain(found, expected)


def assert_plain(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_plain(a, b)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    else:
        assert found == expected


@pytest.mark.parametrize("name", [*WHOLE, *SPLIT])
def test_results_are_those_of_plain_python(name, capsys):
    function = {**WHOLE, **SPLIT}[name]
    compiled = by_bytecode(function)
    for number in (0, 1, 2, 0, 1, 2, 4):
        calls = HOLDER.calls
        expected, said = function(*inputs(number)), capsys.readouterr().out
        after, HOLDER.calls = HOLDER.calls, calls
        found = compiled(*inputs(number))
        assert_same(found, expected)
        assert capsys.readouterr().out == said
        assert HOLDER.calls == after


@pytest.mark.parametrize("name", WHOLE)
def test_functions_that_only_compute_are_one_graph(name):
    compiled = by_bytecode(WHOLE[name])
    for number in (0, 0, 3):
        compiled(*inputs(number))
    assert compiled.explain() == ("the first call",)


@pytest.mark.parametrize("name", ["branch", "until", "numbers", "with_numpy", "deep", "printing"])
def test_functions_with_breaks_are_compiled_in_pieces_once(name):
    compiled = by_bytecode(SPLIT[name])
    for number in (0, 1, 2, 4, 5):
        compiled(*inputs(number))
    (split,) = (made.split for made in compiled._apart.values())
    graphs = split.count()
    assert graphs > 1
    for number in (0, 1, 2, 4, 5):
        compiled(*inputs(number))
    assert split.count() == graphs


@pytest.mark.parametrize("name", ["branch", "until", "deep", "through_try", "arithmetic", "loops"])
def test_gradients_flow_through_the_pieces(name):
    function = {**WHOLE, **SPLIT}[name]
    compiled = by_bytecode(function)

    def total(f):
        def loss(x, y):
            out = f(x, y)
            return (out[0] if isinstance(out, tuple) else out).sum()

        return grad(loss, (0, 1))

    for number in (0, 1, 2, 0):
        for found, expected in zip(total(compiled)(*inputs(number)), total(function)(*inputs(number)), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [Gated, Around])
def test_cells_with_breaks_train_as_in_plain_python(make):
    runs = []
    for wrap in (lambda f: f, by_bytecode):
        cell = make()
        step = value_and_grad(wrap(cell.__call__ if wrap is not by_bytecode else cell), 0, None)
        cell_loss = wrap(cell)
        losses = []
        for number in range(4):
            x = Tensor(np.random.default_rng(number).standard_normal((2, 4)))
            loss, gradients = value_and_grad(lambda x, f=cell_loss: f(x).sum(), None, cell.trainable_params())(x)
            losses += [loss.numpy(), *(g.numpy() for g in gradients)]
        runs.append((losses, (cell if make is Gated else cell.inner).calls))
        del step
    for a, b in zip(runs[0][0], runs[1][0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert runs[0][1] == runs[1][1] == 4


def test_what_was_read_outside_is_guarded(monkeypatch):
    compiled = by_bytecode(functions.outside)
    x, y = inputs(0)
    for factor, table in ((3.0, 2.0), (5.0, 2.0), (5.0, 7.0)):
        monkeypatch.setattr(functions, "FACTOR", factor)
        monkeypatch.setitem(functions.TABLE, "scale", table)
        np.testing.assert_allclose(compiled(x, y).numpy(), functions.outside(x, y).numpy())
    assert len(compiled.explain()) == 3
    monkeypatch.setattr(functions, "LAYERS", [lambda x: x * 7.0])
    loops = by_bytecode(functions.loops)
    first = loops(x, y).numpy()
    functions.LAYERS.append(lambda x: x - 5.0)
    assert not np.allclose(loops(x, y).numpy(), first)
    np.testing.assert_allclose(loops(x, y).numpy(), functions.loops(x, y).numpy())


def test_errors_are_those_of_plain_python():
    x, _ = inputs(0)
    with pytest.raises(AssertionError, match="must be equal"):
        by_bytecode(functions.assertions)(x, Tensor(np.ones(3)))
    with pytest.raises(TypeError, match=r"missing a required argument: 'y'|missing 1 required"):
        by_bytecode(functions.arithmetic)(x)
    with pytest.raises(ValueError, match="do not broadcast"):
        by_bytecode(functions.arithmetic)(x, Tensor(np.ones((5, 7))))


def test_a_list_that_was_given_is_the_list_that_changes():
    box = []
    by_bytecode(functions.mutated)(*inputs(0), box)
    assert len(box) == 1


def test_a_gradient_is_compiled_and_its_function_interpreted(monkeypatch):
    compiled = by_bytecode(value_and_grad(functions.arithmetic_sum))
    x, y = inputs(0)
    for factor in (3.0, 5.0):
        monkeypatch.setattr(functions, "FACTOR", factor)
        expected = value_and_grad(functions.arithmetic_sum)(x, y)
        for found, other in zip(compiled(x, y), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), other.numpy(), rtol=1e-12)
    assert "FACTOR" in compiled.explain()[1]


def test_a_gradient_of_a_function_that_says_something_runs_as_plain_python(capsys):
    compiled = by_bytecode(grad(lambda x, y: functions.printing(x, y).sum()))
    for _ in range(3):
        compiled(*inputs(0))
    assert capsys.readouterr().out.count("sum (2, 3)") == 3


def test_engine_cells_are_one_graph():
    net = nn.SequentialCell(nn.Dense(3, 4, key=Key(0), dtype=np.float64), nn.GELU(), nn.LayerNorm(4, dtype=np.float64))
    compiled = by_bytecode(net)
    x = inputs(0)[0]
    np.testing.assert_allclose(compiled(x).numpy(), net(x).numpy(), rtol=1e-12)
    assert compiled.explain() == ("the first call",)


def run(version, *instructions, variables=None, consts=()):
    """The result of a list of instructions written by hand, on the table of a version."""

    class _Code:
        co_consts, co_freevars, co_cellvars, co_name = consts, (), (), "hand"

    code = DecodedCode(_Code, tuple(Instruction(*x, line=1) for x in instructions))
    interpreter = Concrete([BytecodeFrame(code, {"__builtins__": {"len": len, "max": max}}, dict(variables or {}))])
    interpreter.version, interpreter._handlers = version, TABLES[version]
    while interpreter.step():
        pass
    return interpreter.result


@pytest.mark.parametrize("version", [(3, 12), (3, 13)])
def test_loops_of_later_versions_leave_a_clean_stack(version):
    end = [("END_FOR", 0, None), *([("POP_TOP", 0, None)] if version == (3, 13) else [])]
    loop = [
        ("LOAD_FAST", 0, "items"),
        ("GET_ITER", 0, None),
        ("FOR_ITER", 0, 7),
        ("LOAD_FAST", 0, "total"),
        ("BINARY_OP", 0, None),
        ("STORE_FAST", 0, "total"),
        ("JUMP_BACKWARD", 0, 2),
        *end,
        ("LOAD_FAST", 0, "total"),
        ("RETURN_VALUE", 0, None),
    ]
    assert run(version, *loop, variables={"items": [1, 2, 3], "total": 10}) == 16


def test_calls_of_3_12_have_the_null_below_and_of_3_13_above_the_callable():
    tail = [("LOAD_CONST", 0, 3), ("LOAD_CONST", 0, 5), ("CALL", 2, None), ("RETURN_VALUE", 0, None)]
    assert run((3, 12), ("LOAD_GLOBAL", 1, "max"), *tail) == 5
    assert run((3, 13), ("LOAD_GLOBAL", 1, "max"), *tail) == 5
    keywords = [
        ("LOAD_GLOBAL", 1, "max"), ("LOAD_CONST", 0, [1, 3]), ("LOAD_CONST", 0, lambda x: -x),
        ("LOAD_CONST", 0, ("key",)), ("CALL_KW", 2, None), ("RETURN_VALUE", 0, None),
    ]  # fmt: skip
    assert run((3, 13), *keywords) == 1


def test_methods_attributes_and_double_variables_of_3_13():
    method = [
        ("LOAD_CONST", 0, "a-b"), ("LOAD_ATTR", 1, "split"), ("LOAD_CONST", 0, "-"), ("CALL", 1, None),
        ("RETURN_VALUE", 0, None),
    ]  # fmt: skip
    assert run((3, 12), *method) == run((3, 13), *method) == ["a", "b"]
    pair = [
        ("LOAD_FAST_LOAD_FAST", 0, ("a", "b")), ("STORE_FAST_STORE_FAST", 0, ("c", "d")), ("LOAD_FAST", 0, "d"),
        ("STORE_FAST_LOAD_FAST", 0, ("e", "c")), ("LOAD_FAST", 0, "e"), ("BUILD_TUPLE", 2, None),
        ("RETURN_VALUE", 0, None),
    ]  # fmt: skip
    assert run((3, 13), *pair, variables={"a": 1, "b": 2}) == (2, 1)


@pytest.mark.parametrize("version", [(3, 12), (3, 13)])
def test_comprehensions_and_slices_of_later_versions(version):
    saved = [
        ("LOAD_FAST_AND_CLEAR", 0, "x"), ("LOAD_CONST", 0, 7), ("STORE_FAST", 0, "x"), ("STORE_FAST", 0, "x"),
        ("LOAD_CONST", 0, [1, 2, 3]), ("LOAD_CONST", 0, 1), ("LOAD_CONST", 0, None), ("BINARY_SLICE", 0, None),
        ("RETURN_VALUE", 0, None),
    ]  # fmt: skip
    assert run(version, *saved) == [2, 3]
    assert run(version, ("RETURN_CONST", 0, 5)) == 5


def test_conversions_and_truth_of_3_13():
    text = [
        ("LOAD_CONST", 0, "a"), ("CONVERT_VALUE", 2, None), ("FORMAT_SIMPLE", 0, None), ("LOAD_CONST", 0, 2.5),
        ("LOAD_CONST", 0, ".2f"), ("FORMAT_WITH_SPEC", 0, None), ("BUILD_STRING", 2, None), ("RETURN_VALUE", 0, None),
    ]  # fmt: skip
    assert run((3, 13), *text) == "'a'2.50"
    truth = [
        ("LOAD_CONST", 0, []), ("TO_BOOL", 0, None), ("POP_JUMP_IF_FALSE", 0, 4), ("RETURN_CONST", 0, 1),
        ("RETURN_CONST", 0, 2),
    ]  # fmt: skip
    assert run((3, 13), *truth) == 2
    assert repr(NULL) == "NULL"
