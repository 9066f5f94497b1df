"""Symbolic lengths: exact arithmetic, comparisons that hold for all lengths or are refused, inference unchanged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import PRIMITIVES, Dim
from mindscope.framework.errors import EngineError
from mindscope.framework.specs import Spec, broadcast_shapes, spec_of
from mindscope.framework.symbolic import SymbolicError, assuming, dims_of, parse_length, substitute, unify

from tests.contracts.primitive_cases import CASES

N, M = Dim("n"), Dim("m")

_TEXTS = st.recursive(
    st.sampled_from(["n", "m", "k", "0", "1", "2", "3", "7"]),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner),
    max_leaves=6,
)
_LENGTHS = st.fixed_dictionaries({name: st.integers(2, 12) for name in "nmk"})


def _value(text, lengths):
    """What Python makes of an expression, None for a division by zero."""
    try:
        return eval(text, {}, lengths)
    except ZeroDivisionError:
        return None


@settings(max_examples=300, deadline=None)
@given(_TEXTS, _LENGTHS, st.integers(-2, 9))
def test_expressions_are_exact_and_decided_comparisons_hold(text, lengths, bound):
    symbolic = _value(text, {name: Dim(name) for name in "nmk"})
    number = _value(text, lengths)
    if symbolic is None or number is None:
        return
    assert substitute(symbolic, lengths) == number
    assert parse_length(str(symbolic)) == symbolic
    try:
        decided = symbolic >= bound, symbolic < bound, symbolic > bound
    except SymbolicError:
        return
    assert decided == (number >= bound, number < bound, number > bound)


def test_equal_expressions_are_equal_objects():
    assert (N + 1) * (N - 1) == N * N - 1
    assert len({N + M, M + N, 2 * N // 2 + M}) == 1
    assert (4 * N + 3) // 4 == N
    assert (12 * N * M) // (4 * N) == 3 * M
    assert (N // 2) * 2 + N % 2 == N
    assert N - N == 0
    assert type(N - N) is int
    assert N != M
    assert N != 5
    assert str(2 * N * N - M // 3 + 1) == "2*n*n - (m // 3) + 1"


def test_windows_and_slices_are_decided():
    assert (N + 2 - 3) // 2 + 1 >= 1
    assert N // 2 <= N
    assert 0 <= N % 3 < 3
    assert N * M >= N
    assert N != 1
    assert max(1, N) == N


@pytest.mark.parametrize("ask", [lambda: N > 5, lambda: N >= M, lambda: bool(N - 2), lambda: range(N), lambda: int(N)])
def test_what_is_not_decided_names_the_length(ask):
    with pytest.raises(SymbolicError, match=r"\bn\b"):
        ask()


def test_lengths_broadcast_with_one_and_themselves_only():
    assert broadcast_shapes((N, 1), (1, M)) == (N, M)
    assert broadcast_shapes((N,), (3, N)) == (3, N)
    with pytest.raises(EngineError, match=r"\(n,\) and \(m,\) do not broadcast"):
        broadcast_shapes((N,), (M,))


def test_shapes_tell_lengths():
    known = {}
    assert unify((N, 2 * N, 3), (4, 8, 3), known)
    assert known == {"n": 4}
    assert not unify((N,), (5,), known)
    assert not unify((2 * M, M), (6, 4), {})
    assert not unify((N, 3), (4, 3, 1), {})
    assert dims_of((N // M, ("x", 1.0 / Dim("k")))) == {"n", "m", "k"}


def _replaced(value, old, new):
    if isinstance(value, tuple):
        parts = [_replaced(part, old, new) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return new if type(value) is int and value == old else value


def _with_length(case, old, new):
    """Specs and attributes of a case with another length for every axis of length `old`."""
    specs = [spec_of(x) for x in case.args]
    specs = [Spec(_replaced(s.shape, old, new), s.dtype, weak=s.weak) if isinstance(s, Spec) else s for s in specs]
    return specs, {
        key: _replaced(value, old, new) if key in ("shape", "sizes", "rows") else value
        for key, value in case.attributes.items()
    }


# The first two depend on values; the third has its result type as an attribute.
_WITHOUT_SHAPE = {"nonzero", "unique", "custom_call"}


@pytest.mark.parametrize("name", sorted(set(PRIMITIVES) & set(CASES) - _WITHOUT_SHAPE))
def test_inference_of_every_primitive_takes_symbolic_lengths(name):
    infer, agreed = PRIMITIVES[name].infer, 0
    for case in CASES[name]:
        shapes = [x.shape for x in case.args if hasattr(x, "shape")]
        shapes += [case.attributes["shape"]] if "shape" in case.attributes else []
        for old in {length for shape in shapes for length in shape if length > 1}:
            try:
                found = infer(*_with_length(case, old, N)[0], **_with_length(case, old, N)[1])
            except EngineError:
                continue  # the case needs that length, or the question has no answer for all lengths
            for length in (old, old + 1, old + 4):
                specs, attributes = _with_length(case, old, length)
                try:
                    concrete = infer(*specs, **attributes)
                except EngineError:
                    continue
                both = [x if isinstance(x, tuple) else (x,) for x in (found, concrete)]
                assert [Spec(substitute(s.shape, {"n": length}), s.dtype) for s in both[0]] == list(both[1])
                agreed += 1
    assert agreed or all(np.ndim(x) == 0 for case in CASES[name] for x in case.args if hasattr(x, "shape"))


def test_an_example_answers_what_has_no_answer_and_the_assumption_is_written_down():
    with assuming({"n": 8, "m": 3}) as assumptions:
        assert N > 5
        assert not N < M
        assert N == 8
        assert N != M
        assert N % 2 == 0
        assert list(range(M)) == [0, 1, 2]
        assert N >= 2  # has an answer, so nothing is assumed
    assert len(assumptions) == 6
    assert all(a.holds({"n": 8, "m": 3}) for a in assumptions)
    for lengths, broken in (({"n": 10, "m": 3}, 1), ({"n": 4, "m": 5}, 4)):
        assert sum(not a.holds(lengths) for a in assumptions) == broken
    assert not N == 8  # noqa: SIM201 (equality itself is asked for)
