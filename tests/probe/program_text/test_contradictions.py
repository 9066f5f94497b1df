"""Expressions that contradict their names are told; the same ones the right way round are not."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

PAIRS = {
    "ratio": ("ratio = torch.exp(old_logp - new_logp)", "ratio = torch.exp(new_logp - old_logp)"),
    "ratio, as a method": ("ratio = (b.old_logprob - logprob).exp()", "ratio = (logprob - b.old_logprob).exp()"),
    "surrogate": ("loss = -torch.max(surr1, surr2).mean()", "loss = -torch.min(surr1, surr2).mean()"),
    "twin critics": ("target_q = torch.max(q1_next, q2_next)", "target_q = torch.min(q1_next, q2_next)"),
    "ranking": ("loss = -F.logsigmoid(neg - pos).mean()", "loss = -F.logsigmoid(pos - neg).mean()"),
    "ranking by softplus": (
        "loss = F.softplus(pos_score - neg_score).mean()",
        "loss = F.softplus(neg_score - pos_score)",
    ),
    "preference": (
        "loss = -F.logsigmoid(beta * (rejected_ratio - chosen_ratio)).mean()",
        "loss = -F.logsigmoid(beta * (chosen_ratio - rejected_ratio)).mean()",
    ),
    "deviation": ("z = mu + torch.exp(logvar) * eps", "z = mu + torch.exp(0.5 * logvar) * eps"),
    "deviation, as a method": (
        "std = log_var.exp()",
        "std = (0.5 * log_var).exp()",
    ),
    "deviation, not exponentiated": ("z = mu + logvar * torch.randn_like(mu)", "z = mu + std * torch.randn_like(mu)"),
    "judge": (
        "d_loss = bce(D(fake), torch.ones_like(out)) + bce(D(real), torch.ones_like(out))",
        "d_loss = bce(D(fake), torch.zeros_like(out)) + bce(D(real), torch.ones_like(out))",
    ),
    "maker": ("g_loss = criterion(d_fake, zeros)", "g_loss = criterion(d_fake, ones)"),
    "hinge": ("d_loss = F.relu(1 + d_real).mean()", "d_loss = F.relu(1 - d_real).mean() + F.relu(1 + d_fake).mean()"),
    "attention": ("scores = q @ k.transpose(-2, -1) * math.sqrt(d)", "scores = q @ k.transpose(-2, -1) / math.sqrt(d)"),
    "twins": ("q1 = self.q1(s)\nq2 = self.q1(s)\nself.q2", "q1 = self.q1(s)\nq2 = self.q2(s)"),
    "surrogate, by what it is made of": (
        "s1, s2 = ratio * a, clipped * a\nloss = -torch.maximum(s1, s2).mean()",
        "s1, s2 = ratio * a, clipped * a\nloss = -torch.minimum(s1, s2).mean()",
    ),
    "noising": (
        "def q(x, t, noise):\n    a, b = abar[t].sqrt(), 1 - abar[t]\n    return a * x + b * noise",
        "def q(x, t, noise):\n    a, b = abar[t].sqrt(), (1 - abar[t]).sqrt()\n    return a * x + b * noise",
    ),
    "messages": (
        "def f(x, src, dst):\n    m = x[src]\n    return out.index_add_(0, src, m)",
        "def f(x, src, dst):\n    m = x[src]\n    return out.index_add_(0, dst, m)",
    ),
    "average": (
        "for e, p in zip(a.parameters(), b.parameters()):\n    e = 0.9 * e + 0.1 * p",
        "for e, p in zip(a.parameters(), b.parameters()):\n    e.mul_(0.9).add_(p, alpha=0.1)",
    ),
    "plateau": (
        "s = ReduceLROnPlateau(o, mode='max')\ns.step(val_loss)",
        "s = ReduceLROnPlateau(o, mode='max')\ns.step(val_acc)",
    ),
    "returns": (
        "for r in rewards:\n    g = r + gamma * g\n    returns.append(g)",
        "for r in reversed(rewards):\n    g = r + gamma * g\n    returns.append(g)",
    ),
    "advantages": (
        "for t in range(n):\n    gae = delta[t] + gamma * lam * gae\n    adv[t] = gae",
        "for t in range(n - 1, -1, -1):\n    gae = delta[t] + gamma * lam * gae\n    adv[t] = gae",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_contradicts_its_names_is_told(name):
    (found,) = contradictions({"train.py": PAIRS[name][0]})
    assert found.file == "train.py"


@pytest.mark.parametrize("name", PAIRS)
def test_what_fits_its_names_is_not(name):
    assert contradictions({"train.py": PAIRS[name][1]}) == []


@pytest.mark.parametrize(
    "text",
    [
        "loss = torch.max(-adv * ratio, -adv * clipped).mean()",  # both negated: the smaller surrogate
        "kl = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1",  # an estimate of the divergence
        "loss = F.softplus(pos_dist - neg_dist).mean()",  # of distances the preferred one is the smaller
        "ret = ret * gamma + reward",  # a running sum that scales rewards
        "h1 = self.act(x)\nh2 = self.act(y)",
        "s = optim.lr_scheduler.ReduceLROnPlateau(o, 'max', patience=5)\ns.step(val_score)",
        "s = ReduceLROnPlateau(o, **options)\ns.step(val_score)",
        "s = ReduceLROnPlateau(o, mode)\ns.step(val_score)",
        "x = self.embed(ids) * math.sqrt(self.width)",
        "def broken(:",
    ],
)
def test_what_only_looks_so_is_not_told(text):
    assert contradictions({"train.py": text}) == []
