"""Elements in other places: what NumPy does, for axes and widths of every kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import ShapeError, Tensor, grad, ops

_X = np.random.default_rng(0).standard_normal((3, 4, 2))
_WIDTHS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=3)


@settings(max_examples=60, deadline=None)
@given(_WIDTHS, st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]))
def test_padding_is_numpys(widths, mode):
    np.testing.assert_array_equal(ops.pad(Tensor(_X), widths, mode).numpy(), np.pad(_X, widths, mode))


def test_negative_widths_cut():
    assert ops.pad(Tensor([1.0, 2.0, 3.0]), ((-1, 2),), value=9.0).tolist() == [2.0, 3.0, 9.0, 9.0]
    assert ops.pad(Tensor([1.0, 2.0, 3.0]), ((2, -1),), "edge").tolist() == [1.0, 1.0, 1.0, 2.0]


#: Ours and NumPy's.
SAME = {
    "roll": (lambda x: ops.roll(x, (5, -1), (0, 2)), lambda x: np.roll(x, (5, -1), (0, 2))),
    "roll_flat": (lambda x: ops.roll(x, 7), lambda x: np.roll(x, 7)),
    "flip": (lambda x: ops.flip(x, -1), lambda x: np.flip(x, -1)),
    "rot90": (lambda x: ops.rot90(x, -1, (2, 0)), lambda x: np.rot90(x, -1, (2, 0))),
    "moveaxis": (lambda x: ops.moveaxis(x, (0, 2), (-1, 0)), lambda x: np.moveaxis(x, (0, 2), (-1, 0))),
    "tile": (lambda x: ops.tile(x, (2, 1, 2, 3)), lambda x: np.tile(x, (2, 1, 2, 3))),
    "repeat": (lambda x: ops.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
    "repeat_each": (lambda x: ops.repeat(x, (1, 0, 3), 0), lambda x: np.repeat(x, (1, 0, 3), 0)),
    "expand_dims": (lambda x: ops.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1))),
    "squeeze": (lambda x: ops.squeeze(x[:, :1, :1]), lambda x: np.squeeze(x[:, :1, :1])),
    "diagonal": (lambda x: ops.diagonal(x, -1, 2, 1), lambda x: np.diagonal(x, -1, 2, 1)),
    "trace": (lambda x: ops.trace(x, 1), lambda x: np.trace(x, 1)),
    "triu": (lambda x: ops.triu(x, -1), lambda x: np.triu(x, -1)),
    "diag": (lambda x: ops.diag(x[0, 0], 2), lambda x: np.diag(x[0, 0], 2)),
    "unstack": (lambda x: ops.stack(ops.unstack(x, 1)), lambda x: np.moveaxis(x, 1, 0)),
    "chunk": (lambda x: ops.concat(ops.chunk(x, 3, 1)[1:], 1), lambda x: x[:, 2:]),
    "unflatten": (lambda x: ops.unflatten(x, 1, (2, -1)), lambda x: x.reshape(3, 2, 2, 2)),
    "expand": (lambda x: ops.expand(x[:, :1], (2, -1, 5, 1)), lambda x: np.broadcast_to(x[:, :1], (2, 3, 5, 2))),
    "meshgrid": (
        lambda x: ops.stack(ops.meshgrid(x[0, 0], x[0, :, 0], indexing="xy")),
        lambda x: np.stack(np.meshgrid(x[0, 0], x[0, :, 0])),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_places_are_numpys(name):
    mine, numpys = SAME[name]
    np.testing.assert_allclose(mine(Tensor(_X)).numpy(), numpys(_X))


def test_one_part_is_the_whole_and_has_its_gradient():
    for call in (lambda x: ops.split(x, 9)[0], lambda x: ops.chunk(x, 1)[0], lambda x: ops.unstack(x.reshape(1, 2))[0]):
        x = Tensor([1.0, 2.0], requires_grad=True)
        (call(x) * 3.0).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]


def test_blocks_of_pixels_go_to_channels_and_back():
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 6))
    deep = ops.space_to_depth(Tensor(x), 2)
    np.testing.assert_array_equal(deep.numpy()[:, 3:6], x[:, :, ::2, 1::2])
    np.testing.assert_array_equal(ops.depth_to_space(deep, 2).numpy(), x)


def test_one_hot_rows_count_from_the_end_and_ignore_what_is_out_of_range():
    found = ops.one_hot(Tensor([0, -1, 5]), 3, on=2.0, off=-1.0)
    assert found.tolist() == [[2.0, -1.0, -1.0], [-1.0, -1.0, 2.0], [-1.0, -1.0, -1.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ops.pad(x, ((1, 1),)), r"pad of \(3, 4, 2\) expects 3 pairs of widths, got 1"),
        (lambda x: ops.pad(x[:0], ((1, 1), (0, 0), (0, 0)), "edge"), "expects an element along axis 0"),
        (lambda x: ops.squeeze(x, 0), "squeeze expects length 1 along axis 0"),
        (lambda x: ops.moveaxis(x, (0, 0), (1, 2)), "as many targets as sources, each once"),
        (lambda x: ops.chunk(x, 0), "a part or more, got 0"),
        (lambda x: ops.diag(x), "diag expects one axis or two"),
        (lambda x: ops.tile(x, (-1, 1, 1)), "counts of 0 or more"),
    ],
)
def test_errors_say_what_was_expected(call, words):
    with pytest.raises(ShapeError, match=words):
        call(Tensor(_X))


def test_an_unknown_padding_mode_lists_the_known_ones():
    with pytest.raises(ValueError, match="no padding mode 'mirror'; use 'constant', 'reflect'"):
        ops.pad(Tensor(_X), ((1, 1),) * 3, "mirror")


def test_the_second_derivative_goes_through_the_concatenation_of_one_tensor():
    def fourth_power(x):
        return (ops.concat([x * x]) ** 2).sum()

    x = Tensor(np.array([1.0, 2.0]))
    second = grad(lambda x: (grad(fourth_power)(x) * x).sum())(x)
    np.testing.assert_allclose(second.numpy(), 16 * x.numpy() ** 3)
