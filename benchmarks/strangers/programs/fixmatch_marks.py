import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# FixMatch with an EMA model on 14x14 drawings: arrows (left, right, up, down), plus, cross

CFG = {
    "seed": 8, "steps": 320, "labelled_per_class": 5, "unlabelled": 3000, "test": 900,
    "bs": 24, "mu": 3, "lr": 0.05, "threshold": 0.9, "lambda_u": 1.0, "rampup": 80, "ema": 0.98,
}
S, CLASSES = 14, 6


def draw(label, rng):
    img = np.zeros((S, S), np.float32)
    c, r = S // 2, int(rng.integers(3, 5))
    for k in range(-r, r + 1):
        if label < 5:
            img[c, c + k] = 1
        if label == 4:
            img[c + k, c] = 1
        if label == 5:
            img[c + k, c + k] = img[c + k, c - k] = 1
    if label < 4:
        for k in range(1, 4):
            img[c - k, c - r + k] = img[c + k, c - r + k] = 1
        img = np.rot90(img, [0, 2, 3, 1][label]).copy()
    img = np.roll(img, rng.integers(-1, 2, 2), (0, 1))
    return img * rng.uniform(0.6, 1.2) + rng.normal(0, 0.27, (S, S)).astype(np.float32)


def make_set(n, rng):
    labels = rng.integers(0, CLASSES, n)
    imgs = np.stack([draw(y, rng) for y in labels]).astype(np.float32)
    return torch.from_numpy(imgs)[:, None], torch.from_numpy(labels)


def shift(x, most):
    padded = F.pad(x, [most] * 4)
    dx, dy = np.random.randint(0, 2 * most + 1, 2)
    return padded[:, :, dy:dy + S, dx:dx + S]


def weak(x):
    return shift(x, 1)


def strong(x):
    x = shift(x, 2)
    x = x * (0.6 + 0.8 * torch.rand(len(x), 1, 1, 1)) + 0.2 * torch.randn_like(x)
    cy, cx = np.random.randint(0, S - 4, 2)
    x = x.clone()
    x[:, :, cy:cy + 4, cx:cx + 4] = 0.0
    return x


def conv_bn(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o, momentum=0.05), nn.LeakyReLU(0.1))


def build():
    return nn.Sequential(conv_bn(1, 12), conv_bn(12, 24, 2), conv_bn(24, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(32, CLASSES))


class EMA:
    def __init__(self, model, decay):
        self.model, self.decay, self.n = copy.deepcopy(model).eval(), decay, 0

    @torch.no_grad()
    def update(self, model):
        self.n += 1
        d = min(self.decay, self.n / (self.n + 10))
        for a, b in zip(self.model.parameters(), model.parameters()):
            a.lerp_(b, 1 - d)
        for a, b in zip(self.model.buffers(), model.buffers()):
            a.copy_(b)


def accuracy(net, x, y):
    was = net.training
    net.eval()
    with torch.no_grad():
        hit = (net(x).argmax(1) == y).float().mean().item()
    net.train(was)
    return hit


def lr_at(step):
    return CFG["lr"] * math.cos(7 * math.pi * step / (16 * CFG["steps"]))


def main():
    torch.manual_seed(CFG["seed"])
    np.random.seed(CFG["seed"])
    rng = np.random.default_rng(CFG["seed"])
    x_pool, y_pool = make_set(CFG["unlabelled"], rng)
    x_test, y_test = make_set(CFG["test"], rng)
    chosen = torch.cat([(y_pool == c).nonzero()[: CFG["labelled_per_class"], 0] for c in range(CLASSES)])
    x_lab, y_lab = x_pool[chosen], y_pool[chosen]

    net = build()
    ema = EMA(net, CFG["ema"])
    decay, plain = [], []
    for p in net.parameters():
        (decay if p.ndim > 1 else plain).append(p)
    opt = torch.optim.SGD([{"params": decay, "weight_decay": 5e-4}, {"params": plain, "weight_decay": 0.0}],
                          lr=CFG["lr"], momentum=0.9, nesterov=True)
    for step in range(CFG["steps"]):
        for g in opt.param_groups:
            g["lr"] = lr_at(step)
        i = torch.randint(0, len(x_lab), (CFG["bs"],))
        j = torch.randint(0, len(x_pool), (CFG["bs"] * CFG["mu"],))
        xl, yl, xu = x_lab[i], y_lab[i], x_pool[j]

        logits = net(torch.cat([weak(xl), weak(xu), strong(xu)]))
        out_l, out_w, out_s = logits.split([len(xl), len(xu), len(xu)])
        sup = F.cross_entropy(out_l, yl)
        probs = torch.softmax(out_w.detach(), dim=-1)
        conf, pseudo = probs.max(dim=-1)
        mask = (conf >= CFG["threshold"]).float()
        unsup = (F.cross_entropy(out_s, pseudo, reduction="none") * mask).mean()
        weight = CFG["lambda_u"] * min(1.0, step / CFG["rampup"])
        loss = sup + weight * unsup

        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        ema.update(net)
        if step % 40 == 0:
            right = (pseudo == y_pool[j]).float()
            purity = (right * mask).sum() / mask.sum().clamp(min=1)
            print(f"{step:4d} sup {sup.item():.3f} unsup {unsup.item():.3f} kept {mask.mean().item():.2f} "
                  f"purity {purity.item():.2f} ema acc {accuracy(ema.model, x_test, y_test):.3f}")

    print("raw model", round(accuracy(net, x_test, y_test), 4))
    print("result", round(1.0 - accuracy(ema.model, x_test, y_test), 4))


main()
