"""Small VAE on 16x16 procedural blobs (rotated ellipses and bars)."""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(7)

SIDE = 16
LATENT = 8
EPOCHS = 14
BATCH = 128


def make_images(n, gen):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    cx = torch.rand(n, 1, 1, generator=gen) * 1.0 - 0.5
    cy = torch.rand(n, 1, 1, generator=gen) * 1.0 - 0.5
    a = 0.25 + 0.4 * torch.rand(n, 1, 1, generator=gen)
    b = 0.12 + 0.2 * torch.rand(n, 1, 1, generator=gen)
    th = math.pi * torch.rand(n, 1, 1, generator=gen)
    u = (xs - cx) * th.cos() + (ys - cy) * th.sin()
    v = -(xs - cx) * th.sin() + (ys - cy) * th.cos()
    ellipse = ((u / a) ** 2 + (v / b) ** 2 < 1).float()
    ring = (((u / a) ** 2 + (v / a) ** 2) - 0.8).abs().lt(0.45).float()
    kind = (torch.rand(n, 1, 1, generator=gen) < 0.5).float()
    img = kind * ellipse + (1 - kind) * ring
    flip = (torch.rand(n, SIDE, SIDE, generator=gen) < 0.01).float()
    return (img + flip - 2 * img * flip).reshape(n, -1)


class Encoder(nn.Module):
    def __init__(self, d_in, d_hid, d_lat):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_in, d_hid), nn.ReLU(), nn.Linear(d_hid, d_hid), nn.ReLU())
        self.mu = nn.Linear(d_hid, d_lat)
        self.logvar = nn.Linear(d_hid, d_lat)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, d_lat, d_hid, d_out):
        super().__init__()
        self.fc1 = nn.Linear(d_lat, d_hid)
        self.fc2 = nn.Linear(d_hid, d_hid)
        self.out = nn.Linear(d_hid, d_out)

    def forward(self, z):
        h = F.relu(self.fc1(z))
        h = F.relu(self.fc2(h))
        return self.out(h)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(SIDE * SIDE, 256, LATENT)
        self.decoder = Decoder(LATENT, 256, SIDE * SIDE)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        mu, logvar = self.encoder(x)
        z = self.reparameterize(mu, logvar)
        return self.decoder(z), mu, logvar


def vae_loss(logits, x, mu, logvar, beta):
    recon = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / x.size(0)
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()
    return recon + beta * kl, recon, kl


@torch.no_grad()
def iw_nll(model, x, k=64):
    """Importance weighted estimate of -log p(x), nats per image."""
    model.eval()
    total = 0.0
    for xb in x.split(250):
        mu, logvar = model.encoder(xb)
        std = (0.5 * logvar).exp()
        z = mu + std * torch.randn(k, *mu.shape)
        logits = model.decoder(z)
        log_px = -F.binary_cross_entropy_with_logits(logits, xb.expand(k, -1, -1), reduction="none").sum(-1)
        log_pz = (-0.5 * (z ** 2 + math.log(2 * math.pi))).sum(-1)
        log_q = (-0.5 * (((z - mu) / std) ** 2 + math.log(2 * math.pi)) - 0.5 * logvar).sum(-1)
        total += -(torch.logsumexp(log_px + log_pz - log_q, 0) - math.log(k)).sum().item()
    return total / len(x)


def main():
    gen = torch.Generator().manual_seed(11)
    train_x = make_images(8000, gen)
    test_x = make_images(1000, gen)
    loader = DataLoader(TensorDataset(train_x), batch_size=BATCH, shuffle=True)

    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    warmup_steps = 2 * len(loader)
    step = 0
    for epoch in range(EPOCHS):
        model.train()
        sums = [0.0, 0.0, 0.0]
        for (x,) in loader:
            beta = min(1.0, 0.2 + step / warmup_steps)
            logits, mu, logvar = model(x)
            loss, recon, kl = vae_loss(logits, x, mu, logvar, beta)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            for i, v in enumerate((loss, recon, kl)):
                sums[i] += v.item()
        n = len(loader)
        print(f"epoch {epoch:2d}  loss {sums[0]/n:8.3f}  recon {sums[1]/n:8.3f}  kl {sums[2]/n:7.3f}")

    nll = iw_nll(model, test_x)
    print("RESULT", json.dumps({"metric": "test_iw_nll", "value": round(nll, 4), "better": "lower"}))


if __name__ == "__main__":
    main()
