"""Tensors and parameters: what they hold, how they share it, and what they refuse."""

import numpy as np
import pytest
from mindscope.framework import DtypeError, GradientError, Parameter, ShapeError, Tensor, float32, float64, int64


def test_python_floats_become_float32_and_arrays_keep_their_type():
    assert Tensor([1.0, 2.0]).dtype == float32
    assert Tensor([1, 2]).dtype == int64
    assert Tensor(np.ones(2)).dtype == float64
    assert Tensor(3.0).shape == ()
    assert Tensor([1.0], "float16").dtype == np.float16


def test_an_array_is_shared_and_asnumpy_is_a_copy():
    array = np.ones(3)
    x = Tensor(array)
    assert x.numpy() is array
    x.asnumpy()[:] = 5.0
    assert (array == 1.0).all()


@pytest.mark.parametrize("data", [np.array(["a"]), np.ones(2, "datetime64[s]"), np.array([None])])
def test_what_is_no_number_is_refused(data):
    with pytest.raises(DtypeError, match="no element type"):
        Tensor(data)


def test_integers_cannot_require_a_gradient():
    with pytest.raises(DtypeError, match="must be floating-point, got int64"):
        Tensor([1, 2], requires_grad=True)


def test_operators_take_tensors_arrays_and_numbers_from_both_sides():
    x = Tensor(np.array([1.0, 4.0], np.float32))
    array = np.array([2.0, 2.0], np.float32)
    for found, expected in (
        (x + 1, [2, 5]), (1 + x, [2, 5]), (x - 1, [0, 3]), (1 - x, [0, -3]), (x * 2, [2, 8]), (2 * x, [2, 8]),
        (x / 2, [0.5, 2]), (2 / x, [2, 0.5]), (x**2, [1, 16]), (x**0.5, [1, 2]), (2**x, [2, 16]), (-x, [-1, -4]),
        (abs(-x), [1, 4]), (array + x, [3, 6]), (x - array, [-1, 2]), (array * x, [2, 8]), (array / x, [2, 0.5]),
        (x * np.float64(2), [2, 8]), (x**0, [1, 1]), (x**1, [1, 4]), (x**np.int64(2), [1, 16]),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), expected)
        assert found.dtype == float32


def test_comparisons_are_tensors_of_bool():
    x = Tensor([1.0, 2.0, 3.0])
    for found, expected in (
        (x == 2, [0, 1, 0]), (x != 2, [1, 0, 1]), (x < 2, [1, 0, 0]),
        (x <= 2, [1, 1, 0]), (x > 2, [0, 0, 1]), (x >= 2, [0, 1, 1]),
    ):  # fmt: skip
        np.testing.assert_array_equal(found.numpy(), np.array(expected, bool))
    assert len({x: 1}) == 1


def test_an_operand_that_is_no_number_is_refused():
    with pytest.raises(DtypeError, match="must be a tensor, an array or a number, got str"):
        Tensor([1.0]) + "1"


def test_conversions_need_one_element():
    assert float(Tensor([2.5])) == 2.5
    assert int(Tensor(7)) == 7
    assert bool(Tensor([True]))
    assert [10, 20][Tensor(1)] == 20
    with pytest.raises(ShapeError, match="one element"):
        float(Tensor([1.0, 2.0]))
    with pytest.raises(DtypeError, match="integer tensor"):
        [10, 20][Tensor(1.0)]


def test_len_iteration_and_indexing():
    x = Tensor(np.arange(6.0).reshape(3, 2))
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    np.testing.assert_array_equal(x[Tensor([2, 0])].numpy(), [[4, 5], [0, 1]])
    np.testing.assert_array_equal(x[x > 2.0].numpy(), [3, 4, 5])
    with pytest.raises(ShapeError, match="no axes has no length"):
        len(Tensor(1.0))


def test_item_assignment_writes_in_place_only_where_nothing_is_recorded():
    x = Tensor(np.zeros(3))
    x[1] = 5.0
    assert x.tolist() == [0.0, 5.0, 0.0]
    assert x.version == 1
    with pytest.raises(GradientError, match=r"ops\.where"):
        Parameter(np.zeros(3))[0] = 1.0


def test_a_result_of_a_recorded_operation_cannot_be_overwritten():
    y = Parameter(np.ones(2)) * 2.0
    with pytest.raises(GradientError, match="cannot be overwritten"):
        y.copy_(np.zeros(2))


def test_set_data_keeps_the_array_and_checks_the_shape():
    w = Parameter(np.ones(3, np.float32), "w")
    array = w.numpy()
    w.set_data([1.0, 2.0, 3.0])
    assert w.numpy() is array
    assert w.dtype == float32
    with pytest.raises(ShapeError, match=r"shape \(3,\) with shape \(2,\)"):
        w.set_data([1.0, 2.0])


def test_a_parameter_moves_into_storage_with_its_values():
    w, arena = Parameter(np.arange(3.0), "w"), np.zeros(10)
    w.move_to(arena[2:5])
    arena[2] = 9.0
    assert w.tolist() == [9.0, 1.0, 2.0]
    with pytest.raises(ShapeError, match="cannot move"):
        w.move_to(arena)


def test_the_gradient_must_have_the_shape_of_the_tensor():
    w = Parameter(np.ones(3))
    with pytest.raises(ShapeError, match="cannot have shape"):
        w.grad = Tensor(np.ones(2))


def test_repr_names_what_it_is():
    assert repr(Tensor([1.0])) == "Tensor([1.], dtype=float32)"
    assert "name='w'" in repr(Parameter(np.ones(2), "w"))


def test_numpy_functions_accept_tensors():
    np.testing.assert_array_equal(np.asarray(Tensor([1.0, 2.0])), [1.0, 2.0])
    np.testing.assert_allclose(Tensor([1.0, 2.0]), [1.0, 2.0])


def test_methods_reach_the_operations():
    x = Tensor(np.arange(1.0, 7.0).reshape(2, 3))
    assert x.sum().item() == 21.0
    assert x.mean(0).tolist() == [2.5, 3.5, 4.5]
    assert x.var(1).tolist() == pytest.approx([2 / 3, 2 / 3])
    assert (x.max().item(), x.min().item(), x.argmax().item()) == (6.0, 1.0, 5)
    assert x.reshape(3, -1).shape == x.reshape((3, 2)).shape == (3, 2)
    assert x.T.shape == x.transpose(1, 0).shape == x.transpose((1, 0)).shape == x.swapaxes(0, 1).shape == (3, 2)
    assert x.flatten().shape == (6,)
    np.testing.assert_allclose(x.exp().log().numpy(), x.numpy())
    np.testing.assert_allclose((x.sqrt() * x.sqrt()).numpy(), x.numpy())
    np.testing.assert_allclose(x.tanh().numpy(), np.tanh(x.numpy()))
