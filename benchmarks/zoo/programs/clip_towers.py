"""CLIP-like: image tower and text tower, learned temperature, symmetric loss."""

import argparse
import math

import torch
from torch import nn
import torch.nn.functional as F


class ImageTower(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.proj = nn.Linear(32 * 16, out)

    def forward(self, x):
        return self.proj(self.conv(x).flatten(1))


class TextTower(nn.Module):
    def __init__(self, vocab, out):
        super().__init__()
        self.emb = nn.Embedding(vocab, 32)
        self.gru = nn.GRU(32, 64, batch_first=True)
        self.proj = nn.Linear(64, out)

    def forward(self, t):
        return self.proj(self.gru(self.emb(t))[1][-1])


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = ImageTower(32)
        self.text = TextTower(20, 32)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, tokens):
        i = F.normalize(self.visual(images), dim=-1)
        t = F.normalize(self.text(tokens), dim=-1)
        logits = self.logit_scale.exp() * i @ t.t()
        return logits, logits.t()


def batch(n):
    """A coloured square at one of 16 places; the caption says colour, row and column."""
    colour, row, col = torch.randint(0, 3, (n,)), torch.randint(0, 4, (n,)), torch.randint(0, 4, (n,))
    images = 0.2 * torch.randn(n, 3, 16, 16)
    for k in range(n):
        images[k, colour[k], 4 * row[k] : 4 * row[k] + 4, 4 * col[k] : 4 * col[k] + 4] += 1.0
    filler = torch.randint(11, 20, (n, 2))
    return images, torch.stack([filler[:, 0], colour, 3 + row, filler[:, 1], 7 + col], 1)


def main(seed):
    torch.manual_seed(seed)
    model = CLIP()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    labels = torch.arange(32)
    for step in range(400):
        images, tokens = batch(32)
        per_image, per_text = model(images, tokens)
        loss = (F.cross_entropy(per_image, labels) + F.cross_entropy(per_text, labels)) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        if step % 100 == 0:
            print(step, round(loss.item(), 4))
    model.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(model(*batch(32))[0], labels).item() for _ in range(20)]
    print("result", sum(losses) / len(losses))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("seed", type=int, nargs="?", default=0)
    main(p.parse_args().seed)
