"""A wrong formula is told from the text of a program; the right one, which stands beside it here, is not."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

CACHED = (
    "def forward(self, idx, cache=None):\n    {before}x = self.tok(idx) + self.pos_emb(torch.arange({range}))\n"
    "    return self.blocks(x, cache)"
)
ATTEND = (
    "def attend(q, k, v, adj):\n    s = q @ k.mT\n    s = s.masked_fill(~adj, {fill})\n"
    "    a = torch.softmax(s, -1)\n    return a @ v"
)
GRAPH = "def layer(h, adj):\n    a = torch.softmax(score(h), dim={axis})\n    return a @ h"
TWIN = "policy = Policy(8).to(device)\nref = {twin}\nppo(policy, ref)"
IGNORING = "PAD, BOS, EOS = 0, 1, {eos}\nloss = F.cross_entropy(logits, y, ignore_index=PAD)"
BATCH = "def batch(src, n, trg):\n    order = n.argsort(descending=True)\n    return src[order], n[order], {trg}"
REWARD = "rewards = {sign}KL * (logp - ref_logp) * mask"
COUPLING = "def forward(x):\n    s, t = net(x).chunk(2, 1)\n    return x * torch.exp(s) + t, {volume}"
SCALER = (
    "def rmse(model, tests, x_scaler):\n    model.eval()\n    return [model(x_scaler.{use}(x)) for x in tests]\n"
    "x_scaler = Scaler()\nx = x_scaler.fit_transform(x)"
)
EDGES = "{before}perm = torch.randperm(len(edges))\ntrain, test = edges[perm[:9]], edges[perm[9:]]{behind}"
WINDOW = "def get(i):\n    return s[m, cut - ctx:cut], s[m, {begin}:{begin} + horizon]"
MODES = (
    "def forward(x):\n    f = torch.fft.rfft(x)\n    out[:, :, {write}] = mul(f[:, :, :self.modes], self.w)\n"
    "    return torch.fft.irfft(out)"
)
ERRORS = (
    "def test(loader):\n    err = n = 0\n    for x, y in loader:\n"
    "        err += (model(x) - y).abs().{reduce}().item()\n        n += {count}\n    return err / n"
)
NEIGHBOURS = (
    "def recall(z, y):\n    d = torch.cdist(z, z)\n    {before}near = d.argmin(1)\n    return (y[near] == y).mean()"
)
GP = "L = torch.linalg.cholesky(K)\nnll = 0.5 * fit + {factor}L.diagonal().log().sum()"
REVIVE = "def revive(sae, dead, x):\n    sae.w[dead] = x[dead]\nrevive(sae, {mask}, x)"
CLIPPED = "def clip_update(d, bound):\n    norm = d.norm()\n    factor = {factor}\n    return d * factor"
STORED = "self.ret = np.zeros(n, {kind})\ny = r + gamma * q"
CODE = (
    "def step(x):\n    post = Normal(*enc(x).chunk(2, 1))\n    z = post.{draw}()\n"
    "    loss = error(dec(z), x) + kl_divergence(post, prior).sum()"
)
POLYAK = (
    "p.add_argument('--tau', type=float, default=0.02)\n"
    "for t, p in zip(target.parameters(), net.parameters()):\n    t.mul_({kept}).add_({taken} * p)"
)
SUMMED = (
    "def layer(h, s):\n    att = drop(torch.softmax(s, dim={axis}))\n    return torch.einsum('ijk,jkd->ikd', att, h)"
)
DRAW = (
    "class Sampler:\n    def __init__(self, seed):\n        self.seed, self.rng = seed, np.random.default_rng(seed)\n"
    "    def batch(self):\n        rng = {rng}\n        return rng.integers(0, 9, 4)\n"
    "for step in range(99):\n    loss = net(x[sampler.batch()]).sum()\n    loss.backward()"
)
EPISODE = (
    "while True:\n    nxt, r, done, _ = env.step(a)\n{before}    buffer.add(obs, a, r, nxt, done)\n    obs = {behind}"
)
FLIPPED = (
    "def dice(p, y):\n    return 2 * (p * y).sum()\nfor x, y in loader:\n    if random() < 0.5:\n"
    "        {flip}\n    fit(x, y)"
)
AUTOENCODER = (
    "def forward(self, x):\n    mu, logvar = self.mu(x), self.logvar(x)\n"
    "    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()\n    return self.dec({code}), mu, logvar"
)
PAIRS = {
    "a sampler that begins anew": (DRAW.format(rng="np.random.default_rng(self.seed)"), DRAW.format(rng="self.rng")),
    "a reset before it is stored": (
        EPISODE.format(before="    if done:\n        nxt = env.reset()\n", behind="nxt"),
        EPISODE.format(before="", behind="env.reset() if done else nxt"),
    ),
    "a code that is cut off": (AUTOENCODER.format(code="z.detach()"), AUTOENCODER.format(code="z")),
    "a mirrored picture": (
        FLIPPED.format(flip="x = x.flip(-1)"),
        FLIPPED.format(flip="x, y = x.flip(-1), y.flip(-1)"),
    ),
    "a sum by einsum": (SUMMED.format(axis="0"), SUMMED.format(axis="1")),
    "a contrary mask": (REVIVE.format(mask="fired"), REVIVE.format(mask="~fired")),
    "a factor that clips": (
        CLIPPED.format(factor="bound / (norm + 1e-9)"),
        CLIPPED.format(factor="min(1.0, bound / (norm + 1e-9))"),
    ),
    "returns in integers": (STORED.format(kind="np.int64"), STORED.format(kind="np.float32")),
    "a code that is drawn": (CODE.format(draw="sample"), CODE.format(draw="rsample")),
    "a divergence": ("loss = recon - 0.3 * kl", "loss = recon + 0.3 * kl"),
    "a correction": ("s = u @ v.t() / t + log_q[items]", "s = u @ v.t() / t - log_q[items]"),
    "a history": ("rows.append((pad(seq[:k + 1]), seq[k]))", "rows.append((pad(seq[:k]), seq[k]))"),
    "an option for a slow copy": (
        POLYAK.format(kept="args.tau", taken="(1 - args.tau)"),
        POLYAK.format(kept="1 - args.tau", taken="args.tau"),
    ),
    "the nearest by an own distance": (
        "def hit(z, y):\n    d = pairwise_distance(z)\n    return y[d.argmin(1)] == y",
        "def hit(z, g, y):\n    d = pairwise_distance(z, g)\n    return y[d.argmin(1)] == y",
    ),
    "the share of a warm-up": (
        "p = (step - cfg.warmup) / cfg.warmup\nlr = 0.5 * (1 + math.cos(math.pi * p))",
        "p = (step - cfg.warmup) / (cfg.steps - cfg.warmup)\nlr = 0.5 * (1 + math.cos(math.pi * p))",
    ),
    "bits": (
        "def bits_per_char(loader):\n    return total / n * math.log(2)",
        "def bits_per_char(loader):\n    return total / n / math.log(2)",
    ),
    "the nearest of a set": (NEIGHBOURS.format(before=""), NEIGHBOURS.format(before="d.fill_diagonal_(9e9)\n    ")),
    "the likest of a set": (
        "def hit(z, y):\n    return (y[(z @ z.T).argmax(1)] == y).mean()",
        "def hit(z, g, y):\n    return (y[(z @ g.T).argmax(1)] == y).mean()",
    ),
    "a mean of means": (
        ERRORS.format(reduce="mean", count="y.numel()"),
        ERRORS.format(reduce="sum", count="y.numel()"),
    ),
    "a mean of means over batches": (
        ERRORS.format(reduce="mean", count="len(x)"),
        ERRORS.format(reduce="mean", count="1"),
    ),
    "blanks": (
        "hyp = torch.unique_consecutive(path[path != BLANK])",
        "hyp = [p for p in torch.unique_consecutive(path).tolist() if p != BLANK]",
    ),
    "blanks, by groups": (
        "hyp = [k for k, _ in groupby(p for p in path if p != blank)]",
        "hyp = [k for k, _ in groupby(path) if k != blank]",
    ),
    "a hardest negative": (
        "neg = (dist * ~same).min(1).values",
        "neg = dist.masked_fill(same, float('inf')).min(1).values",
    ),
    "a determinant": (GP.format(factor="0.5 * "), GP.format(factor="")),
    "positions behind a cache": (
        CACHED.format(before="", range="idx.size(1)"),
        CACHED.format(before="n = cache[0].size(2) if cache else 0\n    ", range="n, n + idx.size(1)"),
    ),
    "no attention": (ATTEND.format(fill="0.0"), ATTEND.format(fill="float('-inf')")),
    "no attention, in one line": (
        "a = F.softmax(s.masked_fill(mask, 0), dim=-1)",
        "a = F.softmax(s, dim=-1).masked_fill(mask, 0)",
    ),
    "weights of a sum": (GRAPH.format(axis="0"), GRAPH.format(axis="1")),
    "a frozen twin": (TWIN.format(twin="policy"), TWIN.format(twin="copy.deepcopy(policy)")),
    "the end of a sequence": (IGNORING.format(eos="0"), IGNORING.format(eos="2")),
    "sorted inputs": (BATCH.format(trg="trg"), BATCH.format(trg="trg[order]")),
    "the loss of values": (
        "loss = pg_loss - VF_COEF * v_loss",
        "loss = pg_loss + VF_COEF * v_loss - ENT_COEF * entropy_loss",
    ),
    "the pay for a divergence": (REWARD.format(sign=""), REWARD.format(sign="-")),
    "noise to be learned": (
        "loss = F.mse_loss(model(x_t, t), torch.randn_like(x0))",
        "eps = torch.randn_like(x0)\nloss = F.mse_loss(model(x0 + eps, t), eps)",
    ),
    "the volume of a coupling": (COUPLING.format(volume="s.mean(dim=1)"), COUPLING.format(volume="s.sum(dim=1)")),
    "a scaler in an evaluation": (SCALER.format(use="fit_transform"), SCALER.format(use="transform")),
    "doubled edges": (
        EDGES.format(before="edges = torch.cat([edges, edges.flip(1)])\n", behind=""),
        EDGES.format(before="", behind="\ntrain = torch.cat([train, train.flip(1)])"),
    ),
    "a window of the future": (WINDOW.format(begin="cut - patch"), WINDOW.format(begin="cut")),
    "modes": (MODES.format(write="-self.modes:"), MODES.format(write=":self.modes")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_wrong_is_told_and_what_is_right_is_not(name):
    wrong, right = PAIRS[name]
    assert len(contradictions({"a.py": wrong})) == 1
    assert not contradictions({"a.py": right})


@pytest.mark.parametrize(
    "text",
    [
        "x = (step - warmup) / max(warmup, total - warmup)",  # the longer of both
        "bpd = nll / d * math.log2(math.e)",
        "def self_recall(z):\n    return torch.cdist(z, z).argmin(1)",
        "def pull(z, c):\n    return torch.cdist(z, c).argmin(1)",
        "total += loss.mean().item() * len(x)\nn += len(x)\nm = total / n",
        "emb = torch.cat((freqs, freqs), dim=-1)",
        "def sample(x, past=None):\n    start = past.shape[1] if past else 0\n    return pos(torch.arange(9) + start)",
        "attn = dots.softmax(dim=1)\nattn = attn / attn.sum(-1, keepdim=True)\nupdates = attn @ v",  # slots compete
        "model = Net()\nema_model = model\nema_model = copy.deepcopy(model)",
        "target = y\nloss = f(x, target)",
        "model = Net()\ntarget = model(x)",
        "def order(x, y):\n    order = x.argsort()\n    return x[order], y, order",  # the caller is told
        "def order(x, y):\n    order = x.argsort()\n    y = y[order]\n    return x[order], y",
        "loss = pg_loss - ent_coef * entropy_loss + value_loss",
        "rewards = scores - beta * kl",
        "loss = F.mse_loss(d(fake), torch.rand_like(x))",
        "x = torch.cat([x, x.flip(-1)], dim=1)\nperm = torch.randperm(len(x))",  # more columns, and no more rows
        "x = torch.cat([x, new])\nperm = torch.randperm(len(x))",
        "pair = s[i:i + T], s[i + 1:i + 1 + T]",
        DRAW.format(rng="np.random.default_rng(self.seed)").replace("batch(", "build_batch("),  # a part of the data
        DRAW.format(rng="np.random.default_rng(self.seed)").replace("    loss.backward()", "    plot(loss)"),
        "for x, y in loader:\n    if random() < 0.5:\n        x = x.flip(-1)\n    fit(x, y)",  # classes
        "def soft_vlad(x, att, s):\n    attn = s.softmax(-1)\n    attn = attn / attn.sum(1)\n    return attn.mT @ x",
        "elbo = log_px - kl",
        "loss = recon_loss - beta * entropy",
        "history, target = seq[:k], seq[k + 1]",
        "revive(sae, dead_mask, active)",
        "begin = cut - label\npair = s[cut - ctx:cut], s[begin:begin + label + horizon]",  # a decoder's beginning
    ],
)
def test_what_only_looks_so_is_not_told(text):
    assert not contradictions({"a.py": text})
