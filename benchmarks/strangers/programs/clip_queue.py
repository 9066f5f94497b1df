"""Cross-modal retrieval between spectra and short captions.

Two online encoders, two momentum encoders and one FIFO queue of keys per modality.
"""
import copy
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_POS, N_WIDTH, LENGTH, MAX_WORDS = 12, 2, 64, 9
PAD = 0
FILLERS = list(range(1, 7))
FIRST_PEAK_WORD = 7
VOCAB = FIRST_PEAK_WORD + N_POS * N_WIDTH


@dataclass
class Config:
    dim: int = 32
    width: int = 48
    queue: int = 512
    batch: int = 64
    momentum: float = 0.97
    steps: int = 1300
    lr: float = 2e-3
    eval_size: int = 256


def draw_pairs(n, rng):
    """n spectra with 2-3 lines each and captions that name the lines in random order."""
    axis = np.arange(LENGTH)
    spectra = np.zeros((n, LENGTH), dtype=np.float32)
    words = np.full((n, MAX_WORDS), PAD, dtype=np.int64)
    for i in range(n):
        k = rng.integers(2, 4)
        places = rng.choice(N_POS, size=k, replace=False)
        widths = rng.integers(0, N_WIDTH, size=k)
        for p, w in zip(places, widths):
            centre = 5 + 5 * p + rng.normal(0, 0.5)
            sigma = 0.8 if w == 0 else 2.2
            spectra[i] += rng.uniform(0.7, 1.3) * np.exp(-0.5 * ((axis - centre) / sigma) ** 2)
        spectra[i] += 0.05 * rng.normal(size=LENGTH) + 0.2 * rng.uniform() * axis / LENGTH
        sentence = [FIRST_PEAK_WORD + p * N_WIDTH + w for p, w in zip(places, widths)]
        sentence += list(rng.choice(FILLERS, size=rng.integers(0, MAX_WORDS - k + 1)))
        rng.shuffle(sentence)
        words[i, : len(sentence)] = sentence
    return torch.from_numpy(spectra), torch.from_numpy(words)


class SpectrumEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 16, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(16, 32, 5, stride=2, padding=2)
        self.head = nn.Sequential(nn.Linear(32 * LENGTH // 4, cfg.width), nn.GELU(), nn.Linear(cfg.width, cfg.dim))

    def forward(self, x):
        h = F.gelu(self.conv1(x[:, None]))
        h = F.gelu(self.conv2(h))
        return F.normalize(self.head(h.flatten(1)), dim=-1)


class CaptionEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, cfg.width)
        self.mix = nn.Sequential(nn.Linear(cfg.width, cfg.width), nn.GELU())
        self.proj = nn.Linear(cfg.width, cfg.dim)

    def forward(self, words):
        keep = (words != PAD).unsqueeze(-1).float()
        h = self.mix(self.embed(words))
        pooled = (h * keep).sum(1) / keep.sum(1).clamp(min=1.0)
        return F.normalize(self.proj(pooled), dim=-1)


class KeyQueue:
    def __init__(self, size, dim):
        self.keys = F.normalize(torch.randn(size, dim), dim=-1)
        self.ptr = 0

    def push(self, k):
        n = k.shape[0]
        self.keys[self.ptr : self.ptr + n] = k
        self.ptr = (self.ptr + n) % self.keys.shape[0]


class CrossModalMoCo(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.spectrum = SpectrumEncoder(cfg)
        self.caption = CaptionEncoder(cfg)
        self.spectrum_key = copy.deepcopy(self.spectrum)
        self.caption_key = copy.deepcopy(self.caption)
        for p in list(self.spectrum_key.parameters()) + list(self.caption_key.parameters()):
            p.requires_grad_(False)
        self.log_scale = nn.Parameter(torch.tensor(2.3))
        self.spectrum_queue = KeyQueue(cfg.queue, cfg.dim)
        self.caption_queue = KeyQueue(cfg.queue, cfg.dim)

    @torch.no_grad()
    def update_keys(self):
        m = self.cfg.momentum
        for online, slow in ((self.spectrum, self.spectrum_key), (self.caption, self.caption_key)):
            for p, k in zip(online.parameters(), slow.parameters()):
                k.mul_(m).add_(p, alpha=1 - m)

    def nce(self, q, k, queue):
        positive = (q * k).sum(-1, keepdim=True)
        negative = q @ queue.keys.clone().t()
        logits = torch.cat([positive, negative], dim=1) * self.log_scale.exp().clamp(max=50.0)
        target = torch.zeros(q.shape[0], dtype=torch.long)
        return F.cross_entropy(logits, target)

    def forward(self, x, words):
        q_x, q_w = self.spectrum(x), self.caption(words)
        with torch.no_grad():
            self.update_keys()
            k_x, k_w = self.spectrum_key(x), self.caption_key(words)
        loss = 0.5 * (self.nce(q_x, k_w, self.caption_queue) + self.nce(q_w, k_x, self.spectrum_queue))
        self.spectrum_queue.push(k_x)
        self.caption_queue.push(k_w)
        return loss


@torch.no_grad()
def mean_rank(model, x, words):
    """Mean reciprocal rank of the right caption, turned into an error."""
    sim = model.spectrum(x) @ model.caption(words).t()
    own = sim.diag()[:, None]
    rank = 0.5 + (sim > own).sum(1) + 0.5 * (sim == own).sum(1)
    return 1.0 - (1.0 / rank).mean().item()


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    cfg = Config()
    train_x, train_w = draw_pairs(6000, rng)
    test_x, test_w = draw_pairs(cfg.eval_size, rng)
    model = CrossModalMoCo(cfg)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=cfg.lr, weight_decay=1e-3)
    print(f"untrained error {mean_rank(model, test_x, test_w):.4f}")
    for step in range(cfg.steps):
        idx = torch.from_numpy(rng.integers(0, len(train_x), cfg.batch))
        loss = model(train_x[idx], train_w[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 200 == 0 or step == cfg.steps - 1:
            print(f"step {step:4d} loss {loss.item():.4f}")
    print(f"result {mean_rank(model, test_x, test_w):.5f}")


if __name__ == "__main__":
    main()
