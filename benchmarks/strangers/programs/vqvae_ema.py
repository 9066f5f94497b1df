import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, g, size=16):
    """Soft random ellipses over a slanted background, values in [0, 1]."""
    lin = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(lin, lin, indexing="ij")
    r = lambda lo, hi: (lo + (hi - lo) * torch.rand(n, 1, 1, generator=g))
    img = 0.15 * (1 + r(-1, 1) * xx + r(-1, 1) * yy)
    for _ in range(2):
        cx, cy, a, b = r(-.6, .6), r(-.6, .6), r(.2, .5), r(.2, .5)
        th = r(0, 3.14159)
        u = (xx - cx) * th.cos() + (yy - cy) * th.sin()
        v = -(xx - cx) * th.sin() + (yy - cy) * th.cos()
        d = (u / a) ** 2 + (v / b) ** 2
        m = torch.sigmoid(8 * (1 - d))
        img = img * (1 - m) + r(.4, 1) * m
    return img.clamp(0, 1).unsqueeze(1)


class Quantizer(nn.Module):
    """Codebook kept as a running mean of the vectors assigned to each code."""

    def __init__(self, k, d, beta=0.25, decay=0.95):
        super().__init__()
        self.k, self.beta, self.decay = k, beta, decay
        self.register_buffer("book", torch.randn(k, d))
        self.register_buffer("count", torch.ones(k))
        self.register_buffer("total", self.book.clone())

    def nearest(self, flat):
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.book.t() + self.book.pow(2).sum(1)
        return dist.argmin(dim=1)

    @torch.no_grad()
    def update(self, flat, codes):
        onehot = F.one_hot(codes, self.k).type_as(flat)
        self.count.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
        self.total.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
        dead = self.count < 0.5
        if dead.any():
            fresh = flat[torch.randint(0, len(flat), (int(dead.sum()),))]
            self.count[dead], self.total[dead] = 1.0, fresh
        self.book.copy_(self.total / self.count.unsqueeze(1))

    def forward(self, z):
        b, d, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, d)
        codes = self.nearest(flat)
        zq = self.book[codes].view(b, h, w, d).permute(0, 3, 1, 2)
        vq_loss = self.beta * F.mse_loss(z, zq)
        if self.training:
            self.update(flat.detach(), codes)
        st = z + (zq - z).detach()
        return st, vq_loss, codes.view(b, h, w)

    def lookup(self, codes):
        return self.book[codes].permute(0, 3, 1, 2)


class VQVAE(nn.Module):
    def __init__(self, k=64, d=12, w=24):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, w, 4, 2, 1), nn.ReLU(), nn.Conv2d(w, w, 4, 2, 1), nn.ReLU(), nn.Conv2d(w, d, 1))
        self.vq = Quantizer(k, d)
        self.decoder = nn.Sequential(
            nn.Conv2d(d, w, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(w, w, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(w, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        st, vq_loss, codes = self.vq(self.encoder(x))
        return self.decoder(st), vq_loss, codes

    def compress(self, x):
        return self.vq(self.encoder(x))[2]

    def decompress(self, codes):
        return self.decoder(self.vq.lookup(codes))


def train_epoch(model, loader, opt, sched):
    model.train()
    rec_sum = vq_sum = 0.0
    used = set()
    for (x,) in loader:
        recon, vq_loss, codes = model(x)
        rec = F.binary_cross_entropy(recon, x, reduction="none").sum(dim=(1, 2, 3)).mean() / 16
        loss = rec + vq_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        rec_sum += rec.item()
        vq_sum += vq_loss.item()
        used.update(codes.unique().tolist())
    return rec_sum / len(loader), vq_sum / len(loader), len(used)


@torch.no_grad()
def held_out_error(model, x):
    model.eval()
    out = model.decompress(model.compress(x))
    return (F.mse_loss(out, x) / x.var()).item()


def main(seed=0, epochs=12):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    train, test = blobs(2560, g), blobs(512, g)
    loader = DataLoader(TensorDataset(train), batch_size=64, shuffle=True)
    model = VQVAE()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.01 ** (1 / (epochs * len(loader))))
    for ep in range(epochs):
        rec, vq, used = train_epoch(model, loader, opt, sched)
        print(f"epoch {ep:2d} rec {rec:.4f} vq {vq:.4f} codes {used} nmse {held_out_error(model, test):.4f}")
    print(f"result {held_out_error(model, test):.6f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
