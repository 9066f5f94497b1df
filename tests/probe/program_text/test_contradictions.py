"""Expressions that contradict their names are told; the same ones the right way round are not."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

CUMULATIVE = "alphas = 1 - betas\nacp = torch.cumprod(alphas, 0)\ndef q(x, t, noise):\n    "
SOLVER = "def f(g, y, h):\n    t = 0.0\n    for _ in range(9):\n        y = step(g, t, y, h)"
TRAINER = "def train(m, x):\n    m(x).sum().backward()\n    Adam(m.parameters()).step()\n"
CORRUPT = "def corrupt(x):\n"
VOCABULARY = "class Vocab:\n    def __call__(self, w):\n        return self.d.setdefault(w, len(self.d))\n"
NUMBERING = "def codes(words):\n    d = {w: i for i, w in enumerate(sorted(set(words)))}\n"
BOXES = """
conv = nn.Conv2d(3, 8, 3)
class Boxes:
    def __getitem__(self, i):
        img, (x1, y1, x2, y2) = self.items[i]
        if random.random() < 0.5:
            img = torch.flip(img, dims=[{axis}])
            x1, x2 = 1 - x2, 1 - x1
        return img, (x1, y1, x2, y2)
"""
COPIES = "for e, s in zip(ema.parameters(), net.parameters()):\n    "
PAIRS = {
    "ratio": ("ratio = torch.exp(old_logp - new_logp)", "ratio = torch.exp(new_logp - old_logp)"),
    "ratio, as a method": ("ratio = (b.old_logprob - logprob).exp()", "ratio = (logprob - b.old_logprob).exp()"),
    "residual": (
        "def forward(self, x):\n    x = self.attn(self.ln_1(x))\n    x = x + self.mlp(self.ln_2(x))\n    return x",
        "def forward(self, x):\n    x = x + self.attn(self.ln_1(x))\n    x = x + self.mlp(self.ln_2(x))\n"
        "    x = self.head(self.ln_f(x))\n    return x",
    ),
    "residual, returned": (
        "def forward(self, x):\n    x = self.attn(self.norm1(x))\n    return x + self.mlpf(self.norm2(x))",
        "def forward(self, x):\n    x = x + self.attn(self.norm1(x))\n    return x + self.mlpf(self.norm2(x))",
    ),
    "blocks of a list": (
        "self.blocks = nn.ModuleList([Block(d)] * 6)",
        "self.blocks = nn.ModuleList([Block(d) for _ in range(6)])",
    ),
    "layers in a row": (
        "net = nn.Sequential(nn.Linear(4, 8), *[nn.Linear(8, 8)] * depth)",
        "net = nn.Sequential(nn.Linear(4, 8), *[nn.ReLU()] * depth)",
    ),
    "gradients that are clipped before their pass": (
        "for x in loader:\n    opt.zero_grad()\n    loss = net(x).sum()\n    clip_grad_norm_(net.parameters(), 1.0)\n"
        "    loss.backward()\n    opt.step()",
        "for x in loader:\n    opt.zero_grad()\n    loss = net(x).sum()\n    loss.backward()\n"
        "    clip_grad_norm_(net.parameters(), 1.0)\n    opt.step()",
    ),
    "gradients that are clipped behind the step": (
        "for x in loader:\n    opt.zero_grad()\n    net(x).sum().backward()\n    opt.step()\n"
        "    norm = clip_grad_norm_(net.parameters(), 1.0)",
        "for x in loader:\n    opt.zero_grad()\n    net(x).sum().backward()\n"
        "    norm = clip_grad_norm_(net.parameters(), 1.0)\n    opt.step()",
    ),
    "slow copy": (
        f"decay = 0.99\n{COPIES}e.mul_(1 - decay).add_(s, alpha=decay)",
        f"decay = 0.99\n{COPIES}e.mul_(decay).add_(s, alpha=1 - decay)",
    ),
    "slow copy, in one expression": (
        f"tau = 0.995\n{COPIES}e.data.copy_(tau * s.data + (1 - tau) * e.data)",
        f"tau = 0.005\n{COPIES}e.data.copy_(tau * s.data + (1 - tau) * e.data)",
    ),
    "slow copy, assigned": (
        f"def update(ema, net, m=0.99):\n    {COPIES}    e.data = (1 - m) * e.data + m * s.data",
        f"def update(ema, net, m=0.99):\n    {COPIES}    e.data = m * e.data + (1 - m) * s.data",
    ),
    "slow copy, by lerp": (
        f"m = 0.99\n{COPIES}e.lerp_(s, m)",
        f"m = 0.01\n{COPIES}e.lerp_(s, m)",
    ),
    "a temperature that multiplies": (
        "def nt_xent(z, y, temperature=0.2):\n    return F.cross_entropy((z @ z.t()) * temperature, y)",
        "def nt_xent(z, y, temperature=0.2):\n    return F.cross_entropy((normalize(z) @ z.t()) / temperature, y)",
    ),
    "a temperature of a module that multiplies": (
        "self.tau = 0.07\nlogits = self.tau * torch.einsum('nd,md->nm', a, b)\n"
        "loss = criterion(F.log_softmax(logits, 1), y)",
        "self.tau = 14.0\nlogits = self.tau * torch.einsum('nd,md->nm', a, b)\n"
        "loss = criterion(F.log_softmax(logits, 1), y)",
    ),
    "weights of classes": (
        "counts = torch.bincount(y).float()\nweights = counts / counts.sum()\n"
        "criterion = nn.CrossEntropyLoss(weight=weights)",
        "counts = torch.bincount(y).float()\nweights = counts.sum() / counts\n"
        "criterion = nn.CrossEntropyLoss(weight=weights)",
    ),
    "weights of classes, turned in two steps": (
        "class_weights = class_counts / len(y)\nloss = F.cross_entropy(s, y, weight=class_weights)",
        "class_weights = class_counts / len(y)\nclass_weights = 1.0 / class_weights\n"
        "loss = F.cross_entropy(s, y, weight=class_weights)",
    ),
    "policy gradient": (
        "policy_loss = (torch.stack(log_probs) * advantage).sum()",
        "policy_loss = -(torch.stack(log_probs) * advantage).sum()",
    ),
    "policy gradient, action by action": (
        "for log_prob, R in zip(policy.saved_log_probs, returns):\n    policy_loss.append(log_prob * R)",
        "for log_prob, R in zip(policy.saved_log_probs, returns):\n    policy_loss.append(-log_prob * R)",
    ),
    "policy gradient, beside its entropy": (
        "ent = -(probs * log_probs).sum()\nloss = (dist.log_prob(a) * (returns - v).detach()).mean() - 0.01 * ent",
        "ent = -(probs * log_probs).sum()\nloss = -(dist.log_prob(a) * (returns - v).detach()).mean() - 0.01 * ent",
    ),
    "surrogate": ("loss = -torch.max(surr1, surr2).mean()", "loss = -torch.min(surr1, surr2).mean()"),
    "twin critics": ("target_q = torch.max(q1_next, q2_next)", "target_q = torch.min(q1_next, q2_next)"),
    "reversed gradients": (
        "class GradReverse(Function):\n    def forward(ctx, x, a):\n        ctx.a = a\n        return x.view_as(x)\n"
        "    def backward(ctx, g):\n        return ctx.a * g, None\n",
        "class GradReverse(Function):\n    def forward(ctx, x, a):\n        ctx.a = a\n        return x.view_as(x)\n"
        "    def backward(ctx, g):\n        return g.neg() * ctx.a, None\n",
    ),
    "reversed gradients, turned by who asks": (
        "class GRL(Function):\n    def forward(ctx, x, a):\n        return x\n"
        "    def backward(ctx, g):\n        return ctx.a * g, None\ny = GRL.apply(x, 1.0)\n",
        "class GRL(Function):\n    def forward(ctx, x, a):\n        return x\n"
        "    def backward(ctx, g):\n        return ctx.a * g, None\ny = GRL.apply(x, -1.0)\n",
    ),
    "hazard of the censored": (
        "def nll(event, log_hazard, cum_hazard):\n    return -(event * (log_hazard - cum_hazard)).mean()",
        "def nll(event, log_hazard, cum_hazard):\n    return -(event * log_hazard - cum_hazard).mean()",
    ),
    "listwise ranking": (
        "def list_mle(s, rel):\n    s = s.gather(1, rel.argsort(dim=1, descending=True))\n"
        "    return (s.logcumsumexp(1) - s).mean()",
        "def list_mle(s, rel):\n    s = s.gather(1, rel.argsort(dim=1, descending=True))\n"
        "    return (s.flip(1).logcumsumexp(1).flip(1) - s).mean()",
    ),
    "covariates of the future": (
        "def item(self, i, mid):\n    past = self.cov[i:mid]\n    future_cov = self.cov[i:i + H]\n",
        "def item(self, i, mid):\n    past = self.cov[i:mid]\n    future_cov = self.cov[mid:mid + H]\n",
    ),
    "mirrored boxes": (
        BOXES.format(axis=1),
        BOXES.format(axis=2),
    ),
    "mirrored boxes, by name": (
        "def mirror(img, x, y):\n    img = TF.vflip(img)\n    x = width - x\n    return img, x, y",
        "def mirror(img, x, y):\n    img = TF.hflip(img)\n    x = width - x\n    return img, x, y",
    ),
    "an own class that keeps a vocabulary": (
        "class Prep:\n    def fit(self, t):\n        self.vocab = {v: i for i, v in enumerate(np.unique(t))}\n"
        "prep = Prep()\nx = prep.fit_transform(train_table)\ny = prep.fit_transform(test_table)",
        "class Prep:\n    def fit(self, t):\n        self.vocab = {v: i for i, v in enumerate(np.unique(t))}\n"
        "prep = Prep()\nx = prep.fit_transform(train_table)\ny = prep.transform(test_table)",
    ),
    "crops of two scales": (
        "def item(self, top, left):\n    lr_patch = lr[:, top:top + p, left:left + p]\n"
        "    hr_patch = hr[:, top:top + P, left:left + P]\n",
        "def item(self, top, left):\n    lr_patch = lr[:, top:top + p, left:left + p]\n"
        "    hr_patch = hr[:, 2 * top:2 * top + P, 2 * left:2 * left + P]\n",
    ),
    "crops of two scales, by new places": (
        "def item(self, top, left):\n    lr_patch = lr[left:left + p]\n    hr_patch = hr[left:left + P]\n",
        "def item(self, top, left):\n    lr_patch = lr[left:left + p]\n    left = left * 2\n"
        "    hr_patch = hr[left:left + P]\n",
    ),
    "temperature": (
        "alpha_loss = (self.log_alpha * (logp + self.target_entropy).detach()).mean()",
        "alpha_loss = -(self.log_alpha * (logp + self.target_entropy).detach()).mean()",
    ),
    "temperature, inside": (
        "alpha_loss = (log_alpha.exp() * (log_prob.detach() + target_entropy)).mean()",
        "alpha_loss = (log_alpha.exp() * (-log_prob - target_entropy).detach()).mean()",
    ),
    "temperature, by entropy": (
        "temperature_loss = alpha * (target_entropy - entropy)",
        "temperature_loss = alpha * (entropy - target_entropy)",
    ),
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
    "divergence": (
        "kl = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp()) / x.size(0)",
        "kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / x.size(0)",
    ),
    "divergence, as a method": (
        "kld = (mu ** 2 + log_var.exp() - 1 - log_var).mean() / batch_size",
        "kld = (mu ** 2 + log_var.exp() - 1 - log_var).mean(0).sum() / accumulated",
    ),
    "pretrained values": (
        "self.users = nn.Embedding.from_pretrained(torch.empty(9, 4).normal_(std=0.1))",
        "self.users = nn.Embedding.from_pretrained(torch.randn(9, 4), freeze=False)",
    ),
    "pretrained values, by name": (
        "table = torch.randn(9, 4)\nitems = torch.nn.Embedding.from_pretrained(table)",
        "table = torch.load(path)\nitems = torch.nn.Embedding.from_pretrained(table)",
    ),
    "pretrained values of a bag": (
        "bag = nn.EmbeddingBag.from_pretrained(torch.rand(9, 4))",
        "bag = nn.EmbeddingBag.from_pretrained(torch.rand(9, 4))\nbag.weight.requires_grad_(True)",
    ),
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
    "cleared passes": (
        "for x in y:\n    a.backward()\n    opt.zero_grad()\n    (b + c).backward()\n    opt.step()\n    sched.step()",
        "for x in data:\n    opt.zero_grad()\n    a.backward()\n    (b + c).backward()\n    opt.step()",
    ),
    "cleared passes, with a total": (
        "def f():\n    a.backward()\n    n += a.item()\n    s.o.zero_grad()\n    b.backward()\n    s.o.step()",
        "def f():\n    g.backward()\n    og.step()\n    od.zero_grad()\n    d.backward()\n    od.step()\n"
        "def h():\n    a.backward()\n    x = x + d.grad.sign()\n    o.zero_grad()\n    b.backward()\n    o.step()\n"
        "def i():\n    a.backward()\n    keep(net)\n    o.zero_grad()\n    b.backward()\n    o.step()\n"
        "def j():\n    g.backward()\n    od.zero_grad()\n    d.backward()\n    od.step()\n    og.step()\n",
    ),
    "derivatives": ("u_t, u_x = grad(u, (x, t), one)", "u_x, u_t = grad(u, (x, t), one)"),
    "derivative": (
        "u_x = torch.autograd.grad(u, t, one, create_graph=True)[0]",
        "u_x = torch.autograd.grad(u, x, one, create_graph=True)[0]",
    ),
    "second derivative": ("u_xx = grad(u_x, t)[0]", "u_xx = grad(u_x, x)[0]"),
    "derivative, in full": ("du_dx = grad(u, t, one)[0]", "du_dx = grad(u, x, one)[0]\nd_x = grad(score, z)[0]"),
    "derivative by what has a name": ("g = 1\ndu_g = gradients(u, x)[0]", "du_g = gradients(u, x)[0]"),
    "risk set": (
        "def cox(log_h, durations, events):\n    i = durations.sort()[1]\n    return torch.logcumsumexp(log_h[i], 0)",
        "def cox(log_h, durations, events):\n    i = durations.sort(descending=True)[1]\n"
        "    return torch.logcumsumexp(log_h[i], 0)",
    ),
    "risk set, by argsort": (
        "def loss(risk, time, event):\n    i = torch.argsort(time)\n    return risk[i].exp().cumsum(0).log()",
        "def loss(risk, time, event):\n    i = torch.argsort(-time)\n    return risk[i].exp().cumsum(0).log()",
    ),
    "risk set, turned": (
        "def loss(risk, time, event):\n    i = np.argsort(time)\n    return torch.cumsum(risk[i].exp(), 0)",
        "def loss(risk, time, event):\n    i = np.argsort(time)\n    return torch.cumsum(risk[i].exp().flip(0), 0)",
    ),
    "events": ("events = 1 - events[order]", "events = 1 - censored[order]\nmask = 1 - mask"),
    "blank": (
        "loss = nn.CTCLoss()\ntext = greedy(logits, blank=28)",
        "BLANK = 28\nloss = nn.CTCLoss(blank=BLANK)\ntext = greedy(logits, blank=28)",
    ),
    "blank, by a name": (
        "LAST = 9\nloss = F.ctc_loss(a, b, c, d, 0)\ndecode(a, blank_id=LAST)",
        "LAST = 9\nloss = F.ctc_loss(a, b, c, d, LAST)\ndecode(a, blank_id=LAST)",
    ),
    "returns": (
        "for r in rewards:\n    g = r + gamma * g\n    returns.append(g)",
        "for r in reversed(rewards):\n    g = r + gamma * g\n    returns.append(g)",
    ),
    "advantages": (
        "for t in range(n):\n    gae = delta[t] + gamma * lam * gae\n    adv[t] = gae",
        "for t in range(n - 1, -1, -1):\n    gae = delta[t] + gamma * lam * gae\n    adv[t] = gae",
    ),
    "overlap": (
        "def f(p, t):\n    inter = (p * t).sum()\n    dice = (2 * inter + 1) / (p.sum() + t.sum() + 1)\n"
        "    return bce(p, t) + 0.5 * dice.mean()",
        "def f(p, t):\n    inter = (p * t).sum()\n    dice = (2 * inter + 1) / (p.sum() + t.sum() + 1)\n"
        "    return bce(p, t) + 0.5 * (1 - dice).mean()",
    ),
    "overlap, by a weight of the module": (
        "def f(self, p, t):\n    iou = (p * t).sum() / (p + t - p * t).sum().clamp(min=1)\n"
        "    loss = self.ce(p, t) + self.weight * iou",
        "def f(self, p, t):\n    iou = (p * t).sum() / (p + t - p * t).sum()\n"
        "    loss = self.ce(p, t) - self.weight * iou",
    ),
    "overlap, of a function": (
        "def dice_coef(p, t):\n    tp = (p * t).sum()\n    return (2 * tp + eps) / (p.sum() + t.sum() + eps)\n"
        "def step(p, t):\n    loss = criterion(p, t) + dice_coef(p, t)",
        "def dice_coef(p, t):\n    tp = (p * t).sum()\n    return (2 * tp + eps) / (p.sum() + t.sum() + eps)\n"
        "def step(p, t):\n    loss = criterion(p, t) + 1 - dice_coef(p, t)",
    ),
    "overlap, added later": (
        "def step(p, t):\n    jaccard = intersection.sum() / union.sum()\n    loss = bce(p, t)\n    loss += jaccard",
        "def step(p, t):\n    jaccard = intersection.sum() / union.sum()\n    loss = bce(p, t)\n    loss -= jaccard",
    ),
    "overlap, with two minuses": (
        "def step(p, t):\n    dice = 2 * inter / (p.sum() + t.sum())\n    loss = bce(p, t) - (1 - dice)",
        "def step(p, t):\n    dice = 1 - 2 * inter / (p.sum() + t.sum())\n    loss = bce(p, t) + dice",
    ),
    "mirrored sides": (
        "H = ['left', 'right']\nif torch.rand(1) < 0.5:\n    img = img.flip(-1)",
        "H = ['left', 'right']\nif torch.rand(1) < 0.5:\n    img = img.flip(-2)",
    ),
    "mirrored sides, by torch.flip": (
        "H = ('left', 'right')\nif random.random() < 0.5:\n    image = torch.flip(image, dims=[-1])",
        "H = ('left', 'right')\nif random.random() < 0.5:\n    image = torch.flip(image, dims=[-1])\n"
        "    side = 1 - side",
    ),
    "mirrored sides, by a transform": (
        "C = {'turn_left': 0, 'straight': 1, 'turn_right': 2}\nT = Compose([RandomHorizontalFlip(), ToTensor()])",
        "C = {'turn_left': 0, 'straight': 1, 'turn_right': 2}\nT = Compose([RandomVerticalFlip(), ToTensor()])",
    ),
    "mirrored sides, by numpy": (
        "S = ['left', 'right']\nif rng.uniform() < 0.5:\n    frame = np.fliplr(frame)",
        "S = ['left', 'right']\nif rng.uniform() < 0.5:\n    frame = np.fliplr(frame)\n"
        "    text = text.replace('left', 'right')",
    ),
    "mirrored sides, exchanged by a table": (
        "S = ['left hand', 'left', 'right']\nT = A.HorizontalFlip(p=0.5)",
        "S = ['left', 'right']\nOTHER = {'left': 'right', 'right': 'left'}\nT = A.HorizontalFlip(p=0.5)",
    ),
    "noising without roots": (
        f"{CUMULATIVE}a = acp[t].view(-1, 1)\n    return a * x + (1 - a) * noise",
        f"{CUMULATIVE}a = acp[t].view(-1, 1)\n    return a.sqrt() * x + (1 - a).sqrt() * noise",
    ),
    "second derivative of a first": ("u_xx = grad(u, x)", "u_xx = grad(u_x, x)"),
    "time of a solver": (
        f"{SOLVER}\n    return y",
        f"{SOLVER}\n        t = t + h\n    return y",
    ),
    "mixed samples": (
        "def mix(x, y):\n    i = torch.randperm(9)\n    return a * x + (1 - a) * x[i], y[torch.randperm(9)]",
        "def mix(x, y):\n    i = torch.randperm(9)\n    return a * x + (1 - a) * x[i], y[i]",
    ),
    "mixed samples, two names": (
        "def mix(x, y):\n    i, j = randperm(9), randperm(9)\n    return a * x + (1 - a) * x[i], y[j]",
        "def mix(x, y):\n    i, j = randperm(9), randperm(9)\n    return a * x + (1 - a) * x[i], y[i]",
    ),
    "axes of a map": (
        "net = nn.Conv2d(1, 5, 3)\nx[i, 0, y0:y0 + h, x0:x0 + w] += 1\nobj[i, gx, gy] = 1",
        "net = nn.Conv2d(1, 5, 3)\nx[i, 0, y0:y0 + h, x0:x0 + w] += 1\nobj[i, gy, gx] = 1",
    ),
    "encoder of two splits": (
        "a = encoder.fit_transform(x_train)\nb = encoder.fit_transform(x_test)",
        "a = encoder.fit_transform(x_train)\nb = encoder.transform(x_test)",
    ),
    "two encoders of one class": (
        "a = LabelEncoder().fit_transform(train.city)\nb = LabelEncoder().fit_transform(val.city)",
        "le = LabelEncoder().fit(train.city)\na, b = le.transform(train.city), le.transform(val.city)",
    ),
    "vocabulary of two splits": (
        f"{VOCABULARY}a, b = codes(train, Vocab()), codes(test, Vocab())",
        f"{VOCABULARY}v = Vocab()\na, b = codes(train, v), codes(test, v)",
    ),
    "folds": (
        "net, opt = make()\nfor fold in range(5):\n    net(x).sum().backward()\n    opt.step()",
        "for fold in range(5):\n    net, opt = make()\n    net(x).sum().backward()\n    opt.step()",
    ),
    "folds, by a function": (
        f"{TRAINER}model = Net()\nfor i, (a, b) in enumerate(kf.split(x)):\n    train(model, x[a])",
        f"{TRAINER}for i, (a, b) in enumerate(kf.split(x)):\n    model = Net()\n    train(model, x[a])",
    ),
    "folds that begin anew": (
        f"{TRAINER}for k in range(n_folds):\n    train(net, folds[k])",
        f"{TRAINER}for k in range(n_folds):\n    net.load_state_dict(first)\n    train(net, folds[k])",
    ),
    "labels that alias": (
        "def mask(ids):\n    labels = ids\n    ids[chosen] = MASK\n    return ids, labels",
        "def mask(ids):\n    labels = ids.clone()\n    ids[chosen] = MASK\n    return ids, labels",
    ),
    "labels and inputs that alias": (
        "def mask(ids):\n    x = ids\n    labels = ids\n    x[chosen] = MASK\n    return x, labels",
        "def mask(ids):\n    x = ids.clone()\n    labels = ids\n    x[chosen] = MASK\n    return x, labels",
    ),
    "an argument that is changed": (
        f"{CORRUPT}    x += randn_like(x)\n    return x\nnoisy = corrupt(batch)\nmse(noisy, batch)",
        f"{CORRUPT}    x = x.clone()\n    x += randn_like(x)\n    return x\nnoisy = corrupt(batch)\nmse(noisy, batch)",
    ),
    "an argument that is changed by an index": (
        f"{CORRUPT}    x[drawn] = 0\n    return x\nnoisy = corrupt(batch)\nmse(noisy, batch)",
        f"{CORRUPT}    x[drawn] = 0\n    return x\nnoisy = corrupt(batch.clone())\nloss = mse(net(noisy), batch)",
    ),
    "returns to go": (
        "def returns_to_go(r):\n    return np.cumsum(r)",
        "def returns_to_go(r):\n    return np.cumsum(r[::-1])[::-1]",
    ),
    "function that numbers": (
        f"{NUMBERING}    return [d[w] for w in words]\na, b = codes(train_words), codes(test_words)",
        f"{NUMBERING}    return [d[w] for w in words], d\na, b = codes(train_words), codes(test_words)",
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
        # what grows is turned later, is negated already, or is to become less
        "pg_loss = (logp * adv).mean()\n(-pg_loss).backward()",
        "logp = -dist.log_prob(a)\nloss = (logp * adv).mean()",
        "adv = value - returns\nloss = (logp * adv).mean()",
        "loss = (logp * cost).mean()",
        "loss = (logp * adv).mean()\nopt = Adam(p, maximize=True)",
        "loss = ((logp - old_logp).exp() * -adv).mean()",
        "loss = torch.max(-adv * ratio, -adv * clipped).mean()",  # both negated: the smaller surrogate
        "kl = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1",  # an estimate of the divergence
        "loss = F.softplus(pos_dist - neg_dist).mean()",  # of distances the preferred one is the smaller
        "ret = ret * gamma + reward",  # a running sum that scales rewards
        "h1 = self.act(x)\nh2 = self.act(y)",
        "s = optim.lr_scheduler.ReduceLROnPlateau(o, 'max', patience=5)\ns.step(val_score)",
        "s = ReduceLROnPlateau(o, **options)\ns.step(val_score)",
        "s = ReduceLROnPlateau(o, mode)\ns.step(val_score)",
        "x = self.embed(ids) * math.sqrt(self.width)",
        "def score(p, t):\n    dice = 2 * inter / (p.sum() + t.sum())\n    return dice.mean()",
        "def f(p, t):\n    total_dice += 2 * inter / (a + b)\n    return total_dice + iou(p, t)",
        "def dice_loss(p, t):\n    return 2 * inter / (a + b)\ndef g(p, t):\n    loss = bce(p, t) + dice_loss(p, t)",
        "def f(p, t):\n    dice = -2 * inter / (p.sum() + t.sum())\n    loss = bce(p, t) + dice",
        "def f(p, t):\n    dice = (a.sum() + b.sum() - 2 * inter) / (a.sum() + b.sum())\n    loss = bce(p, t) + dice",
        "both = a.merge(b, how='left')\nc = merge(how='right')\nT = RandomHorizontalFlip()",
        "C = ['cat', 'dog']\nT = RandomHorizontalFlip()",
        "S = ['left', 'right']\nif view == 'back':\n    img = img.flip(-1)",
        "S = ['left', 'right']\nif random.random() < 0.5:\n    x = x.flip(-1)",
        "def q(x, t, noise):\n    return (1 - t) * x + t * noise",  # a straight path from the data to the noise
        "def f(a, b):\n    return a[torch.randperm(9)], b[torch.randperm(9)]",  # two sets, which are not paired
        "net = nn.Conv2d(1, 5, 3)\nboard[x, y] = 1\nseen[px, py] = 1",
        "img[y, x] = 1\nboard[x, y] = 1",  # no map that convolutions make
        "a = scaler.fit_transform(x_train)\nb = scaler.fit_transform(x_test)",  # another scale hardly matters
        "b = encoder.fit_transform(x_test)",
        "u_xy = grad(u, x)",
        "def f(h):\n    old = h\n    h = h + 1\n    h[0] = 2\n    return old, h",  # another array by then
        "def f(n):\n    before = n\n    n += 1\n    return before, n",  # numbers
        "def g(x):\n    x[0] = 1\n    return x\ny = g(x)\nprint(y)",  # only one of the names is used
        "rtg = total - torch.cumsum(r, 0) + r",
        "def f(g, y, h):\n    t = 0.5\n    for _ in range(9):\n        y = step(g, t, y, h)",  # a constant of the field
        "def broken(:",
    ],
)
def test_what_only_looks_so_is_not_told(text):
    assert contradictions({"train.py": text}) == []
