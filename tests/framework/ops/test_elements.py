"""Gathering and scattering by coordinates, and what goes wrong."""

import numpy as np
import pytest
from mindscope.framework import DtypeError, ShapeError, Tensor, ops


@pytest.mark.parametrize("batch_axes", [0, 1, 2])
def test_gather_nd_walks_over_the_coordinates(batch_axes):
    random = np.random.default_rng(batch_axes)
    x = random.standard_normal((2, 3, 4, 5))
    lead = x.shape[:batch_axes]
    indices = np.stack([random.integers(-n, n, (*lead, 6)) for n in x.shape[batch_axes : batch_axes + 2]], -1)
    found = ops.gather_nd(Tensor(x), Tensor(indices), batch_axes).numpy()
    for place in np.ndindex(*lead, 6):
        np.testing.assert_array_equal(found[place], x[(*place[:batch_axes], *indices[place])])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd_walks_over_the_coordinates(reduction):
    combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    random = np.random.default_rng(1)
    x, updates = random.standard_normal((3, 4, 2)), random.standard_normal((5, 2))
    indices = np.array([[0, 1], [2, -1], [1, 1], [-1, 0], [0, 0]])
    if reduction == "add":
        indices[1] = indices[0]
    found = ops.scatter_nd(Tensor(x), Tensor(indices), Tensor(updates), reduction)
    expected = x.copy()
    for place, update in zip(indices, updates, strict=True):
        expected[tuple(place)] = combine[reduction](expected[tuple(place)], update)
    np.testing.assert_allclose(found.numpy(), expected)


def test_slices_are_added_put_and_filled_by_index():
    x, rows = Tensor(np.zeros((3, 2))), Tensor(np.ones((2, 2)))
    assert ops.index_add(x, 0, Tensor([1, 1]), rows).tolist() == [[0, 0], [2, 2], [0, 0]]
    assert ops.index_put(x, 0, Tensor([2, 0]), rows).tolist() == [[1, 1], [0, 0], [1, 1]]
    assert ops.index_fill(x, 1, Tensor([-1]), 7.0).tolist() == [[0, 7]] * 3
    assert ops.take(Tensor([[1, 2], [3, 4]]), Tensor([3, 0])).tolist() == [4, 1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.gather_elements(x, Tensor([[9, 0]]), 1), ShapeError, "index 9 does not exist along axis 1"),
        (lambda x: ops.gather_elements(x, Tensor([0])), ShapeError, "as many axes as the tensor"),
        (lambda x: ops.gather_elements(x, Tensor([[0.5]])), DtypeError, "must be integers, got float32"),
        (lambda x: ops.gather_elements(x, Tensor([[0] * 9])), ShapeError, r"\(1, 9\) are longer than \(2, 3\)"),
        (lambda x: ops.scatter_elements(x, Tensor([[0]]), Tensor([1.0])), ShapeError, "updates expect the shape"),
        (lambda x: ops.scatter_elements(x, Tensor([[0]]), x, reduction="sum"), ValueError, "no reduction 'sum'"),
        (lambda x: ops.scatter_nd(x, Tensor([[0]]), x), ShapeError, r"expects updates \(1, 3\)"),
        (lambda x: ops.gather_nd(x, Tensor([[0, 0, 0]])), ShapeError, "the last axis is too long"),
    ],
)
def test_errors_say_what_was_expected(call, error, words):
    with pytest.raises(error, match=words):
        call(Tensor(np.ones((2, 3))))
