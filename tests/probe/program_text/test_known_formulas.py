"""Formulas that a field knows by heart: told where wrong, and not where right."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

KEPT = (
    "for e in r:\n    opt.step()\n    if loss < best:\n        best = loss\n        kept = {state}\n"
    "net.load_state_dict(kept)"
)
WAVES = (
    "div = torch.exp(torch.arange(0, d, 2) * ({sign}math.log(10000.0) / d))\n"
    "pe[:, 0::2] = torch.sin(pos * div)\npe[:, {odd}::2] = torch.cos(pos * div)"
)
MIXED = (
    "perm = torch.randperm(len(x))\nmixed = lam * x + (1 - lam) * x[perm]\n"
    "loss = {one} * ce(net(mixed), y) + {other} * ce(net(mixed), y[perm])"
)
ATTEND = "def attend(x):\n    q, k, v = qkv(x).chunk(3, -1)\n    {rotated}\n    return q @ k.mT"
SHARPER = "loss = F.kl_div(F.log_softmax(out / T, -1), F.softmax({teacher}, -1), reduction='batchmean') * T * T"
SUM = "def overlap(a, b):\n    inter = (a & b).sum()\n    return {share}"
MEMBERS = "members = []\nfor i in range(5):\n    torch.manual_seed({seed})\n    members.append(fit(Net()))"
SEEDED = "def fit(seed):\n    torch.manual_seed(seed)\n    return Net()\nensemble = [fit({seed}) for i in range(5)]"
VIEWS = (
    "with torch.no_grad():\n    p = net({view}).softmax(-1)\n    top, pseudo = p.max(-1)\n"
    "loss = F.cross_entropy(net({other}), pseudo)"
)
SAMPLE = (
    "def sample(n):\n    for t in {steps}:\n        x = (x - betas[t] * model(x, t)) / alphas[t].sqrt()\n    return x"
)
N_STEPS = (
    "r = sum(gamma**i * b[i].r for i in range(n_step))\ny = r + gamma{power} * (1 - done) * target(nxt).max(1).values"
)
AVERAGE = "m = Net(nn.BatchNorm1d(3))\nswa = AveragedModel(m)\nswa.update_parameters(m)\n{rest}"
NLL = "def nll(mu, logvar, y):\n    return ({log} + 0.5 * (y - mu) ** 2 * torch.exp({sign}logvar)).mean()"
SCALE = (
    "class T(nn.Module):\n    def __init__(self):\n        self.scale = nn.Parameter(torch.tensor(math.log(14.0)))\n"
    "    def forward(self, a, b):\n        return {scale} * (a @ b.t())"
)
CHANGE = "def change(t):\n    if random.random() < 0.5:\n        t = t.flip(-1)\n    return t\n"
BOXES = (
    "def iou(a, b):\n    x1, y1 = torch.max(a[0], b[0]), torch.max(a[1], b[1])\n"
    "    x2, y2 = torch.min(a[2], b[2]), torch.min(a[3], b[3])\n    inter = {inter}\n    return inter"
)
FLOW = (
    "xt = (1 - t) * x0 + t * x1\nloss = ((model(xt, t) - ({v})) ** 2).mean()\n"
    "def sample(x):\n    for i in range(50):\n        x = x + model(x, i / 50) / 50\n    return x"
)
LINKS = "order = torch.randperm(len(edges))\ntrain_edges, test_edges = edges[order[:80]], edges[order[80:]]\n"
CASTED = "@torch.autocast('cuda'{given})\ndef fit():\n    for x in data:\n        {body}"
GRAPH = "with torch.cuda.graph(g):\n    out = net(static)\nfor x in data:\n    {fed}\n    g.replay()\n    y += out"
DRAWN = (
    "def roll():\n    dist = policy(obs)\n    action = dist.sample()\n    logp = dist.log_prob(action)\n"
    "    obs, r = env.step({action})"
)
AGAIN = (
    "{before}for x in data:\n    {inside}rows = torch.randint(0, 9, (3,), generator=g)\n"
    "    net(x[rows]).sum().backward()\n    opt.step()"
)
SCALED = (
    "scaler = torch.amp.GradScaler()\nfor x in data:\n    loss = net(x).sum()\n    {loss}.backward()\n"
    "    scaler.step(opt)\n    scaler.update()"
)
PENALTY = (
    "def r1(d, x):\n    g, = torch.autograd.grad(scaler.scale(d(x).sum()), x, create_graph=True)\n    {divided}"
    "return g.pow(2).sum(1).mean()"
)
KEPT_AVERAGE = "def fit(net):\n    ema = copy.deepcopy(net){cast}\n    {more}torch._foreach_lerp_(ema, net, 0.01)"

PAIRS = {
    "autocast around the training": (
        CASTED.format(given="", body="f(x).backward()\n        opt.step()"),
        CASTED.format(given="", body="f(x)\n        metric.step()"),
    ),
    "autocast that keeps no casts": (
        "with autocast('cpu'):\n    for x in data:\n        net(x).backward()\n        opt.step()",
        CASTED.format(given=", cache_enabled=False", body="f(x).backward()\n        opt.step()"),
    ),
    "an input of a graph that is bound anew": (GRAPH.format(fed="static = x"), GRAPH.format(fed="static.copy_(x)")),
    "another action than the stored one": (DRAWN.format(action="dist.sample()"), DRAWN.format(action="action")),
    "a generator of each step": (
        AGAIN.format(before="", inside="g = torch.Generator().manual_seed(3)\n    "),
        AGAIN.format(before="g = torch.Generator().manual_seed(3)\n", inside=""),
    ),
    "rows drawn in bfloat16": (
        "rows = (torch.rand(64, dtype=torch.bfloat16) * len(x)).long()",
        "rows = (torch.rand(64) * len(x)).long()",
    ),
    "a loss that is not scaled": (SCALED.format(loss="loss"), SCALED.format(loss="scaler.scale(loss)")),
    "a penalty of scaled gradients": (
        PENALTY.format(divided=""),
        PENALTY.format(divided="g = g / scaler.get_scale()\n    "),
    ),
    "an average in bfloat16": (
        KEPT_AVERAGE.format(cast=".eval().bfloat16()", more=""),
        KEPT_AVERAGE.format(cast=".eval()", more=""),
    ),
    "standardised values that are brought back": (
        "z = (enc(x) - shift) / scale\ny = dec(z / scale + shift)",
        "z = (enc(x) - shift) / scale\ny = dec(z * scale + shift)",
    ),
    "an average that is cast": (
        KEPT_AVERAGE.format(cast="", more="ema.to(torch.float16)\n    "),
        KEPT_AVERAGE.format(cast="", more="ema.to(device)\n    "),
    ),
    "the best state": (KEPT.format(state="net.state_dict()"), KEPT.format(state="copy.deepcopy(net.state_dict())")),
    "the best state, item by item": (
        KEPT.format(state="{k: v for k, v in net.state_dict().items()}"),
        KEPT.format(state="{k: v.clone() for k, v in net.state_dict().items()}"),
    ),
    "weights to go back to": (
        "before = net.state_dict()\nfor rate in rates:\n    net.load_state_dict(before)\n    fit(net, rate)",
        "before = net.state_dict()\nfor rate in rates:\n    other.load_state_dict(before)\n    fit(other, rate)",
    ),
    "weights to stay near to": (
        "old = {n: p.data for n, p in net.named_parameters()}\nopt.step()",
        "old = {n: p.data.clone() for n, p in net.named_parameters()}\nopt.step()",
    ),
    "weights to stay near to, detached": (
        "anchor = [p.detach() for p in net.parameters()]\nopt.step()",
        "anchor = [p.detach().clone() for p in net.parameters()]\nopt.step()",
    ),
    "an intersection over union": (
        SUM.format(share="inter / (a.sum() + b.sum())"),
        SUM.format(share="inter / (a.sum() + b.sum() - inter)"),
    ),
    "a Dice coefficient": (
        SUM.format(share="(inter + eps) / (a.sum() + b.sum() + eps)"),
        SUM.format(share="(2 * inter + eps) / (a.sum() + b.sum() + eps)"),
    ),
    "a union by name": (
        "def iou(a, b):\n    inter = (a & b).sum()\n    union = a.sum() + b.sum()\n    return inter / union",
        "def iou(a, b):\n    inter = (a & b).sum()\n    union = a.sum() + b.sum() - inter\n    return inter / union",
    ),
    "an error weighed by its variance": (
        NLL.format(log="0.5 * logvar", sign=""),
        NLL.format(log="0.5 * logvar", sign="-"),
    ),
    "the logarithm of a variance": (NLL.format(log="0", sign="-"), NLL.format(log="0.5 * logvar", sign="-")),
    "a variance as an argument": (
        "loss = F.gaussian_nll_loss(mu, y, std)",
        "std = head(h).exp()\nloss = F.gaussian_nll_loss(mu, y, std ** 2)",
    ),
    "a variance as an argument of a module": (
        "crit = nn.GaussianNLLLoss()\nloss = crit(mu, y, log_var)",
        "crit = nn.GaussianNLLLoss()\nloss = crit(mu, y, log_var.exp())",
    ),
    "a scale kept as a logarithm": (SCALE.format(scale="self.scale"), SCALE.format(scale="self.scale.exp()")),
    "decibels": (
        "def psnr(a, b):\n    mse = ((a - b) ** 2).mean()\n    return 20 * torch.log10(1.0 / mse)",
        "def psnr(a, b):\n    mse = ((a - b) ** 2).mean()\n    return 20 * torch.log10(1.0 / mse.sqrt())",
    ),
    "an interval": ("var = logvar.exp()\nupper = mu + 1.96 * var", "std = var.sqrt()\nupper = mu + 1.96 * std"),
    "one half as a logit": (
        "crit = nn.BCEWithLogitsLoss()\nlogits = net(x)\nhit = (logits > 0.5) == y",
        "crit = nn.BCEWithLogitsLoss()\nlogits = net(x)\nhit = (torch.sigmoid(logits) > 0.5) == y",
    ),
    "waves that rise": (WAVES.format(sign="", odd=1), WAVES.format(sign="-", odd=1)),
    "waves, as a power": (
        "f = 10000 ** (torch.arange(0, d, 2) / d)\nangle = pos * f",
        "f = 10000 ** (torch.arange(0, d, 2) / d)\nangle = pos / f",
    ),
    "waves that are written over": (WAVES.format(sign="-", odd=0), WAVES.format(sign="-", odd=1)),
    "a rotation": (
        ATTEND.format(rotated="q = apply_rotary(q, cos, sin)"),
        ATTEND.format(rotated="q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)"),
    ),
    "guidance": (
        "eps = eps_uncond + w * (eps_uncond - eps_cond)",
        "eps = eps_uncond + w * (eps_cond - eps_uncond)",
    ),
    "guidance from the conditional answer": ("e = cond + w * (uncond - cond)", "e = cond + w * (cond - uncond)"),
    "guidance, short names": ("e = e_c - w * (e_c - e_u)", "e = e_c + w * (e_c - e_u)"),
    "guidance by two shares": ("e = (1 + w) * e_u - w * e_c", "e = (1 + w) * e_c - w * e_u"),
    "noise of a step": (
        "def chain(x):\n    x = x + step * score(x) + step * torch.randn_like(x)",
        "def chain(x):\n    x = x + step * score(x) + (2 * step) ** 0.5 * torch.randn_like(x)",
    ),
    "a step against the score": (
        "def chain(x):\n    x = x - step * score(x) + math.sqrt(2 * step) * torch.randn_like(x)",
        "def chain(x):\n    x = x + step * score(x) + math.sqrt(2 * step) * torch.randn_like(x)",
    ),
    "steps of a sampler": (SAMPLE.format(steps="range(T)"), SAMPLE.format(steps="reversed(range(T))")),
    "shares of labels": (MIXED.format(one="(1 - lam)", other="lam"), MIXED.format(one="lam", other="(1 - lam)")),
    "distances as scores": (
        "d = torch.cdist(q, centres)\nloss = F.cross_entropy(d, y)",
        "d = -torch.cdist(q, centres)\nloss = F.cross_entropy(d, y)",
    ),
    "distances as scores, at once": (
        "crit = nn.CrossEntropyLoss()\nloss = crit(torch.cdist(q, c) ** 2, y)",
        "crit = nn.CrossEntropyLoss()\nloss = crit(-torch.cdist(q, c) ** 2, y)",
    ),
    "a margin that is taken off": (
        "loss = F.relu(d_pos - d_neg - margin).mean()",
        "loss = F.relu(d_pos - d_neg + margin).mean()",
    ),
    "a margin of likenesses": (
        "loss = F.relu(sim_pos - sim_neg + margin).mean()",
        "loss = F.relu(sim_neg - sim_pos + margin).mean()",
    ),
    "a triplet": (
        "crit = nn.TripletMarginLoss()\nloss = crit(anchor, negative, positive)",
        "crit = nn.TripletMarginLoss()\nloss = crit(anchor, positive, negative)",
    ),
    "means of groups": (
        "r = score(texts).view(-1, group_size)\na = r - r.mean(0, keepdim=True)",
        "r = score(texts).view(-1, group_size)\na = r - r.mean(1, keepdim=True)",
    ),
    "an estimate of a divergence": (
        "kl = torch.exp(ref - logp) + (ref - logp) - 1",
        "kl = torch.exp(ref - logp) - (ref - logp) - 1",
    ),
    "members of one seed": (MEMBERS.format(seed="seed"), MEMBERS.format(seed="seed + i")),
    "members of one seed, by a function": (SEEDED.format(seed="0"), SEEDED.format(seed="i")),
    "pseudo-labels": (VIEWS.format(view="strong", other="weak"), VIEWS.format(view="weak", other="strong")),
    "weights of what is replayed": (
        "weights = (len(buffer) * probs[i]) ** beta",
        "weights = (len(buffer) * probs[i]) ** (-beta)",
    ),
    "weights of what is replayed, over one": (
        "w = (n * p) ** beta\nw = w / w.max()",
        "w = (1.0 / (n * p)) ** beta\nw = w / w.max()",
    ),
    "steps taken together": (N_STEPS.format(power=""), N_STEPS.format(power="**n_step")),
    "a clipped value": (
        "l = torch.min((v - ret) ** 2, (v_clipped - ret) ** 2)",
        "l = torch.max((v - ret) ** 2, (v_clipped - ret) ** 2)",
    ),
    "a focal loss": (
        "pt = torch.exp(-ce)\nloss = (pt ** gamma * ce).mean()",
        "pt = torch.exp(-ce)\nloss = ((1 - pt) ** gamma * ce).mean()",
    ),
    "two temperatures": (SHARPER.format(teacher="teacher"), SHARPER.format(teacher="teacher / T")),
    "the flow of an energy": ("f = torch.cat([dHdq, -dHdp], -1)", "f = torch.cat([dHdp, -dHdq], -1)"),
    "a penalty": ("gp = ((grads.norm(2) - 1) ** 2).mean()", "gp = ((grads.norm(2, dim=1) - 1) ** 2).mean()"),
    "a squashed action": (
        "logp += torch.log(1 - a.pow(2) + 1e-6).sum(-1)",
        "logp -= torch.log(1 - a.pow(2) + 1e-6).sum(-1)",
    ),
    "a squashed action, as a sum": (
        "logp = d.log_prob(u).sum(-1) + torch.log(1 - a ** 2 + 1e-6).sum(-1)",
        "logp = d.log_prob(u).sum(-1) - torch.log(1 - a ** 2 + 1e-6).sum(-1)",
    ),
    "a threshold": ("v = val_p\nthresholds = best_cuts(test_p, y)", "v = test_p\nthresholds = best_cuts(val_p, y)"),
    "statistics of an average": (AVERAGE.format(rest=""), AVERAGE.format(rest="update_bn(loader, swa)")),
    "moments": ("x = (x - std) / mean", "x = (x - mean) / std"),
    "moments, on the way back": ("img = x * mean + std", "img = x * std + mean"),
    "a picture and its mask": (
        CHANGE + "img = change(imgs[i])\nmask = change(masks[i])",
        CHANGE + "img, mask = both(imgs[i], masks[i])",
    ),
    "an overlap of boxes": (
        BOXES.format(inter="(x2 - x1) * (y2 - y1)"),
        BOXES.format(inter="(x2 - x1).clamp(0) * (y2 - y1).clamp(0)"),
    ),
    "a warm-up": ("lr = base * min(1.0, warmup / (step + 1))", "lr = base * min(1.0, (step + 1) / warmup)"),
    "a cosine": (
        "lr = 0.5 * (1 + math.cos(math.pi * total_steps / step))",
        "lr = 0.5 * (1 + math.cos(math.pi * step / total_steps))",
    ),
    "betas": ("opt = Adam(ps, betas=(0.999, 0.9))", "opt = Adam(ps, betas=(0.9, 0.999))"),
    "a critic": (
        "d_loss = critic(real).mean() - critic(fake).mean()",
        "d_loss = critic(fake).mean() - critic(real).mean()",
    ),
    "a divergence": (
        "kl = -0.5 * torch.sum(1 + logvar - mu - logvar.exp())",
        "kl = -0.5 * torch.sum(1 + logvar - mu ** 2 - logvar.exp())",
    ),
    "a divergence, its logarithm": (
        "kl = -0.5 * torch.sum(1 - logvar - mu ** 2 - logvar.exp())",
        "kl = 0.5 * torch.sum(mu.pow(2) + logvar.exp() - 1 - logvar)",
    ),
    "a step without noise": (
        "x = ab_t.sqrt() * x0 + (1 - ab_prev).sqrt() * eps",
        "x = ab_prev.sqrt() * x0 + (1 - ab_prev).sqrt() * eps",
    ),
    "a velocity": (FLOW.format(v="x0 - x1"), FLOW.format(v="x1 - x0")),
    "chance of an action": (
        "if random.random() > eps:\n    a = env.action_space.sample()\nelse:\n    a = q(s).argmax()",
        "if random.random() < eps:\n    a = env.action_space.sample()\nelse:\n    a = q(s).argmax()",
    ),
    "chance of an action, in a line": (
        "a = q(s).argmax() if rng.random() < epsilon else rng.integers(4)",
        "a = q(s).argmax() if rng.random() > epsilon else rng.integers(4)",
    ),
    "a chance that falls": ("eps = min(eps_min, eps * decay)", "eps = max(eps_min, eps * decay)"),
    "limits of a ratio": (
        "l = torch.min(ratio * adv, ratio.clamp(-clip, clip) * adv)",
        "l = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)",
    ),
    "limits of a ratio, exchanged": (
        "c = torch.clamp(ratio, 1 + clip, 1 - clip)",
        "c = torch.clamp(ratio, 1 - clip, 1 + clip)",
    ),
    "a gain by places": (
        "dcg = (rel / torch.log2(torch.arange(k) + 1)).sum()",
        "dcg = (rel / torch.log2(torch.arange(k) + 2)).sum()",
    ),
    "a gain by places, counted": (
        "for i, r in enumerate(rels):\n    dcg += r / math.log2(i + 1)",
        "for i, r in enumerate(rels, 1):\n    dcg += r / math.log2(i + 1)",
    ),
    "the best scores": ("topk = scores.argsort(-1)[:, :k]", "topk = scores.argsort(-1, descending=True)[:, :k]"),
    "two directions": (
        "loss = F.cross_entropy(s, n) + F.cross_entropy(s, n)",
        "loss = F.cross_entropy(s, n) + F.cross_entropy(s.t(), n)",
    ),
    "a query": (
        "query_loss = F.cross_entropy(net(x_support), y_support)",
        "query_loss = F.cross_entropy(net(x_query), y_query)",
    ),
    "prototypes": (
        "protos = torch.stack([query[c].mean(0) for c in r])\nd = dist(support, protos)",
        "protos = torch.stack([support[c].mean(0) for c in r])\nd = dist(query, protos)",
    ),
    "labels that are sure": (
        "pseudo = p.argmax(-1)\nmask = (conf < threshold).float()\nloss = (ce * mask).mean()",
        "pseudo = p.argmax(-1)\nmask = (conf > threshold).float()\nloss = (ce * mask).mean()",
    ),
    "information": ("fisher[n] += p.grad / len(data)", "fisher[n] += p.grad ** 2 / len(data)"),
    "degrees": ("d_inv_sqrt = deg.pow(0.5)", "d_inv_sqrt = deg.pow(-0.5)"),
    "links that are held out": (
        LINKS + "adj = normalized_adjacency(edges, n)",
        LINKS + "adj = normalized_adjacency(train_edges, n)",
    ),
    "a preference by softplus": (
        "loss = F.softplus(pos_scores - neg_scores).mean()",
        "loss = F.softplus(-(pos_scores - neg_scores)).mean()",
    ),
    "a preference, turned twice": (
        "loss = -F.logsigmoid(-(pos - neg)).mean()",
        "loss = -F.logsigmoid(-(neg - pos)).mean()",
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
        "best = net.state_dict()\nnet = Net()\nfor e in r:\n    net.load_state_dict(best)",  # another network
        "kept = net.state_dict()\nnet.load_state_dict(kept)\nopt.step()",  # nothing lies between
        "init = [p.data for p in net.parameters()]\nfor p in net.parameters():\n    p.data = f(p)\nopt.step()",
        "shadow = [p.detach() for p in net.parameters()]\nopt.step()",
        "def precision(a, b):\n    inter = (a & b).sum()\n    return inter / (b.sum() + eps)",
        "def share(a, b):\n    inter = (a & b).sum()\n    union = (a | b).sum()\n    return inter / union",
        "def f1(a, b):\n    inter = (a & b).sum()\n    s = inter / (a.sum() + b.sum())\n    return 2 * s",
        "loss = ((y - mu) ** 2 * torch.exp(-s)).mean() + logvar.mean()",
        "w = (y - mu) ** 2 * torch.exp(-logvar.detach())",
        "std = torch.exp(0.5 * logvar)\nupper = mu + 1.96 * std",
        "var = f(x)\nupper = mu + 1.96 * var.sqrt()",
        "crit = nn.CrossEntropyLoss()\nhit = (probs > 0.5) == y",
        "emb = math.log(10000) / (half - 1)\nemb = torch.exp(torch.arange(half) * -emb)\ne = t[:, None] * emb[None]",
        "f = 1.0 / (10000 ** (torch.arange(0, d, 2) / d))\nangle = pos * f",
        "x[:, 0] = a\nx[:, 0] = x[:, 0] + b",
        "x[0] = a\nx[0] = b",  # a register that is set up
        "def attend(x):\n    q, k, v = f(x)\n    q = rotary(q)\n    k = cache_of_rotated(k)\n    k = rotary(k)",
        "e = cond + (1 - w) * (uncond - cond)",
        "e = torch.lerp(uncond, cond, w)",
        "def chain(x):\n    x = x - step * grad_energy + noise_scale * torch.randn_like(x)",
        "def q_sample(x):\n    for t in range(T):\n        x = alphas[t] * model(x, t)",
        "loss = lam * ce(o, ya) + (1 - lam) * ce(o, yb)",  # nothing says how inputs are mixed
        "loss = F.cross_entropy(dist, y)",  # a distribution
        "loss = F.relu(pos - neg + margin).mean()",  # scores or distances
        "r = score(texts).view(group_size, -1)\na = r - r.mean(0)",
        "kl = torch.exp(r) - 1 - r",
        "for fold in range(5):\n    torch.manual_seed(seed)\n    models.append(Net())",  # folds begin alike
        "members = []\nfor i in range(5):\n    s = draw()\n    torch.manual_seed(s)\n    members.append(Net())",
        "y = r + gamma * (1 - done) * target(nxt).max(1).values",
        "l = torch.min(ratio * adv, clipped * adv)",
        "heat = pred ** gamma * torch.log(1 - pred) * neg",
        "loss = F.kl_div(F.log_softmax(s / student_temp, -1), F.softmax(t / teacher_temp, -1))",
        "logits = out / T\nsoft = teacher / T\nloss = F.kl_div(F.log_softmax(logits, -1), F.softmax(soft, -1))",
        "log_det += torch.log(1 - a.pow(2) + 1e-6).sum(-1)",  # of a flow
        "n = grad.norm(2)\nclipped = n > 1",
        "z = (x - mu) / sigma\nx = z * sigma + mu",
        "img, target = change(a), change(b)",
        "def f(a, b):\n    w = min(a[2], b[2]) - max(a[0], b[0])\n    if w <= 0:\n        return 0\n    inter = w * w",
        "lr = base * min(step ** -0.5, step * warmup ** -1.5)",
        "g_loss = -critic(fake).mean()",
        "d_loss = critic(real).mean() - critic(fake).mean()\n(-d_loss).backward()",  # it is raised
        "ge_loss = torch.mean(d_fake) + b * z_loss\nd_loss = torch.mean(d_real) - torch.mean(d_fake) + gp",
        "x = (1 - t) * x0 + t * noise\nv = x0 - noise\nfor i in reversed(range(9)):\n    x = x + net(x, i / 9) / 9",
        "if random.random() < eps:\n    a = random.choice(best)\nelse:\n    a = random.randint(0, 3)",
        "eps = min(eps_max, eps * 1.01)",
        "near = dist.argsort(-1)[:, :k]",
        "loss = F.cross_entropy(net(x), y) + F.cross_entropy(net(x), y)",  # two draws of a dropout
        "inner_loss = F.cross_entropy(net(x_support), y_support)",
        "pseudo = p.argmax(-1)\nmask = conf < threshold\npseudo[mask] = -100",
        "fisher[n] += p.grad.pow(2)",
        LINKS + "adj = normalized_adjacency(train_edges, n)\nknown = adjacency(edges, n)",
        "swa = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99))\nm = nn.BatchNorm1d(3)",
    ],
)
def test_what_only_looks_so_is_not_told(text):
    assert not contradictions({"a.py": text})
