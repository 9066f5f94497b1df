"""Integers as Python has them, within the width of their dtype."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.framework import DtypeError, ShapeError, Tensor, ops

_INT8 = st.integers(-128, 127)


def _wrapped(number):
    return (number + 128) % 256 - 128


@given(_INT8, _INT8, st.integers(0, 9))
def test_operators_are_those_of_python_in_8_bits(a, b, distance):
    x, y = Tensor(np.int8([a])), Tensor(np.int8([b]))
    by = Tensor(np.int8([distance]))
    assert (x & y).item() == a & b
    assert (x | y).item() == a | b
    assert (x ^ y).item() == a ^ b
    assert (~x).item() == ~a
    assert (x << by).item() == _wrapped(a << distance) if distance < 8 else (x << by).item() == 0
    assert (x >> by).item() == a >> distance
    if b not in (0, -1):
        assert (x // y).item() == a // b
        assert (x % y).item() == a % b
        assert ops.fmod(x, y).item() == int(np.fmod(a, b))


def test_python_numbers_may_stand_on_either_side():
    x = Tensor([5, 6])
    assert [(2 & x).tolist(), (1 << x).tolist(), (7 // x).tolist(), (7 % x).tolist()] == [
        [0, 2],
        [32, 64],
        [1, 1],
        [2, 1],
    ]
    quotient, rest = divmod(x, 4)
    assert (quotient.tolist(), rest.tolist()) == ([1, 1], [1, 2])
    assert (Tensor([True, False]) ^ True).tolist() == [False, True]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int64", "float32", "complex64"])
def test_every_dtype_adds_casts_and_reads_its_own_bytes(dtype):
    x = Tensor(np.arange(4), dtype)
    assert (x + x).tolist() == [0, 2, 4, 6]
    assert x.astype("complex128").astype(dtype).tolist() == x.tolist()
    assert ops.bitcast(ops.bitcast(x, "uint8"), dtype).tolist() == x.tolist() or dtype in ("uint8", "int8")


def test_errors_name_the_operation():
    with pytest.raises(DtypeError, match="'bitwise_and' expects integers or bools, got float32"):
        _ = Tensor([1.0]) & 1
    with pytest.raises(ShapeError, match="a last axis of 8"):
        ops.bitcast(Tensor(np.uint8([1, 2])), "int64")
