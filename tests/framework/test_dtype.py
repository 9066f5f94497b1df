"""Promotion: which type a result has."""

import itertools

import numpy as np
import pytest
from mindscope.framework import (
    DtypeError,
    Tensor,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from mindscope.framework.dtype import as_dtype, promote, promote_scalar

_ALL = (bool_, uint8, uint32, int32, int64, float16, bfloat16, float32, float64, complex64, complex128)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (float32, int64, float32),
        (float16, int64, float16),
        (float16, bfloat16, float32),
        (bfloat16, float32, float32),
        (float32, float64, float64),
        (bool_, uint8, uint8),
        (uint8, int32, int32),
        (bool_, float16, float16),
        (uint32, int32, int64),
        (uint8, uint64, uint64),
        (complex64, float32, complex64),
        (complex64, float64, complex128),
        (complex64, bfloat16, complex64),
        (complex64, int64, complex64),
    ],
    ids=str,
)
def test_promotion_table(a, b, expected):
    assert promote(a, b) == promote(b, a) == expected
    found = Tensor(np.ones(2), a) + Tensor(np.ones(2), b)
    assert found.dtype == expected


@pytest.mark.parametrize(("a", "b"), list(itertools.product(_ALL, _ALL)), ids=str)
def test_promotion_is_symmetric_and_never_invents_float64(a, b):
    assert promote(a, b) == promote(b, a)
    assert (promote(a, b) in (float64, complex128)) == (float64 in (a, b) or complex128 in (a, b))


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (float16, 2.5, float16),
        (bfloat16, 2, bfloat16),
        (int32, 2, int32),
        (int32, 2.5, float32),
        (bool_, 2, int64),
        (uint64, 2, uint64),
        (float32, 2j, complex64),
        (float64, 2j, complex128),
        (int64, 2j, complex64),
        (complex64, 2.5, complex64),
    ],
    ids=str,
)
def test_a_python_number_is_weak(dtype, number, expected):
    assert promote_scalar(dtype, number) == expected
    assert (Tensor(np.ones(2), dtype) * number).dtype == expected
    assert (number + Tensor(np.ones(2), dtype)).dtype == expected


def test_uint64_and_a_signed_integer_are_refused():
    with pytest.raises(DtypeError, match="no integer type holds both uint64 and int8"):
        Tensor(np.ones(2), uint64) + Tensor(np.ones(2), "int8")


def test_integers_are_divided_in_float32():
    found = Tensor([1, 2]) / Tensor([2, 2])
    assert found.dtype == float32
    assert found.tolist() == [0.5, 1.0]
    assert (Tensor([1, 2]) / 2).tolist() == [0.5, 1.0]


def test_names_become_dtypes_and_unknown_ones_are_refused():
    assert as_dtype("bfloat16") == bfloat16
    assert as_dtype("float32") == float32
    for wrong in ("float128x", "complex256", "datetime64[s]"):
        with pytest.raises(DtypeError, match="use one of bool"):
            as_dtype(wrong)


def test_a_cast_sends_the_gradient_back_in_the_former_type():
    x = Tensor(np.ones(2, np.float16), requires_grad=True)
    (x.astype("float64") * 3.0).sum().backward()
    assert x.grad.dtype == float16
    assert x.grad.tolist() == [3.0, 3.0]
