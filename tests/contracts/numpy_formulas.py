"""What NumPy says that the primitives should compute: plain, slow and independent."""

import math

import numpy as np


def softmax(x, scale=1.0, causal=False):
    z = x * scale
    if causal:
        queries, keys = z.shape[-2:]
        z = np.where(np.tri(queries, keys, keys - queries, dtype=bool), z, -np.inf)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal_distribution(x):
    return np.vectorize(math.erf)(x / np.sqrt(2)) / 2 + 0.5


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def slope(function):
    """`g f'(x)` for an element-wise function, by Richardson's extrapolation of central differences."""

    def numeric(g, x):
        def central(h):
            return (function(x + h) - function(x - h)) / (2 * h)

        return g * (4 * central(1e-3) - central(2e-3)) / 3

    return numeric


def cross_entropy(x, labels, ignore, smoothing):
    log_p = np.log(softmax(x))
    target = np.eye(x.shape[1])[np.where(labels == ignore, 0, labels)] * (1 - smoothing) + smoothing / x.shape[1]
    return np.where(labels == ignore, 0.0, -(target * log_p).sum(-1))


def cross_entropy_gradient(g, x, labels, ignore, smoothing):
    target = np.eye(x.shape[1])[np.where(labels == ignore, 0, labels)] * (1 - smoothing) + smoothing / x.shape[1]
    return np.where(labels == ignore, 0.0, g)[:, None] * (softmax(x) - target)


def normalized(x, epsilon, axes=-1):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def jacobian_product(function, position):
    """The transpose of a function's Jacobian by its argument at `position`, times a cotangent; element by element."""

    def product(g, *args):
        x, h = args[position], 1e-4
        result = np.empty(x.shape)
        for place in np.ndindex(x.shape):
            rises = []
            for step in (h, -h, 2 * h, -2 * h):
                moved = x.copy()
                moved[place] += step
                rises.append((function(*args[:position], moved, *args[position + 1 :]) * g).sum())
            result[place] = (8 * (rises[0] - rises[1]) - (rises[2] - rises[3])) / (12 * h)
        return result

    return product


def all_products(function, count):
    return lambda g, *args: tuple(jacobian_product(function, i)(g, *args) for i in range(count))


def layer_norm(x, gamma, beta=0.0):
    return normalized(x, 1e-5) * gamma + beta


def rms_norm(x, gamma):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma


def batch_norm(x, gamma, beta=0.0):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    axes = (0, *range(2, x.ndim))
    return normalized(x, 1e-5, axes) * np.reshape(gamma, shape) + np.reshape(
        beta, (1, -1) + (1,) * (x.ndim - 2) if np.ndim(beta) else ()
    )


def batch_norm_gradient(g, x, gamma):
    found = all_products(lambda x, gamma: batch_norm(x, gamma), 2)(g, x, gamma)
    return (*found, g.sum((0, *range(2, x.ndim))))


def convolution(x, w, window):
    """Convolution by its definition, one output pixel at a time."""
    (sh, sw), (ph, pw), (dh, dw), groups = window
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    out, depth, kh, kw = w.shape
    rows = (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1
    columns = (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1
    result = np.zeros((len(x), out, rows, columns))
    for o, h, c in np.ndindex(out, rows, columns):
        first = o // (out // groups) * depth
        part = padded[:, first : first + depth, h * sh : h * sh + dh * kh : dh, c * sw : c * sw + dw * kw : dw]
        result[:, o, h, c] = (part[:, :, :kh, :kw] * w[o]).sum((1, 2, 3))
    return result


def pool(x, kernel, stride, padding, choose):
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=np.nan)
    rows = (padded.shape[2] - kernel[0]) // stride[0] + 1
    columns = (padded.shape[3] - kernel[1]) // stride[1] + 1
    result = np.zeros((*x.shape[:2], rows, columns))
    for h, c in np.ndindex(rows, columns):
        top, left = h * stride[0], c * stride[1]
        result[:, :, h, c] = choose(padded[:, :, top : top + kernel[0], left : left + kernel[1]])
    return result


def max_pool(x, kernel, stride, padding):
    values = pool(x, kernel, stride, padding, lambda part: np.nanmax(part, (2, 3)))
    flat = x.reshape(*x.shape[:2], -1)
    places = (flat[:, :, None, :] == values.reshape(*x.shape[:2], -1, 1)).argmax(-1)
    return values, places.reshape(values.shape)


def avg_pool(x, kernel, stride, padding):
    return pool(x, kernel, stride, padding, lambda part: np.nansum(part, (2, 3)) / (kernel[0] * kernel[1]))


def put_places(g, places, shape):
    out = np.zeros((shape[0], shape[1], shape[2] * shape[3]))
    for n, c, h, w in np.ndindex(g.shape):
        out[n, c, places[n, c, h, w]] += g[n, c, h, w]
    return out.reshape(shape)


def put_back(g, index, shape):
    """Every element of g, added where it was taken from."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)[index]
    return np.bincount(numbers.reshape(-1), np.reshape(g, -1), int(np.prod(shape))).reshape(shape)


def scatter_add(g, indices, rows):
    out = np.zeros((rows, *g.shape[indices.ndim :]))
    for place in np.ndindex(indices.shape):
        out[indices[place]] += g[place]
    return out


def moments(x):
    """Mean and population variance by channel."""
    axes = (0, *range(2, x.ndim))
    return x.mean(axes), x.var(axes)
