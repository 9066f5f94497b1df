"""Arrays that are batched together must be in one order."""

import textwrap

import pytest
from mindscope.probe.checks.program_text.orders import arrays_are_flattened_in_one_order, arrays_keep_one_order

LOOP = "for i in range(0, n, 32):\n    {}\n"


def _outcome(text):
    return arrays_keep_one_order({"train.py": textwrap.dedent(text)}).outcome


@pytest.mark.parametrize(
    "text",
    [
        "p = torch.randperm(n)\nx = x[p]\n" + LOOP.format("a, b = x[i:i + 32], y[i:i + 32]"),
        "p = torch.randperm(n)\n" + LOOP.format("j = p[i:i + 32]\n    a = x[j]\n    b = y[i:i + 32]"),
        "p = np.random.permutation(n)\nxs = d.x[p]\n" + LOOP.format("fit(xs[i:i + 32], d.y[i:i + 32])"),
        "def collate(b):\n    o = sorted(range(len(b)), key=lambda i: -len(b[i][0]))\n"
        "    x = [b[i][0] for i in o]\n    y = [one[1] for one in b]\n    return x, y\n",
        "o = np.argsort(lengths)\nxs = torch.stack([data[i].x for i in o])\nys = torch.tensor([d.y for d in data])\n",
        "def epoch(x, y):\n    p = torch.randperm(len(x)).to(x.device)\n    x = x[p]\n    for i in range(9):\n"
        "        yield x[i:i + 1], y[i:i + 1]\n",
    ],
)
def test_one_array_in_another_order_is_told(text):
    assert _outcome(text) == "broken"


@pytest.mark.parametrize(
    "text",
    [
        "p = torch.randperm(n)\nx, y = x[p], y[p]\n" + LOOP.format("a, b = x[i:i + 32], y[i:i + 32]"),
        "p = torch.randperm(n)\nx = x[p]\ny = y[p]\n" + LOOP.format("a, b = x[i:i + 32], y[i:i + 32]"),
        "p = torch.randperm(n)\n" + LOOP.format("j = p[i:i + 32]\n    a, b = x[j], y[j]"),
        "p = torch.randperm(n)\ntrain, test = p[:k], p[k:]\nfit(x[train], y[train])\n",
        LOOP.format("a, b = x[i:i + 32], y[i:i + 32]"),
        "p = torch.randperm(n)\nx = x[p]\nprint(y[:5])\n",
        "p = torch.randperm(n)\nx = x[p]\ny = torch.tensor(y)[p]\ne = net(x)\nnear = y[:k][e[k:] @ e[:k].T]\n",
        "def collate(b):\n    n = [len(one) for one in b]\n    o = sorted(range(len(b)), key=n.__getitem__)\n"
        "    x = [b[i][0] for i in o]\n    y = [b[i][1] for i in o]\n    return x, y, n\n",
        "o = np.argsort(score)\ndt = [dt[i] for i in o]\nboxes = [d.box for d in dt]\n",
        "o = np.argsort(score)\nbest = [names[i] for i in o]\nshort = [n[:3] for n in names if n]\n",
        "def broken(:",
    ],
)
def test_arrays_in_one_order_are_not(text):
    assert _outcome(text) == "held"


MINIBATCH = "for i in order.split(64):\n    fit({})\n"


def _flattened(text):
    return arrays_are_flattened_in_one_order({"train.py": textwrap.dedent(text)}).outcome


@pytest.mark.parametrize(
    "text",
    [
        "o, a = O.reshape(-1, 4), adv.t().reshape(-1)\n" + MINIBATCH.format("o[i], a[i]"),
        "o = O.flatten(0, 1)\na = adv.transpose(0, 1).flatten()\n" + MINIBATCH.format("o[i], a[i]"),
        "o = O.view(-1, 4)\na = adv.T.contiguous().view(-1)\n" + MINIBATCH.format("o[i], a[i]"),
        "o = O.swapaxes(0, 1).reshape(-1, 4)\na = adv.reshape(-1)\n" + MINIBATCH.format("o[i], a[i]"),
        "o = O.reshape(-1, 4)\na = adv.reshape(-1, order='F')\n" + MINIBATCH.format("o[i], a[i]"),
        "o, a = O.reshape(-1, 4), adv.t().reshape(-1)\ndata = TensorDataset(o, a)",
    ],
)
def test_arrays_that_are_flattened_in_two_orders_are_told(text):
    assert _flattened(text) == "broken"


@pytest.mark.parametrize(
    "text",
    [
        "o, a = O.reshape(-1, 4), adv.reshape(-1)\n" + MINIBATCH.format("o[i], a[i]"),
        "o, a = O.transpose(0, 1).reshape(-1, 4), adv.t().reshape(-1)\n" + MINIBATCH.format("o[i], a[i]"),
        "o, a = O.reshape(-1, 4), adv.t().reshape(-1)\n" + MINIBATCH.format("o[i]") + "plot(a)",
        "o = O.reshape(-1, 4).t()\na = adv.reshape(-1)\n" + MINIBATCH.format("o[i], a[i]"),
        "o, a = O.transpose(1, 2).reshape, adv.t()\n" + MINIBATCH.format("o[i], a[i]"),
        "def broken(:",
    ],
)
def test_arrays_that_are_flattened_in_one_order_are_not(text):
    assert _flattened(text) == "held"
