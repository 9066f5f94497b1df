"""Indices: whatever NumPy takes, and what inference says of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import PRIMITIVES, DataDependentShape, DtypeError, ShapeError, Tensor, ops
from mindscope.framework.ops.indexing_ops import _parts
from mindscope.framework.specs import spec_of

_SHAPE = (4, 3, 5)


@st.composite
def indices(draw):
    """Basic parts, with arrays of one broadcast shape between them."""
    parts, axis, arrays = [], 0, draw(st.sampled_from([(), (2,), (2, 1)]))
    while axis < len(_SHAPE) and draw(st.integers(0, 4)):
        n = min(_SHAPE)  # an Ellipsis may move the part to another axis
        kind = draw(st.sampled_from("iisnaa" if arrays else "isn"))
        if kind == "n":
            parts.append(None)
            continue
        if kind == "i":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "s":
            ends = st.none() | st.integers(-n - 2, n + 2)
            parts.append(slice(draw(ends), draw(ends), draw(st.none() | st.sampled_from([1, 2, 3, -1, -2]))))
        else:
            values = draw(st.lists(st.integers(-n, n - 1), min_size=2, max_size=2))
            parts.append(np.array(values).reshape(arrays))
        axis += 1
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
    return tuple(parts)


@settings(max_examples=150, deadline=None)
@given(indices())
def test_an_index_gives_what_numpy_gives_and_its_transpose_puts_it_back(index):
    array = np.arange(60.0).reshape(_SHAPE)
    x = Tensor(array, requires_grad=True)
    y = x[tuple(Tensor(part) if isinstance(part, np.ndarray) else part for part in index)]
    np.testing.assert_array_equal(y.numpy(), array[index])
    template, arrays = _parts(index)
    inferred = PRIMITIVES["getitem"].infer(spec_of(x), *map(spec_of, arrays), index=template)
    assert inferred.shape == array[index].shape
    hash(template)
    (y * y).sum().backward()
    expected = np.zeros(_SHAPE)
    np.add.at(expected, index, 2 * array[index])
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_a_mask_that_is_known_is_static_and_a_tensor_is_not():
    x = Tensor(np.arange(3.0))
    mask = np.array([True, False, True])
    assert x[mask].tolist() == x[Tensor(mask)].tolist() == [0.0, 2.0]
    template, arrays = _parts(Tensor(mask))
    with pytest.raises(DataDependentShape, match=r"depends on the data.*use ops\.where"):
        PRIMITIVES["getitem"].infer(spec_of(x), *map(spec_of, arrays), index=template)


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (5, ShapeError, "'getitem' cannot take .*out of bounds for axis 0 of length 3"),
        ((0, 0), ShapeError, "too many indices"),
        (1.5, DtypeError, "got float"),
        (np.array([0.5]), DtypeError, "integer or bool array, got float64"),
        (Tensor([0.5]), DtypeError, "integer or bool tensor, got float32"),
    ],
    ids=str,
)
def test_wrong_indices_are_named(index, error, words):
    with pytest.raises(error, match=words):
        _ = Tensor(np.ones(3))[index]


def test_rows_are_counted_from_the_end_by_negative_indices_both_ways():
    table = Tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    rows = ops.gather(table, Tensor([-1, 0]))
    assert rows.tolist() == [[4.0, 5.0], [0.0, 1.0]]
    rows.sum().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
