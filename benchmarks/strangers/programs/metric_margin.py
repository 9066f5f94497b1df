import sys
import torch
from torch import nn
import torch.nn.functional as F


class SignalBank:
    """Classes are latent templates; every example is a shifted, scaled, noisy view through a fixed warp."""

    def __init__(self, n_classes, per_class, gen, length=48):
        k = torch.arange(1, 7).float()
        t = torch.linspace(0, 1, length)
        amp = torch.randn(n_classes, 6, generator=gen)
        ph = torch.rand(n_classes, 6, generator=gen) * 6.283
        xs, ys = [], []
        for c in range(n_classes):
            shift = torch.rand(per_class, 1, 1, generator=gen) * 0.5
            gain = 0.5 + torch.rand(per_class, 1, generator=gen)
            wave = (amp[c].view(1, 6, 1) * torch.sin(6.283 * k.view(1, 6, 1) * (t.view(1, 1, -1) + shift) + ph[c].view(1, 6, 1))).sum(1)
            x = gain * wave + 0.5 * torch.randn(per_class, length, generator=gen)
            x = x + 2.0 * torch.randn(per_class, 1, generator=gen)
            xs.append(x)
            ys.append(torch.full((per_class,), c))
        self.x = torch.cat(xs)
        self.y = torch.cat(ys)
        self.per_class = per_class
        self.n_classes = n_classes


class PKSampler:
    def __init__(self, bank, p, k, gen):
        self.bank, self.p, self.k, self.gen = bank, p, k, gen

    def draw(self):
        classes = torch.randperm(self.bank.n_classes, generator=self.gen)[: self.p]
        idx = []
        for c in classes.tolist():
            pick = torch.randperm(self.bank.per_class, generator=self.gen)[: self.k]
            idx.append(c * self.bank.per_class + pick)
        idx = torch.cat(idx)
        idx = idx[torch.randperm(len(idx), generator=self.gen)]
        x, y = self.bank.x[idx], self.bank.y[idx]
        return x, y


class Embedder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 32, 5, padding=2, padding_mode="circular"), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 64, 5, stride=2, padding=2, padding_mode="circular"), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 64, 5, stride=2, padding=2, padding_mode="circular"), nn.BatchNorm1d(64), nn.ReLU(),
        )
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(64 * 3, dim)

    def forward(self, x):
        x = x - x.mean(1, keepdim=True)
        h = self.conv(x[:, None])
        h = torch.cat([h.mean(-1), h.amax(-1), h.std(-1)], dim=1)
        z = self.fc(self.drop(h))
        return F.normalize(z, dim=1)


def pairwise(z):
    sq = 2 - 2 * z @ z.t()
    return sq.clamp(min=1e-6).sqrt()


def weighted_triplet(z, y):
    d = pairwise(z)
    same = y[:, None] == y[None, :]
    pos = same & ~torch.eye(len(y), dtype=torch.bool)
    neg = ~same
    wp = torch.softmax((4 * d).masked_fill(~pos, -1e4), dim=1)
    wn = torch.softmax((-4 * d).masked_fill(~neg, -1e4), dim=1)
    dp = (wp * d).sum(1)
    dn = (wn * d).sum(1)
    return F.softplus(6 * (dp - dn)).mean(), dp.mean(), dn.mean()


class Trainer:
    def __init__(self, seed):
        torch.manual_seed(seed)
        gen = torch.Generator().manual_seed(seed + 17)
        self.train_bank = SignalBank(60, 30, gen)
        self.test_bank = SignalBank(50, 12, gen)
        self.sampler = PKSampler(self.train_bank, 16, 4, gen)
        self.net = Embedder()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=400)

    def step(self):
        self.net.train()
        x, y = self.sampler.draw()
        z = self.net(x)
        loss, dp, dn = weighted_triplet(z, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        return loss.item(), dp.item(), dn.item()

    @torch.no_grad()
    def recall_error(self):
        self.net.eval()
        b = self.test_bank
        z = self.net(b.x)
        d = pairwise(z)
        d.fill_diagonal_(99.0)
        k = b.per_class - 1
        nn_lab = b.y[d.topk(k, largest=False).indices]
        return 1 - (nn_lab == b.y[:, None]).float().mean().item()

    def fit(self, steps):
        for s in range(1, steps + 1):
            loss, dp, dn = self.step()
            if s % 80 == 0:
                print(f"step {s:4d} loss {loss:.4f} pos {dp:.3f} neg {dn:.3f} r-precision err {self.recall_error():.4f}")


if __name__ == "__main__":
    tr = Trainer(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print("untrained", tr.recall_error())
    tr.fit(400)
    print("result", tr.recall_error())
