"""`jit`: words, signatures, guards, methods, threads, and what stays when something fails."""

import copy
import threading

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, no_grad, ops, set_seed
from mindscope.framework.compiler import CaptureError, jit
from mindscope.framework.context import CAPTURE

TRACE = {"capture_mode": "trace"}
SCALE = 2.0
OFFSET = Tensor(np.array([1.0, 2.0]))


def vector(*values):
    return Tensor(np.array(values))


def scaled(x):
    return x * SCALE


def shifted(x):
    return x + OFFSET


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"capture_mode": "asd"}, "capture_mode expects 'ast' or 'bytecode' or 'trace', got 'asd'; did you mean 'ast'"),
        ({"jit_level": "O7"}, "jit_level expects 'O0' or 'O1', got 'O7'"),
        ({"backend": "nunpy"}, "no backend 'nunpy'; did you mean 'numpy'"),
    ],
)
def test_unknown_words_are_named_with_the_nearest_known_one(options, words):
    with pytest.raises(ValueError, match=words):
        jit(scaled, **options)


def test_what_cannot_be_called_cannot_be_compiled():
    with pytest.raises(TypeError, match="jit expects a function, a method or a cell, got int"):
        jit(3)


def test_a_function_is_compiled_once_for_each_signature():
    compiled = jit(scaled, **TRACE)
    for x in (vector(1.0), vector(2.0), vector(1.0, 2.0), Tensor(np.ones(1, np.float32)), vector(5.0)):
        np.testing.assert_array_equal(compiled(x).numpy(), scaled(x).numpy())
    first, shape, dtype = compiled.explain()
    assert first == "the first call"
    assert shape == "tensor 0 of the arguments was (1,) float64, is (2,) float64"
    assert "float32" in dtype


def test_numbers_that_are_equal_but_of_other_types_are_other_arguments():
    compiled = jit(lambda x, n: x * n, **TRACE)
    x = Tensor(np.array([3], np.int64))
    assert compiled(x, 1).dtype == np.int64
    assert compiled(x, 1.0).dtype == (x * 1.0).dtype
    assert compiled(x, True).dtype == (x * True).dtype
    assert len(compiled.explain()) == 3


def test_arguments_and_results_may_be_nested():
    def nested(pair, *, table, flag):
        a, b = pair
        return {"sum": a + b, "rest": [table["x"] * 2, flag]}

    compiled = jit(nested, **TRACE)
    given = {"pair": (vector(1.0), vector(2.0)), "table": {"x": vector(3.0)}, "flag": "word"}
    for _ in range(2):
        found = compiled(given["pair"], table=given["table"], flag="word")
        assert found["sum"].item() == 3.0
        assert found["rest"][0].item() == 6.0
        assert found["rest"][1] == "word"
    assert len(compiled.explain()) == 1


def test_arrays_and_random_keys_are_arguments_like_tensors():
    compiled = jit(lambda x, key: x + ops.uniform(key, (2,), dtype=np.float64), **TRACE)
    for seed in range(3):
        expected = np.ones(2) + ops.uniform(Key(seed), (2,), dtype=np.float64).numpy()
        np.testing.assert_array_equal(compiled(np.ones(2), Key(seed)).numpy(), expected)
    assert len(compiled.explain()) == 1


def test_a_changed_global_compiles_anew(monkeypatch):
    compiled = jit(scaled, **TRACE)
    assert compiled(vector(3.0)).item() == 6.0
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert compiled(vector(3.0)).item() == 15.0
    assert "global 'SCALE' was 2.0, is 5.0" in compiled.explain()[1]


def test_a_changed_closure_compiles_anew_and_the_former_graph_is_used_again():
    factor = 2.0

    def times(x):
        return x * factor

    compiled = jit(times, **TRACE)
    for factor in (2.0, 3.0, 2.0, 3.0):
        assert compiled(vector(1.0)).item() == factor
    assert len(compiled.explain()) == 2


def test_a_tensor_from_outside_that_is_changed_in_place_or_exchanged_is_seen(monkeypatch):
    compiled = jit(shifted, **TRACE)
    monkeypatch.setitem(globals(), "OFFSET", vector(1.0, 2.0))
    np.testing.assert_array_equal(compiled(vector(0.0, 0.0)).numpy(), [1.0, 2.0])
    OFFSET.copy_(np.array([5.0, 5.0]))
    np.testing.assert_array_equal(compiled(vector(0.0, 0.0)).numpy(), [5.0, 5.0])
    monkeypatch.setitem(globals(), "OFFSET", vector(7.0, 8.0))
    np.testing.assert_array_equal(compiled(vector(0.0, 0.0)).numpy(), [7.0, 8.0])


def test_attributes_modes_and_children_of_cells_are_guarded():
    class Scaled(nn.Cell):
        def __init__(self):
            super().__init__()
            self.factor = 2.0
            self.inner = nn.ReLU()

        def construct(self, x):
            return self.inner(x) * self.factor * (10.0 if self.training else 1.0)

    cell = Scaled()
    compiled = jit(cell, **TRACE)
    assert compiled(vector(1.0)).item() == 2.0
    cell.factor = 3.0
    assert compiled(vector(1.0)).item() == 3.0
    cell.set_train()
    assert compiled(vector(1.0)).item() == 30.0
    cell.inner = nn.Tanh()
    assert compiled(vector(1.0)).item() == pytest.approx(30.0 * np.tanh(1.0))
    assert len(compiled.explain()) == 4
    assert "factor was 2.0, is 3.0" in compiled.explain()[1]


@pytest.mark.parametrize("capture_mode", ["trace", "ast", "bytecode"])
def test_a_cell_that_gets_more_parts_is_captured_again(capture_mode):
    cells = nn.SequentialCell(nn.ReLU())
    compiled = jit(lambda x: cells(x), capture_mode=capture_mode)
    assert compiled(vector(-2.0, 3.0)).numpy().tolist() == [0.0, 3.0]
    cells.append(nn.Tanh())
    np.testing.assert_allclose(compiled(vector(-2.0, 3.0)).numpy(), [0.0, np.tanh(3.0)])
    delattr(cells, "1")
    assert compiled(vector(-2.0, 3.0)).numpy().tolist() == [0.0, 3.0]


def test_weights_are_read_where_they_are():
    cell = nn.Dense(2, 1, has_bias=False, key=Key(0), dtype=np.float64)
    compiled = jit(cell, **TRACE)
    x = Tensor(np.ones((1, 2)))
    compiled(x)
    cell.weight.set_data(np.array([[3.0, 4.0]]))
    assert compiled(x).item() == 7.0
    cell.weight.move_to(np.zeros((1, 2)))
    cell.weight.numpy()[...] = 5.0
    assert compiled(x).item() == 10.0
    assert len(compiled.explain()) == 1


def test_results_are_not_overwritten_by_the_next_call():
    compiled = jit(lambda x: (ops.tanh(x) * 2.0, x), **TRACE)
    x = vector(1.0, 2.0)
    first = compiled(x)
    kept = [part.asnumpy() for part in first]
    compiled(vector(5.0, 6.0))
    for part, array in zip(first, kept, strict=True):
        np.testing.assert_array_equal(part.numpy(), array)


def test_methods_are_compiled_for_each_instance_and_copies_have_their_own():
    class Counter(nn.Cell):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        @jit(capture_mode="trace")
        def construct(self, x):
            return x * self.factor

    two, three = Counter(2.0), Counter(3.0)
    assert two(vector(1.0)).item() == 2.0
    assert three(vector(1.0)).item() == 3.0
    twin = copy.deepcopy(two)
    twin.factor = 7.0
    assert twin(vector(1.0)).item() == 7.0
    assert two(vector(1.0)).item() == 2.0
    assert len(two.construct.explain()) == 1


def test_a_compiled_function_inside_another_becomes_part_of_it():
    inner = jit(lambda x: x * 3.0, **TRACE)
    outer = jit(lambda x: inner(x) + 1.0, **TRACE)
    assert outer(vector(2.0)).item() == 7.0
    assert inner.explain() == ()


def test_state_that_python_would_change_only_once_is_an_error_and_is_put_back():
    class Counting(nn.Cell):
        def __init__(self):
            super().__init__()
            self.count = 0

        def construct(self, x):
            self.count += 1
            return x

    cell = Counting()
    with pytest.raises(CaptureError, match="attribute 'count' of cell 'Counting' changed from 0 to 1"):
        jit(cell, **TRACE)(vector(1.0))
    assert cell.count == 0


def test_a_branch_on_values_names_file_line_and_remedy():
    def branching(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(CaptureError, match=r"a Python condition .* \(.*test_jit.py:\d+\); compile with capture_mode"):
        jit(branching, **TRACE)(vector(1.0))


@pytest.mark.parametrize("ask", [float, int, lambda x: x.numpy(), lambda x: x.item(), np.asarray, range, Tensor])
def test_whatever_asks_for_values_gets_an_error(ask):
    with pytest.raises(CaptureError, match="needs the values of a tensor"):
        jit(ask, **TRACE)(Tensor(np.array(1)))


def test_errors_name_the_operation_both_shapes_and_the_line():
    def wrong(x, y):
        return x @ y

    with pytest.raises(
        ValueError, match=r"'matmul' cannot take \(2, 3\) float64, \(2, 3\) float64, at .*test_jit.py:\d+"
    ):
        jit(wrong, **TRACE)(Tensor(np.ones((2, 3))), Tensor(np.ones((2, 3))))


def test_after_an_error_nothing_is_left_behind():
    cell = nn.Dense(3, 2, key=Key(0))
    compiled = jit(cell, **TRACE)
    with pytest.raises(ValueError, match="expects input"):
        compiled(Tensor(np.ones((2, 4), np.float32)))
    assert CAPTURE.get() is None
    x = Tensor(np.ones((2, 3), np.float32))
    np.testing.assert_allclose(compiled(x).numpy(), cell(x).numpy(), rtol=1e-6)


def test_a_tensor_that_escaped_from_a_capture_says_so():
    kept = []
    jit(lambda x: kept.append(x) or x * 2.0, **TRACE)(vector(1.0))
    with pytest.raises(CaptureError, match="return tensors from compiled functions instead of keeping them"):
        jit(scaled, **TRACE)(kept[0])
    with pytest.raises(CaptureError, match="return them"):
        kept[0] + 1.0


def test_random_numbers_are_drawn_anew_and_as_eager_code_draws_them():
    cell = nn.Dropout(0.5).set_train()
    x = Tensor(np.ones((4, 4)))
    set_seed(3)
    expected = [cell(x).numpy() for _ in range(3)]
    set_seed(3)
    compiled = jit(cell, **TRACE)
    for array in expected:
        np.testing.assert_array_equal(compiled(x).numpy(), array)


def test_two_threads_compile_and_call_at_once():
    compiled = jit(lambda x: ops.tanh(x) * 2.0, **TRACE)
    faults = []

    def work(size):
        x = Tensor(np.full(size, 0.5))
        for _ in range(30):
            found = compiled(x)
            if found.shape != (size,) or not np.allclose(found.numpy(), 2 * np.tanh(0.5)):
                faults.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 4, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(compiled.explain()) == 3


def test_too_many_graphs_are_warned_of_with_the_reason():
    compiled = jit(lambda x, n: x * n, **TRACE)
    for n in range(32):
        compiled(vector(1.0), n)
    with pytest.warns(RuntimeWarning, match="was compiled 33 times, the last time because the arguments have"):
        compiled(vector(1.0), 32)
    assert len(compiled.graphs()) == 32
    assert compiled(vector(1.0), 0).item() == 0.0


def test_code_without_recording_is_compiled_apart():
    compiled = jit(lambda x: x * 2.0, **TRACE)
    x = Tensor(np.ones(2), requires_grad=True)
    assert compiled(x).requires_grad
    with no_grad():
        assert not compiled(x).requires_grad
