"""What NumPy says that windows should compute, by definition: one place of the result at a time, over any axes."""

import numpy as np


def count(length, kernel, stride, sides, dilation, ceil=False):
    """How many windows there are, by trying."""
    reach, starts = dilation * (kernel - 1) + 1, range(-sides[0], length + sides[1], stride)
    fits = [start for start in starts if start + reach <= length + sides[1]]
    if ceil and len(fits) < len(starts) and fits[-1] + reach < length + sides[1] and fits[-1] + stride < length:
        fits.append(fits[-1] + stride)
    return len(fits)


def convolution(x, w, window):
    stride, padding, dilation, groups = window
    padded = np.pad(x, ((0, 0), (0, 0), *padding))
    axes, out, depth = len(stride), w.shape[0], w.shape[1]
    lengths = [count(*axis) for axis in zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)]
    result = np.zeros((len(x), out, *lengths))
    for o, *place in np.ndindex(out, *lengths):
        first = o // (out // groups) * depth
        spans = [
            slice(p * stride[i], p * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1, dilation[i])
            for i, p in enumerate(place)
        ]
        part = padded[:, first : first + depth, *spans]
        result[:, o, *place] = (part * w[o]).sum(tuple(range(1, axes + 2)))
    return result


def _pooled(x, window, choose):
    kernel, stride, padding, dilation, ceil = window
    lengths = [count(*axis, ceil) for axis in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)]
    result = np.zeros((*x.shape[:2], *lengths))
    for place in np.ndindex(*lengths):
        spots = [np.arange(kernel[i]) * dilation[i] + p * stride[i] - padding[i][0] for i, p in enumerate(place)]
        inside = [s[(s >= 0) & (s < n)] for s, n in zip(spots, x.shape[2:], strict=True)]
        padded = [s[(s >= -a) & (s < n + b)] for s, n, (a, b) in zip(spots, x.shape[2:], padding, strict=True)]
        part = x[np.ix_(range(len(x)), range(x.shape[1]), *inside)].reshape(*x.shape[:2], -1)
        result[:, :, *place] = choose(part, int(np.prod([len(s) for s in padded])))
    return result


def max_pool(x, window):
    values = _pooled(x, window, lambda part, _: part.max(-1))
    flat = x.reshape(*x.shape[:2], -1)
    places = (flat[:, :, None, :] == values.reshape(*x.shape[:2], -1, 1)).argmax(-1)
    return values, places.reshape(values.shape)


def avg_pool(x, window, divisor):
    by = {"none": lambda part, padded: 1, "inside": lambda part, padded: part.shape[-1], "padded": lambda _, n: n}
    return _pooled(x, window, lambda part, padded: part.sum(-1) / by[divisor](part, padded))


def put_places(g, places, shape):
    out = np.zeros((*shape[:2], int(np.prod(shape[2:]))))
    for n, c, *rest in np.ndindex(g.shape):
        out[n, c, places[n, c, *rest]] += g[n, c, *rest]
    return out.reshape(shape)
