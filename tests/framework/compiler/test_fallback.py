"""`jit(fallback="eager")`: what cannot be captured runs in plain Python, and everything is as plain Python has it."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from mindscope.framework import Key, Parameter, Tensor, grad, nn, ops
from mindscope.framework.compiler import CaptureError, jit

from tests.framework.compiler.source.running import assert_equal
from tests.framework.compiler.source.test_refused import REFUSED

HOLDER = SimpleNamespace(seen=[], calls=0)
WEIGHT = Parameter(np.array([0.5, -1.0, 2.0]), name="weight")


def foreign_values(x):
    y = ops.tanh(x * WEIGHT)
    z = np.sort(y.numpy())
    return (y * Tensor(z)).sum() + y.sum()


def changes_outside(x):
    y = x * 2
    HOLDER.seen.append(float(y.sum()))
    HOLDER.calls += 1
    return y * y


def caught(x):
    y = x * 2
    try:
        if y.sum() > 0:
            raise ValueError("positive")  # noqa: TRY301 (that is what is refused)
    except ValueError:
        y = y * 3
    return y


def imports(x):
    import math

    return x * math.pi


def yields(x):
    def rows():
        for row in x:
            yield row * 2

    return sum(rows())


def defines_a_class(x):
    class Twice:
        factor = 2

    return x * Twice.factor


def cut_by_value(x):
    y = x * x
    return y[: int(y[0]) % 3 + 1].sum()


def loop_before(x):
    s = x * 0 + 1
    while s.sum() < 10:
        s = s + s * s
    text = json.dumps(s.numpy().tolist())
    return s * len(text)


def grows(x):
    found = []
    for row in x:
        if row > 0:
            found.append(x * row)  # noqa: PERF401
    return ops.stack(found) * len(found) if found else x


FUNCTIONS = [
    foreign_values,
    changes_outside,
    caught,
    imports,
    yields,
    defines_a_class,
    cut_by_value,
    loop_before,
    grows,
]
POINTS = [(1.0, 2.0, 3.0), (-1.0, -2.0, 0.5), (2.0, -0.5, 0.25), (1.0, 2.0, 3.0)]


def point(numbers):
    return Tensor(np.array(numbers))


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_the_results_are_those_of_plain_python(fn):
    compiled = jit(fn, fallback="eager")
    with pytest.raises(CaptureError):
        jit(fn)(point(POINTS[0]))
    for numbers in POINTS:
        HOLDER.seen, HOLDER.calls = [], 0
        expected = fn(point(numbers))
        held = HOLDER.seen, HOLDER.calls
        HOLDER.seen, HOLDER.calls = [], 0
        assert_equal(compiled(point(numbers)), expected)
        assert (HOLDER.seen, HOLDER.calls) == held


@pytest.mark.parametrize("fn", [fn for fn in FUNCTIONS if fn is not yields], ids=lambda fn: fn.__name__)
def test_gradients_are_those_of_plain_python(fn):
    compiled = jit(fn, fallback="eager")

    def of(function):
        def second(x):
            return (grad(lambda x: function(x).sum())(x) * x).sum()

        return grad(lambda x: function(x).sum()), grad(second)

    for numbers in POINTS:
        for found, expected in zip(of(compiled), of(fn), strict=True):
            assert_equal(found(point(numbers)), expected(point(numbers)))


def test_place_and_construct_are_logged_once_and_explained(caplog):
    compiled = jit(foreign_values, fallback="eager")
    with caplog.at_level(logging.INFO, "mindscope.framework.compiler"):
        for _ in range(3):
            compiled(point(POINTS[0]))
    (first,) = [record.getMessage() for record in caplog.records if "falls back" in record.getMessage()]
    line = foreign_values.__code__.co_firstlineno + 2
    assert f"test_fallback.py:{line}" in first
    assert "numpy" in first
    reasons = compiled.explain()
    assert f"test_fallback.py:{line}" in reasons[0]
    assert "falls back to plain Python" in reasons[0]
    assert any(f"plain Python at {__file__}:{line}" in reason for reason in reasons[1:])
    assert compiled.explain() == reasons


def test_what_can_be_captured_is_one_graph_all_the_same():
    compiled = jit(lambda x: x * 2 if x.sum() > 0 else -x, fallback="eager")
    for numbers in POINTS:
        compiled(point(numbers))
    assert compiled.explain() == ("the first call",)


@pytest.mark.parametrize("word", ["eager", "error"])
def test_an_error_of_the_user_is_the_one_of_plain_python(word):
    def wrong(x):
        y = x * 2
        return json.dumps(y)

    with pytest.raises(TypeError, match="not JSON serializable"):
        jit(wrong, fallback=word)(point(POINTS[0]))


def test_a_cell_trains_the_same_with_a_region_in_plain_python():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(3, 3, key=Key(1), dtype=np.float64)
            self.largest = []

        def construct(self, x):
            y = ops.tanh(self.dense(x))
            self.largest.append(float(y.max()))
            return (y * y).sum()

    eager, compiled = Net(), Net()
    step = jit(compiled, fallback="eager")
    for numbers in POINTS:
        x = point(numbers).reshape(1, 3)
        expected = grad(eager, None, eager.trainable_params())(x)
        found = grad(step, None, compiled.trainable_params())(x)
        for a, b in zip(found, expected, strict=True):
            assert_equal(a, b)
    assert compiled.largest == eager.largest


def test_an_unknown_word_names_the_nearest():
    with pytest.raises(ValueError, match=r"fallback expects 'error' or 'eager', got 'eagre'; did you mean 'eager'"):
        jit(foreign_values, fallback="eagre")


def _outcome(fn):
    try:
        return fn(point(POINTS[0]))
    except Exception as error:  # noqa: BLE001 (whatever it is, it is compared)
        return type(error)


NO_RESULT = ("recursion_without_end", "generator", "function_returned", "text_returned", "tensor_kept")


@pytest.mark.parametrize("fn", [fn for fn, _ in REFUSED if fn.__name__ not in NO_RESULT], ids=lambda fn: fn.__name__)
def test_whatever_is_refused_runs_as_plain_python_does(fn, capsys):
    expected = _outcome(fn)
    found = _outcome(jit(fn, fallback="eager"))
    if isinstance(expected, type):
        assert found is expected
    else:
        assert_equal(found, expected)
