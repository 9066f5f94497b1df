"""Arrays that are batched together must be in one order."""

import textwrap

import pytest
from mindscope.probe.checks.program_text.orders import arrays_keep_one_order

LOOP = "for i in range(0, n, 32):\n    {}\n"


def _outcome(text):
    return arrays_keep_one_order({"train.py": textwrap.dedent(text)}).outcome


@pytest.mark.parametrize(
    "text",
    [
        "p = torch.randperm(n)\nx = x[p]\n" + LOOP.format("a, b = x[i:i + 32], y[i:i + 32]"),
        "p = torch.randperm(n)\n" + LOOP.format("j = p[i:i + 32]\n    a = x[j]\n    b = y[i:i + 32]"),
        "p = np.random.permutation(n)\nxs = d.x[p]\n" + LOOP.format("fit(xs[i:i + 32], d.y[i:i + 32])"),
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
        "def broken(:",
    ],
)
def test_arrays_in_one_order_are_not(text):
    assert _outcome(text) == "held"
