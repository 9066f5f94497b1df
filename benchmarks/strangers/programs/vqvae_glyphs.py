# Small VQ-VAE on 16x16 glyph images (random strokes and discs).
import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def make_images(n, rs):
    yy, xx = np.mgrid[0:16, 0:16].astype(np.float32)
    out = np.zeros((n, 1, 16, 16), np.float32)
    for i in range(n):
        img = np.zeros((16, 16), np.float32)
        for _ in range(rs.randint(1, 4)):
            kind = rs.randint(3)
            cx, cy = rs.uniform(3, 13, 2)
            if kind == 0:  # line
                a = rs.choice([0, np.pi / 4, np.pi / 2, 3 * np.pi / 4])
                d = np.abs((xx - cx) * np.sin(a) - (yy - cy) * np.cos(a))
                t = np.abs((xx - cx) * np.cos(a) + (yy - cy) * np.sin(a))
                img = np.maximum(img, np.clip(1.4 - d, 0, 1) * (t < 6))
            elif kind == 1:  # ring
                r = np.hypot(xx - cx, yy - cy)
                img = np.maximum(img, np.clip(1.2 - np.abs(r - 3.0), 0, 1))
            else:  # disc
                r = np.hypot(xx - cx, yy - cy)
                img = np.maximum(img, np.clip(3.0 - r, 0, 1) * 0.7)
        out[i, 0] = img
    return torch.from_numpy(out + 0.02 * rs.randn(*out.shape).astype(np.float32))


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 1)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class VectorQuantizer(nn.Module):
    def __init__(self, n_codes, dim, beta=0.25):
        super().__init__()
        self.n_codes, self.dim, self.beta = n_codes, dim, beta
        self.codebook = nn.Embedding(n_codes, dim)
        nn.init.uniform_(self.codebook.weight, -1.0, 1.0)
        self.register_buffer("usage", torch.ones(n_codes))

    def forward(self, z):
        b, c, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, c)
        e = self.codebook.weight
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ e.t() + e.pow(2).sum(1)
        idx = dist.argmin(1)
        q = self.codebook(idx).view(b, h, w, c).permute(0, 3, 1, 2)
        codebook_loss = F.mse_loss(q, z.detach())
        commit_loss = F.mse_loss(z, q.detach())
        loss = codebook_loss + self.beta * commit_loss
        if self.training:
            counts = torch.bincount(idx, minlength=self.n_codes).float()
            self.usage.mul_(0.95).add_(counts, alpha=0.05)
        q = z + (q - z).detach()
        return q, loss, idx

    @torch.no_grad()
    def revive(self, z):
        """Move codes that nobody uses onto random encoder outputs."""
        flat = z.permute(0, 2, 3, 1).reshape(-1, self.dim)
        dead = torch.nonzero(self.usage < 0.5).flatten()
        if len(dead):
            pick = torch.randint(len(flat), (len(dead),))
            self.codebook.weight[dead] = flat[pick]
            self.usage[dead] = 1.0
        return len(dead)


class VQVAE(nn.Module):
    def __init__(self, hidden=24, dim=8, n_codes=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, hidden, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(hidden, hidden, 4, stride=2, padding=1),
            ResBlock(hidden), nn.BatchNorm2d(hidden), nn.Conv2d(hidden, dim, 1),
        )
        self.vq = VectorQuantizer(n_codes, dim)
        self.decoder = nn.Sequential(
            nn.Conv2d(dim, hidden, 3, padding=1), ResBlock(hidden), nn.ReLU(),
            nn.ConvTranspose2d(hidden, hidden, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(hidden, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        z = self.encoder(x)
        q, vq_loss, idx = self.vq(z)
        recon = self.decoder(q)
        return recon, vq_loss, idx, z


def reconstruct_from_codes(model, x):
    """What a receiver of the integer codes alone would see."""
    model.eval()
    with torch.no_grad():
        _, _, idx, z = model(x)
        b, c, h, w = z.shape
        code = model.vq.codebook(idx.view(b, h, w)).permute(0, 3, 1, 2)
        recon = model.decoder(code)
    model.train()
    return (recon - x).pow(2).mean().item() / x.var().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", nargs="?", type=int, default=0)
    ap.add_argument("--steps", type=int, default=850)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rs = np.random.RandomState(args.seed)
    train, test = make_images(4000, rs), make_images(400, rs)
    model = VQVAE()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps, eta_min=1e-4)
    print("untrained", round(reconstruct_from_codes(model, test), 4))
    for it in range(args.steps):
        x = train[torch.randint(len(train), (args.batch,))]
        recon, vq_loss, idx, z = model(x)
        rec_loss = F.mse_loss(recon, x) / 0.1
        loss = rec_loss + vq_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it < args.steps // 2 and it % 20 == 10:
            model.vq.revive(z.detach())
        if it % 100 == 0 or it == args.steps - 1:
            print(f"it {it} loss {loss.item():.4f} rec {rec_loss.item():.4f} vq {vq_loss.item():.4f} codes {len(idx.unique())}")
    print("result %.5f" % reconstruct_from_codes(model, test))


if __name__ == "__main__":
    main()
