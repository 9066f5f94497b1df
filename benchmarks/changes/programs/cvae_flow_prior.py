"""Conditional VAE whose prior is a RealNVP flow. Binary glyph images, ten glyphs."""
import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

class Settings(NamedTuple):
    side: int = 16
    num_glyphs: int = 10
    latent_dim: int = 8
    hidden_dim: int = 192
    num_couplings: int = 4
    drop_prob: float = 0.1
    learning_rate: float = 1e-3
    batch_size: int = 128
    num_steps: int = 2500
    beta_warmup: int = 500
    seed: int = 21

def make_glyphs(settings: Settings, count: int, seed: int):
    gen = torch.Generator().manual_seed(seed)
    half = settings.side // 2
    proto_gen = torch.Generator().manual_seed(1234)
    prototypes = (torch.rand(settings.num_glyphs, 1, half, half, generator=proto_gen) > 0.5).float()
    labels = torch.randint(settings.num_glyphs, (count,), generator=gen)
    images = F.interpolate(prototypes[labels], scale_factor=2).squeeze(1)
    shifts = torch.randint(-2, 3, (count,), generator=gen).tolist()
    images = torch.stack([torch.roll(img, k, dims=1) for img, k in zip(images, shifts)])
    flips = torch.rand(images.shape, generator=gen) < 0.02
    return torch.where(flips, 1 - images, images), labels

class Encoder(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        pixels = settings.side ** 2
        self.label_embedding = nn.Embedding(settings.num_glyphs, 16)
        self.trunk = nn.Sequential(nn.Linear(pixels + 16, settings.hidden_dim), nn.ReLU(),
                                   nn.Dropout(settings.drop_prob),
                                   nn.Linear(settings.hidden_dim, settings.hidden_dim), nn.ReLU())
        self.mean_head = nn.Linear(settings.hidden_dim, settings.latent_dim)
        self.logvar_head = nn.Linear(settings.hidden_dim, settings.latent_dim)

    def forward(self, images, labels):
        features = self.trunk(torch.cat([images.flatten(1), self.label_embedding(labels)], dim=1))
        return self.mean_head(features), self.logvar_head(features).clamp(-8, 4)

class Decoder(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.side = settings.side
        self.label_embedding = nn.Embedding(settings.num_glyphs, 16)
        self.hidden1 = nn.Linear(settings.latent_dim + 16, settings.hidden_dim)
        self.hidden2 = nn.Linear(settings.hidden_dim, settings.hidden_dim)
        self.output = nn.Linear(settings.hidden_dim, settings.side ** 2)

    def forward(self, latent, labels):
        inputs = torch.cat([latent, self.label_embedding(labels)], dim=1)
        hidden = F.relu(self.hidden1(inputs))
        hidden = F.relu(self.hidden2(hidden))
        return self.output(hidden).view(-1, self.side, self.side)

class Coupling(nn.Module):
    def __init__(self, dim: int, swap: bool):
        super().__init__()
        self.swap = swap
        self.net = nn.Sequential(nn.Linear(dim // 2, 64), nn.Tanh(), nn.Linear(64, dim))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, z):
        first, second = z.chunk(2, dim=1)
        if self.swap:
            first, second = second, first
        scale, shift = self.net(first).chunk(2, dim=1)
        scale = torch.tanh(scale)
        second = second * scale.exp() + shift
        pieces = (second, first) if self.swap else (first, second)
        return torch.cat(pieces, dim=1), scale.sum(dim=1)

class FlowPrior(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(settings.latent_dim, i % 2 == 1) for i in range(settings.num_couplings))

    def log_prob(self, z):
        total = torch.zeros(z.size(0), device=z.device)
        for layer in self.layers:
            z, logdet = layer(z)
            total = total + logdet
        return total - 0.5 * (z.pow(2) + math.log(2 * math.pi)).sum(dim=1)

class GlyphVAE(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.encoder, self.decoder, self.prior = Encoder(settings), Decoder(settings), FlowPrior(settings)

    def elbo_terms(self, images, labels):
        mean, logvar = self.encoder(images, labels)
        noise = torch.randn_like(mean)
        latent = mean + torch.exp(0.5 * logvar) * noise
        logits = self.decoder(latent, labels)
        recon = F.binary_cross_entropy_with_logits(logits, images, reduction="none").sum(dim=(1, 2))
        log_q = -0.5 * (logvar + noise.pow(2) + math.log(2 * math.pi)).sum(dim=1)
        return recon.mean(), (log_q - self.prior.log_prob(latent)).mean()

def run(settings: Settings):
    torch.manual_seed(settings.seed)
    train_images, train_labels = make_glyphs(settings, 6000, seed=1)
    test_images, test_labels = make_glyphs(settings, 500, seed=2)
    model = GlyphVAE(settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    for step in range(settings.num_steps):
        model.train()
        pick = torch.randint(len(train_images), (settings.batch_size,))
        recon, kl = model.elbo_terms(train_images[pick], train_labels[pick])
        beta = min(1.0, (step + 1) / settings.beta_warmup)
        loss = recon + beta * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 250 == 0:
            model.eval()
            with torch.no_grad():
                test_recon, test_kl = model.elbo_terms(test_images, test_labels)
            print(f"step {step}: recon {recon:.2f} kl {kl:.2f} | test elbo {-(test_recon + test_kl):.2f}")

if __name__ == "__main__":
    run(Settings())
