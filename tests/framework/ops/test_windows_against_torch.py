"""Windows, resizing and sampling on random shapes: the same values and gradients as PyTorch, in float64."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mindscope.framework import Tensor, ops
from mindscope.framework.errors import ShapeError

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
F = torch.nn.functional

_CONV = {1: (ops.conv1d, F.conv1d), 2: (ops.conv2d, F.conv2d), 3: (ops.conv3d, F.conv3d)}
_TRANSPOSED = {
    1: (ops.conv_transpose1d, F.conv_transpose1d),
    2: (ops.conv_transpose2d, F.conv_transpose2d),
    3: (ops.conv_transpose3d, F.conv_transpose3d),
}
_MAX = {
    1: (ops.max_pool1d, F.max_pool1d),
    2: (ops.max_pool2d, F.max_pool2d),
    3: (ops.max_pool3d, F.max_pool3d),
}
_AVG = {
    1: (ops.avg_pool1d, F.avg_pool1d),
    2: (ops.avg_pool2d, F.avg_pool2d),
    3: (ops.avg_pool3d, F.avg_pool3d),
}


def agree(ours, theirs, arrays, tolerance=1e-9):
    """Nothing; values and all gradients of the weighted sum of both functions are equal."""
    xs = [Tensor(x, requires_grad=True) for x in arrays]
    ts = [torch.tensor(x, requires_grad=True) for x in arrays]
    y, z = ours(*xs), theirs(*ts)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=tolerance, atol=tolerance)
    weights = np.random.default_rng(1).standard_normal(y.shape)
    (y * Tensor(weights)).sum().backward()
    (z * torch.tensor(weights)).sum().backward()
    for x, t in zip(xs, ts, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=tolerance, atol=tolerance)


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@st.composite
def windows(draw, axes=None, half=False):
    """Axes, lengths, kernel, stride, padding (up to half the kernel) and dilation that fit together."""
    axes = axes or draw(st.integers(1, 3))
    kernel, stride, dilation = (tuple(draw(st.integers(1, high)) for _ in range(axes)) for high in (3, 3, 2))
    padding = tuple(draw(st.integers(0, k // 2 if half else 2)) for k in kernel)
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, p, d in zip(kernel, padding, dilation, strict=True)]
    lengths = tuple(draw(st.integers(low, low + 3)) for low in least)
    return axes, lengths, kernel, stride, padding, dilation


@settings(max_examples=60, deadline=None)
@given(windows(), st.integers(1, 2), st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_convolution(window, groups, out, has_bias, seed):
    axes, lengths, kernel, stride, padding, dilation = window
    arrays = [numbers(seed, 2, 2 * groups, *lengths), numbers(seed + 1, out * groups, 2, *kernel)]
    arrays += [numbers(seed + 2, out * groups)] if has_bias else []
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    ours, theirs = _CONV[axes]
    agree(lambda *a: ours(*a, **how), lambda *a: theirs(*a, **how), arrays)


@settings(max_examples=60, deadline=None)
@given(windows(), st.integers(1, 2), st.booleans(), st.integers(0, 99))
def test_transposed_convolution(window, groups, grows, seed):
    axes, lengths, kernel, stride, padding, dilation = window
    extra = tuple(max(s, d) - 1 if grows else 0 for s, d in zip(stride, dilation, strict=True))
    made = [
        s * (n - 1) + d * (k - 1) + 1 - 2 * p + e
        for s, n, d, k, p, e in zip(stride, lengths, dilation, kernel, padding, extra, strict=True)
    ]
    assume(min(made) > 0)
    arrays = [
        numbers(seed, 2, 2 * groups, *lengths),
        numbers(seed + 1, 2 * groups, 3, *kernel),
        numbers(seed, 3 * groups),
    ]
    how = {"stride": stride, "padding": padding, "output_padding": extra, "dilation": dilation, "groups": groups}
    ours, theirs = _TRANSPOSED[axes]
    agree(lambda *a: ours(*a, **how), lambda *a: theirs(*a, **how), arrays)


@settings(max_examples=60, deadline=None)
@given(windows(half=True), st.booleans(), st.integers(0, 99))
def test_max_pooling(window, ceil, seed):
    axes, lengths, kernel, stride, padding, dilation = window
    ours, theirs = _MAX[axes]
    x = numbers(seed, 2, 2, *lengths)
    assume(np.isfinite(theirs(torch.tensor(x), kernel, stride, padding, dilation, ceil).numpy()).all())
    agree(
        lambda x: ours(x, kernel, stride, padding, dilation, ceil),
        lambda x: theirs(x, kernel, stride, padding, dilation, ceil),
        [x],
    )


def test_a_window_that_lies_in_the_padding_is_minus_infinity_and_passes_no_gradient():
    x = Tensor(np.array([[[3.0]]]), requires_grad=True)
    y = ops.max_pool1d(x, 2, 1, 1, 2)
    assert y.tolist() == [[[-np.inf]]]
    y.sum().backward()
    assert x.grad.tolist() == [[[0.0]]]


@settings(max_examples=60, deadline=None)
@given(windows(half=True), st.booleans(), st.booleans(), st.integers(0, 99))
def test_mean_pooling(window, ceil, include, seed):
    axes, lengths, kernel, stride, padding, _ = window
    lengths = tuple(map(max, lengths, kernel))  # PyTorch wants no image smaller than the window
    ours, theirs = _AVG[axes]
    agree(
        lambda x: ours(x, kernel, stride, padding, 1, ceil, include),
        lambda x: theirs(x, kernel, stride, padding, ceil, include),
        [numbers(seed, 2, 2, *lengths)],
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_adaptive_pooling(height, width, rows, columns, seed):
    size, x = (rows, columns), numbers(seed, 2, 2, height, width)
    agree(lambda x: ops.adaptive_avg_pool2d(x, size), lambda x: F.adaptive_avg_pool2d(x, size), [x])
    agree(lambda x: ops.adaptive_max_pool2d(x, size), lambda x: F.adaptive_max_pool2d(x, size), [x])


@settings(max_examples=30, deadline=None)
@given(windows(axes=2), st.integers(0, 99))
def test_folding(window, seed):
    _, lengths, kernel, stride, padding, dilation = window
    how = (dilation, padding, stride)
    agree(
        lambda x: ops.unfold(x, kernel, stride, padding, dilation),
        lambda x: F.unfold(x, kernel, *how),
        [numbers(seed, 2, 3, *lengths)],
    )
    columns = F.unfold(torch.zeros(1, 3, *lengths), kernel, *how).shape
    agree(
        lambda x: ops.fold(x, lengths, kernel, stride, padding, dilation),
        lambda x: F.fold(x, lengths, kernel, *how),
        [numbers(seed, 2, *columns[1:])],
    )


def test_unpooling_puts_elements_back_where_they_were_found():
    x = numbers(0, 2, 3, 6, 4)

    def ours(x):
        values, places = ops.max_pool_with_places(x, 2)
        return ops.max_unpool(values, places, (2, 3, 6, 4))

    agree(ours, lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), [x])


def test_unpooling_to_a_place_that_does_not_exist_is_an_error():
    with pytest.raises(ShapeError, match="place 9 does not exist"):
        ops.max_unpool(Tensor(np.ones((1, 1, 1))), Tensor(np.full((1, 1, 1), 9)), (1, 1, 4))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_pooling_by_a_norm(p):
    x = np.abs(numbers(0, 2, 2, 5, 6)) + 0.1
    agree(lambda x: ops.lp_pool(x, p, (2, 3), 2), lambda x: F.lp_pool2d(x, p, (2, 3), 2), [x])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["nearest", "nearest-exact", "linear", "bicubic"]),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(1, 9),
    st.booleans(),
    st.integers(0, 99),
)
def test_interpolation(mode, length, rows, columns, corners, seed):
    corners = corners and not mode.startswith("nearest")
    theirs = "bilinear" if mode == "linear" else mode
    options = {"align_corners": corners} if not mode.startswith("nearest") else {}
    agree(
        lambda x: ops.interpolate(x, (rows, columns), mode=mode, align_corners=corners),
        lambda x: F.interpolate(x, (rows, columns), mode=theirs, **options),
        [numbers(seed, 1, 2, length, 4)],
        1e-7,
    )


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sampling_at_a_grid(mode, padding, corners):
    x, grid = numbers(0, 2, 3, 5, 4), numbers(1, 2, 6, 7, 2) * 0.8
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)

    def ours(x, grid):
        return ops.grid_sample(x, grid, mode, padding, corners) + (grid * 0.0).sum()

    def theirs(x, grid):
        return F.grid_sample(x, grid, name, padding, corners) + (grid * 0.0).sum()

    agree(ours, theirs, [x, grid], 1e-7)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("lengths", [(4, 5), (3, 4, 2)])
def test_affine_grids(lengths, corners):
    size = (2, 3, *lengths)
    agree(
        lambda theta: ops.affine_grid(theta, size, corners),
        lambda theta: F.affine_grid(theta, size, corners),
        [numbers(0, 2, len(lengths), len(lengths) + 1)],
    )


def test_a_deformed_convolution_without_offsets_is_a_convolution():
    x, weight = numbers(0, 2, 4, 6, 5), numbers(1, 6, 2, 3, 3)
    offset = Tensor(np.zeros((2, 2 * 9 * 2, 6, 5)))
    agree(
        lambda x, w: ops.deform_conv(x, w, offset, padding=((1, 1), (1, 1)), groups=2, offset_groups=2),
        lambda x, w: F.conv2d(x, w, padding=1, groups=2),
        [x, weight],
    )


def test_whole_regions_are_means_of_whole_images():
    x = numbers(0, 1, 2, 4, 4)
    rois, batch = Tensor(np.array([[0.5, 0.5, 3.5, 3.5]])), Tensor(np.array([0]))
    found = ops.roi_align(Tensor(x), rois, batch, (1, 1), sampling_ratio=3)
    spots = np.array([0.5, 1.5, 2.5])
    middle = [(x[:, :, r, c] + x[:, :, r + 1, c] + x[:, :, r, c + 1] + x[:, :, r + 1, c + 1]) / 4
              for r in spots.astype(int) for c in spots.astype(int)]  # fmt: skip
    np.testing.assert_allclose(found.numpy()[:, :, 0, 0], np.mean(middle, 0), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ops.conv1d(x, x), "over 1 axes expects images"),
        (lambda x: ops.conv2d(x, Tensor(np.ones((3, 4, 1, 1)))), "channels"),
        (lambda x: ops.conv2d(x, Tensor(np.ones((1, 2, 9, 9)))), "does not fit"),
        (lambda x: ops.conv2d(x, Tensor(np.ones((1, 2, 1, 1))), stride=(1, 1, 1)), "one number or 2"),
        (lambda x: ops.conv2d(x, Tensor(np.ones((1, 2, 1, 1))), padding="around"), "'same'"),
        (lambda x: ops.conv_transpose2d(x, Tensor(np.ones((2, 1, 2, 2))), output_padding=1), "smaller than stride"),
        (lambda x: ops.max_pool2d(x, 2, padding=2), "smaller than the window"),
        (lambda x: ops.fold(x[0], (4, 4), 2), "expects columns"),
        (lambda x: ops.grid_sample(x, x), "expects a grid"),
        (lambda x: ops.resize(x), "size or scales"),
    ],
)  # fmt: skip
def test_errors_say_what_was_expected(call, words):
    with pytest.raises(ShapeError, match=words):
        call(Tensor(np.ones((1, 2, 4, 4))))
