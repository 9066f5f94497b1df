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


def put_back(g, *arrays, index, shape):
    """Every element of g, added where it was taken from."""
    rest = iter(arrays)
    static = (slice(*part) if isinstance(part, tuple) else part for part in index)
    place = tuple(next(rest) if part == "array" else part for part in static)
    numbers = np.arange(int(np.prod(shape))).reshape(shape)[place]
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
