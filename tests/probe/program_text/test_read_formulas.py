"""Formulas that programs of strangers had asked for: told where wrong, and not where right."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

COLLATE = "def collate(batch):\n    a, b = zip(*batch)\n    {order}\n    return pad(a), pad(b)"
JOINED = (
    "def step(w, s):\n    logits = net(torch.cat([x_weak, x_strong]))\n    {names} = logits.chunk(2)\n    return f(u)"
)
GROUPS = (
    "def step(p):\n    many = p.repeat_interleave(G, dim=0)\n    t = generate(many)\n    return reward({copies}, t)"
)
EPISODE = "def episode(c):\n    perm = torch.randperm(9)\n    return x[perm[:k_shot]], x[perm[{begin}:{end}]]"
SAMPLE = (
    "def ddim(x):\n    times = torch.linspace(T - 1, 0, n).long()\n"
    "    for i, t in enumerate(times):\n        x = f(x, abar[t], abar[{before}])"
)
SCORE = (
    "class A(nn.Module):\n    def __init__(self):\n        self.score = nn.Linear(8, 1)\n"
    "    def forward(self, q, k):\n        return torch.softmax(self.score({given}), 1)"
)
RATE = (
    "class S(nn.Module):\n    def __init__(self):\n        self.log_a = nn.Parameter(torch.zeros(4))\n"
    "    def forward(self, t):\n        return torch.complex({rate}, self.b) * t"
)
RESERVOIR = "def add(x):\n    slot = random.randrange({of})\n    if slot < capacity:\n        items[slot] = x"
ROLLOUT = (
    "def rollout(net, states):\n    s = states[:, 0]\n"
    "    for t in range(1, n):\n        s = net.step({given})\n        e.append(s)"
)
LABELS = "crit = nn.BCEWithLogitsLoss()\np = torch.{chance}(model(x){axis})"
POSITIVES = "w = {weight}\ncrit = nn.BCEWithLogitsLoss(pos_weight=w)"
SPLITS = "train_x = (train_x - mean) / std\ntest_x = {test}"
EDGES = "src, dst = pairs.T\nlinked = springs[:, src, {end}]"
PAIRS = {
    "halves of pairs": (
        COLLATE.format(order="a = sorted(a, key=len)"),
        COLLATE.format(order="a, b = sorted(a, key=len), sorted(b, key=len)"),
    ),
    "pieces of a pass": (JOINED.format(names="u_strong, u_weak"), JOINED.format(names="u_weak, u_strong")),
    "copies of questions": (GROUPS.format(copies="p.repeat(G, 1)"), GROUPS.format(copies="many")),
    "a support and its query": (
        EPISODE.format(begin="", end="n_query"),
        EPISODE.format(begin="k_shot", end="k_shot + n_query"),
    ),
    "strides of a sampler": (SAMPLE.format(before="t - 1"), SAMPLE.format(before="times[i + 1]")),
    "scores that add up": (SCORE.format(given="self.q(q) + k"), SCORE.format(given="torch.tanh(self.q(q) + k)")),
    "a rate kept as a logarithm": (RATE.format(rate="-self.log_a"), RATE.format(rate="-self.log_a.exp()")),
    "a reservoir": (RESERVOIR.format(of="capacity"), RESERVOIR.format(of="seen")),
    "a rollout": (ROLLOUT.format(given="states[:, t - 1]"), ROLLOUT.format(given="s")),
    "labels that compete": (LABELS.format(chance="softmax", axis=", 1"), LABELS.format(chance="sigmoid", axis="")),
    "weights of positives": (POSITIVES.format(weight="pos / (n - pos)"), POSITIVES.format(weight="(n - pos) / pos")),
    "weights of positives, by names": (
        POSITIVES.format(weight="n_pos / n_neg"),
        POSITIVES.format(weight="n_neg / n_pos"),
    ),
    "scales of a test": (SPLITS.format(test="test_x - mean"), SPLITS.format(test="(test_x - mean) / std")),
    "a validation by its name": (
        "val_p, val_y = predict(test_loader)\nfor x in val_loader:\n    f(x)",
        "val_p, val_y = predict(val_loader)\ntest_p, test_y = predict(test_loader)",
    ),
    "ends of an edge": (EDGES.format(end="src"), EDGES.format(end="dst")),
    "ends of an edge, in a product": ("s = (z[e[0]] * z[e[0]]).sum(-1)", "s = (z[e[0]] * z[e[1]]).sum(-1)"),
    "bins of a transform": ("f = np.linspace(0, RATE, N // 2 + 1)", "f = np.linspace(0, RATE / 2, N // 2 + 1)"),
    "a second moment": (
        "var = (vars + mus.square()).mean(0)",
        "var = (vars + mus.square()).mean(0) - mus.mean(0).square()",
    ),
    "an old policy": (
        "old_logp = logps(self.reference, t)\nref_logp = logps(self.reference, t)",
        "old_logp = logps(self.policy, t)\nref_logp = logps(self.reference, t)",
    ),
    "a share that is dropped": ("drop = torch.rand(n) > p_uncond", "drop = torch.rand(n) < p_uncond"),
    "a share that is kept": ("keep = torch.rand(n) < p_drop", "keep = torch.rand(n) > p_drop"),
    "shares of classes": (
        "p = torch.softmax(logits, dim=0)\ntop, y = p.max(dim=-1)",
        "p = torch.softmax(logits, dim=-1)\ntop, y = p.max(dim=-1)",
    ),
    "a draw": (
        "def shift(x):\n    k = random.randint(0, 3)\n    return x.roll(1)",
        "def shift(x):\n    k = random.randint(0, 3)\n    return x.roll(k)",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_wrong_is_told_and_what_is_right_is_not(name):
    wrong, right = PAIRS[name]
    found = contradictions({"a.py": wrong})
    assert found
    assert all(len(one.words) > 20 and one.line >= 1 for one in found)
    assert not contradictions({"a.py": right})


@pytest.mark.parametrize(
    "text",
    [
        "def f(g, n):\n    a = g.repeat_interleave(n, dim=0)\n    b = g.repeat(n, 1)\n    return torch.cat([a, b], -1)",
        "def f(g, n):\n    return g.repeat_interleave(n, dim=0) - g.repeat(n, 1)",  # all pairs
        "def f(b):\n    a, c = zip(*b)\n    names = sorted(a)\n    return names",
        "def f(x, y):\n    out = net(torch.cat([x, y]))\n    a, b = out.chunk(2)",
        "def f(h, a):\n    h, a = torch.chunk(h, 2)\n    a = attend(h)\n    return torch.cat([a, h])",
        "def rotate(x):\n    first, second = x.chunk(2, dim=-1)\n    return torch.cat([-second, first], -1)",
        "def f(i, n):\n    virtual_i, real_i = np.split(i, [n])\n    return np.concatenate([real_i, virtual_i])",
        "drop = (torch.rand(n) > rank_dropout).float()\nw = w * drop",  # what is kept, under another name
        "perm = torch.randperm(9)\nsmall, all_ = x[perm[:5]], x[perm]",
        "perm = torch.randperm(n)\na, b = x[perm[:k]], y[perm[:k]]",
        "def f(n):\n    for t in range(9):\n        y = abar[t - 1]",
        "m = a[src, dst] + a[dst, src]",
        "s = (z * z).sum(-1)\nt = x[0] * x[0]",
        "crit = nn.BCEWithLogitsLoss()\na = torch.softmax(scores, -1)",  # attention
        "train_x = (train_x - m) / s\ntest_y = test_y - m",
        "f = np.linspace(0, RATE, N)",
        "var = (vars + mus.square()).mean(0)\nvar = var - mus.mean(0) ** 2",
        "old_logp = logps(ref, t)",  # a reference that is the old policy
        "keep = torch.rand(n) < p_keep",
        "def f(x):\n    _ = random.randint(0, 3)\n    return x",
        "def f(x):\n    n = random.randint(0, 3)\n    def g():\n        return n\n    return g",
        "def f():\n    i = random.randint(0, 9)\n    if i < 9:\n        return 1",  # an inclusive draw
    ],
)
def test_what_only_looks_so_is_not_told(text):
    assert not contradictions({"a.py": text})
