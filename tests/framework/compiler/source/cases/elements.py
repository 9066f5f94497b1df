"""Elements of tensors assigned by the program."""

import numpy as np
from mindscope.framework import ops

from tests.framework.compiler.source.cases.table import case


@case()
def elements_of_a_new_tensor(x):
    out = other = ops.zeros((3,), dtype=np.float64)
    for i in range(3):
        out[i] = x[i] * 2
    out[-1] += out[0]
    return out, other, out.sum()


@case()
def elements_in_a_loop(x):
    out = x * 0
    alias = out
    for i, row in enumerate(x):
        if row > 0:
            out[i] = row
        else:
            out[i] += out[i - 1] + 1
    return out, alias


@case()
def elements_by_mask_and_slice(x):
    out = ops.stack([x, x * 2]) + 0.5
    out[:, 1:] = x[:2]
    out[out > 3] = 7
    out[0, ::2] = -1
    out[..., None, 0] *= 2
    if out.sum() > 3:
        out[1] = x.sum()
        return out
    return out - 1


@case()
def elements_by_index_tensors(x):
    places = ops.argsort(x)
    ranks = x * 0
    ranks[places] = ops.arange(3)
    whole = ops.zeros((3,), dtype=np.int64)
    whole[int(x[0]) % 3] = 2.9
    return ranks, whole


@case()
def elements_seen_by_whoever_holds_the_tensor(x):
    y = x * 2
    items, table = [y], {"y": y}

    def fill(z):
        z[0] = x.sum()

    before = y + 0
    fill(items[0])
    while y[0] > 1:
        table["y"][0] = y[0] / 2
    return y, before, items, table


@case()
def elements_of_a_tensor_that_one_branch_makes(x):
    total = 0.0
    for row in x:
        if row > 0:
            part = x * 1
            part[0] = row
            part[1] += 1 if row > 5 else 2
            total = total + part.sum()
    return total
