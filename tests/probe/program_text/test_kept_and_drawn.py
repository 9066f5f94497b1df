"""Formulas of selections, quantiles, samplers, numberings and scores: told where wrong, and not where right."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

NUMBERS = "def numbers_of(words):\n    v = {}\n    for w in words:\n        v[w] = len(v)\n    return v\n"
STEPS = "alphas = 1 - betas\nabar = torch.cumprod(alphas, 0)\n"
LOSS = "def nt(z, tau=0.2):\n    {before}e = torch.exp({scores})\n    return e.log()"
TABLE = "users = torch.arange(len(t)).{repeat}(t.shape[1])\nitems = t.reshape(-1)"
PAIRS = {
    "quantiles": (
        "diff = pred - y\nloss = torch.maximum(q * diff, (q - 1) * diff).mean()",
        "diff = y - pred\nloss = torch.maximum(q * diff, (q - 1) * diff).mean()",
    ),
    "quantiles, in a list": (
        "loss = max([(q - 1) * (y_hat - target), q * (y_hat - target)])",
        "loss = max([(q - 1) * (target - y_hat), q * (target - y_hat)])",
    ),
    "a best loss that begins at zero": (
        "best = 0.0\nfor e in r:\n    if loss < best:\n        best = loss\n        keep(net)",
        "best = float('inf')\nfor e in r:\n    if loss < best:\n        best = loss\n        keep(net)",
    ),
    "a best score that begins at infinity": (
        "best_acc, kept = float('inf'), None\nfor e in r:\n    if acc > best_acc:\n        best_acc, kept = acc, net",
        "best_acc, kept = 0.0, None\nfor e in r:\n    if acc > best_acc:\n        best_acc, kept = acc, net",
    ),
    "a best loss, asked the other way round": (
        "best_loss = -np.inf\nfor e in r:\n    if best_loss > loss:\n        best_loss = loss",
        "best_loss = np.inf\nfor e in r:\n    if best_loss > loss:\n        best_loss = loss",
    ),
    "a step of a sampler": (
        f"{STEPS}m = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / abar[i].sqrt()",
        f"{STEPS}m = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()",
    ),
    "a step of a sampler, by names": (
        f"{STEPS}a = abar[t]\nm = (x - (1 - alphas[t]) / torch.sqrt(1 - a) * eps) / torch.sqrt(a)",
        f"{STEPS}a = abar[t]\nx0 = (x - torch.sqrt(1 - a) * eps) / torch.sqrt(a)",
    ),
    "a vocabulary for each split": (
        f"{NUMBERS}v = numbers_of(train)\na, b = encode(train, v), encode(test, numbers_of(test))",
        f"{NUMBERS}v = numbers_of(train)\na, b = encode(train, v), encode(test, v)\nunknown = set(numbers_of(test))",
    ),
    "a decay": (
        "self.total.mul_(1 - self.decay).add_(x, alpha=self.decay)",
        "self.total.mul_(self.decay).add_(x, alpha=1 - self.decay)",
    ),
    "a decay, as a sum": ("avg = decay * x + (1 - decay) * avg", "avg = decay * avg + (1 - decay) * x"),
    "similarities": (
        LOSS.format(before="", scores="z @ z.T / tau"),
        LOSS.format(before="z = F.normalize(z, dim=1)\n    ", scores="z @ z.T / tau"),
    ),
    "similarities, as a method": (
        LOSS.format(before="", scores="torch.mm(z, z.t()) / tau"),
        LOSS.format(before="z = z / z.norm(dim=1, keepdim=True)\n    ", scores="torch.mm(z, z.t()) / tau"),
    ),
    "a mask times infinity": (
        "scores = scores + seen.float() * float('-inf')",
        "scores = scores.masked_fill(seen, float('-inf'))",
    ),
    "what a mask leaves, times infinity": (
        "scores = scores + (1 - mask) * -torch.inf",
        "causal = torch.triu(torch.ones(t, t) * float('-inf'), 1)",
    ),
    "rows of a table": (TABLE.format(repeat="repeat"), TABLE.format(repeat="repeat_interleave")),
    "weights of a target": (
        "self.online.load_state_dict(self.target.state_dict())",
        "self.target.load_state_dict(self.online.state_dict())",
    ),
    "a deviation": ("d = Normal(mu, self.log_std)", "d = Normal(mu, self.log_std.exp())"),
    "a deviation that keeps its name": (
        "d = Normal(mu, scale=logstd)",
        "logstd = logstd.exp()\nd = Normal(mu, scale=logstd)",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_wrong_is_told_and_what_is_right_is_not(name):
    wrong, right = PAIRS[name]
    (found,) = contradictions({"a.py": wrong})
    assert found.line >= 1
    assert len(found.words) > 20
    assert not contradictions({"a.py": right})


@pytest.mark.parametrize(
    "text",
    [
        "low = 0\nfor v in values:\n    if v < low:\n        low = v",  # limits of an axis
        "best = 0.0\nfor e in r:\n    if first or loss < best:\n        best = loss",
        "best = 0.0\nbest = evaluate(net)\nfor e in r:\n    if loss < best:\n        best = loss",
        "idx = np.arange(len(t)).repeat(t.shape[1])\nitems = t.reshape(-1)",  # of NumPy, each number in a row
        "avg = momentum * x + (1 - momentum) * avg",  # as batch norms have it
        "def attend(q, k, temperature=0.5):\n    return (q @ k.T / temperature).softmax(-1)",
        "abar_prev = torch.cumprod(a, 0)\nalpha = abar / abar_prev\nm = (x - b / (1 - abar).sqrt() * e) / alpha.sqrt()",
    ],
)
def test_what_only_looks_so_is_not_told(text):
    assert not contradictions({"a.py": text})
