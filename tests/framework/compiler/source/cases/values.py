"""Numbers, text and types beside tensors."""

import math

from mindscope.framework import Tensor, ops

from tests.framework.compiler.source.cases.table import SCALARS, case


@case(*SCALARS)
def numbers_of_tensors(x):
    n = int(x)
    f = x.item()
    return n, float(x) * 0.1, bool(x), n // 2, n % 3, n**2, f / 3, -n, abs(n), n * f, n == 1, round(f), divmod(n, 4)


@case(*SCALARS)
def mathematics(x):
    f = float(x)
    return math.exp(f * 0.1), math.sqrt(abs(f)), math.floor(f), math.ceil(f), math.pi * f, max(f, 1.0), min(f, 2, 3)


@case()
def numbers_beside_tensors_keep_the_dtype(x):
    y = ops.cast(x, "float32")
    scale = float(x.sum()) * 0.1
    for i in range(int(abs(x[0])) + 1):
        y = y * scale + i
    return y, 1 - y, y > i if False else y / 2


@case()
def any_all_in(x):
    flags = [x[0] > 0, x[1] > 0]
    return any(flags), all(flags), x.sum() in [6.0, 7.0], 3 in (1, 2, 3), 4 not in [1]


@case()
def traced_index(x):
    i = ops.argmax(x)
    n = int(i)
    return x[i], x[n], x[n - 1] if n > 0 else x[n]


@case()
def shapes_are_known(x):
    rows, width = x.reshape(1, -1).shape
    assert rows == 1
    return x.reshape(width, rows) * len(x) if x.ndim == 1 else x


@case()
def text_of_known_values(x):
    name = f"{len(x)}-{x.ndim:03d}-{'a'!r}"
    return {name: x}, "%d" % 3  # noqa: UP031 (the sign is what is tried)


@case()
def slices(x):
    return x[1:], x[::-1], x[None, :2], x[..., 0], x[[0, 2]]


@case()
def isinstance_of_values(x):
    n = int(x[0])
    return isinstance(x, Tensor), isinstance(n, int), isinstance(n, Tensor), isinstance(1.0, float), type(n) is int


@case()
def bit_signs(x):
    n = int(x.sum()) + 8
    return n & 3, n | 1, n ^ 2, n << 1, n >> 1, ~n, (x[0] > 0) & (x[1] > 0)
