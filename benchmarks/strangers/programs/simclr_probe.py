"""SimCLR pretraining on textured glyphs + linear probe."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

S = 12
K = 10


def glyphs():
    g = torch.Generator().manual_seed(99)
    coarse = (torch.rand(K, 1, 3, 3, generator=g) > 0.5).float()
    return F.interpolate(coarse, scale_factor=2, mode="nearest")


def make_data(n, gen):
    protos = glyphs()
    y = torch.randint(0, K, (n,), generator=gen)
    canvas = torch.zeros(n, 1, S, S)
    pos = torch.randint(0, S - 6 + 1, (n, 2), generator=gen)
    gain = 0.6 + 0.8 * torch.rand(n, generator=gen)
    for i in range(n):
        r, c = pos[i].tolist()
        canvas[i, :, r:r + 6, c:c + 6] = protos[y[i]] * gain[i]
    canvas += 0.15 * torch.randn(n, 1, S, S, generator=gen)
    canvas += 0.5 * torch.randn(n, 1, 1, 1, generator=gen)
    return canvas, y


def augment(x):
    n = x.size(0)
    out = torch.empty_like(x)
    shifts = torch.randint(-3, 4, (n, 2)).tolist()
    for i, (a, b) in enumerate(shifts):
        out[i] = torch.roll(x[i], (a, b), dims=(1, 2))
    out = out * (0.7 + 0.6 * torch.rand(n, 1, 1, 1)) + 0.5 * torch.randn(n, 1, 1, 1)
    return out + 0.1 * torch.randn_like(out)


class Encoder(nn.Module):
    def __init__(self, w=16, dim=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU(),
            nn.Conv2d(w, 2 * w, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.Conv2d(2 * w, dim, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(dim), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.net(x)


class SimCLR(nn.Module):
    def __init__(self, dim=64, proj=32):
        super().__init__()
        self.encoder = Encoder(dim=dim)
        self.projector = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, proj))

    def forward(self, x):
        return self.projector(self.encoder(x))


def nt_xent(za, zb, tau):
    n = za.size(0)
    z = F.normalize(torch.cat([za, zb], dim=0), dim=1)
    e = torch.exp(z @ z.T / tau)
    e = e * (1 - torch.eye(2 * n))
    partner = (torch.arange(2 * n) + n) % (2 * n)
    pos = e[torch.arange(2 * n), partner]
    return -torch.log(pos / e.sum(dim=1)).mean()


@torch.no_grad()
def features(encoder, x):
    encoder.eval()
    return torch.cat([encoder(b) for b in x.split(256)])


def linear_probe(encoder, xtr, ytr, xte, yte):
    ftr, fte = features(encoder, xtr), features(encoder, xte)
    mu, sd = ftr.mean(0), ftr.std(0) + 1e-5
    ftr, fte = (ftr - mu) / sd, (fte - mu) / sd
    head = nn.Linear(ftr.size(1), K)
    opt = torch.optim.LBFGS(head.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(head(ftr), ytr) + 1e-3 * head.weight.square().sum()
        loss.backward()
        return loss

    opt.step(closure)
    with torch.no_grad():
        return (head(fte).argmax(1) != yte).float().mean().item()


def run(seed, epochs=10, batch=96, lr=2e-3, tau=0.2):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed + 500)
    unlabelled, _ = make_data(3072, gen)
    xtr, ytr = make_data(400, gen)
    xte, yte = make_data(1500, gen)

    net = SimCLR()
    opt = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=1e-4)
    steps = epochs * (len(unlabelled) // batch)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, lr, total_steps=steps, pct_start=0.1)
    best, best_encoder = float("inf"), copy.deepcopy(net.encoder)
    for epoch in range(epochs):
        net.train()
        total, count = 0.0, 0
        for idx in torch.randperm(len(unlabelled)).split(batch):
            x = unlabelled[idx]
            va, vb = augment(x), augment(x)
            loss = nt_xent(net(va), net(vb), tau)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
            count += 1
        avg = total / count
        if avg < best:
            best, best_encoder = avg, copy.deepcopy(net.encoder)
        print(f"epoch {epoch} contrastive {avg:.4f}")
        if epoch == 4:
            print(f"  probe error {linear_probe(net.encoder, xtr, ytr, xte, yte):.4f}")
    err = linear_probe(best_encoder, xtr, ytr, xte, yte)
    print(f"result {err:.5f}")


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
