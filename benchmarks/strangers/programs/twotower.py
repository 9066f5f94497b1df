import json
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

torch.set_num_threads(1)

COLORS = {"red": (1, .1, .1), "green": (.1, .9, .2), "blue": (.1, .2, 1), "yellow": (.9, .9, .1), "white": (1, 1, 1), "purple": (.7, .1, .8)}
SHAPES = ["square", "disc", "cross", "bar"]
HORIZ = ["left", "right"]
VERT = ["top", "bottom"]
SIZES = ["small", "large"]
FILLER = ["a", "picture", "of", "the", "one", "some"]
S = 16


def draw(color, shape, h, v, size, rng):
    img = np.zeros((3, S, S), np.float32)
    cx = rng.uniform(3.5, 5) if h == "left" else rng.uniform(10, 11.5)
    cy = rng.uniform(3.5, 5) if v == "top" else rng.uniform(10, 11.5)
    r = rng.uniform(1.6, 2.1) if size == "small" else rng.uniform(3.0, 3.6)
    yy, xx = np.mgrid[:S, :S]
    dx, dy = np.abs(xx - cx), np.abs(yy - cy)
    m = {"square": (dx <= r * .85) & (dy <= r * .85), "disc": dx ** 2 + dy ** 2 <= r * r,
         "cross": ((dx <= r * .35) & (dy <= r)) | ((dy <= r * .35) & (dx <= r)), "bar": (dy <= r * .4) & (dx <= r)}[shape]
    img[:, m] = np.array(COLORS[color], np.float32)[:, None] * rng.uniform(.75, 1.0)
    return img + rng.normal(0, .12, img.shape).astype(np.float32)


def caption(color, shape, h, v, size, rng):
    words = [FILLER[rng.integers(len(FILLER))] for _ in range(rng.integers(0, 4))]
    body = [size, color, shape] if rng.random() < .5 else [color, size, shape]
    return " ".join(words + body + ["at", v, h])


def all_combos():
    return [(c, s, h, v, z) for c in COLORS for s in SHAPES for h in HORIZ for v in VERT for z in SIZES]


def build_vocab(captions):
    vocab = {"<pad>": 0, "<unk>": 1}
    for c in captions:
        for w in c.split():
            vocab.setdefault(w, len(vocab))
    return vocab


class Pairs(Dataset):
    def __init__(self, n, seed, vocab=None, augment=False, combos=None):
        rng = np.random.default_rng(seed)
        pool = all_combos()
        combos = combos or [pool[i] for i in rng.integers(len(pool), size=n)]
        self.images = torch.from_numpy(np.stack([draw(*c, rng) for c in combos]))
        self.captions = [caption(*c, rng) for c in combos]
        self.vocab = vocab or build_vocab(self.captions)
        self.augment = augment

    def encode(self, text, length=10):
        ids = [self.vocab.get(w, 1) for w in text.split()][:length]
        return torch.tensor(ids + [0] * (length - len(ids)))

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, i):
        img = self.images[i]
        if self.augment:
            img = img * (0.8 + 0.4 * torch.rand(1)) + 0.05 * torch.randn_like(img)
        return img, self.encode(self.captions[i])


class ImageTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 96), nn.ReLU(), nn.Linear(96, dim))

    def forward(self, x):
        return self.head(self.conv(x))


class TextTower(nn.Module):
    def __init__(self, vocab_size, dim, width=48):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, width, padding_idx=0)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.proj = nn.Sequential(nn.Linear(width, 96), nn.GELU(), nn.Linear(96, dim))

    def forward(self, tok):
        mask = (tok != 0).float().unsqueeze(-1)
        h = self.mix(self.emb(tok))
        return self.proj((h * mask).sum(1) / mask.sum(1))


class TwoTower(nn.Module):
    def __init__(self, vocab_size, dim=32):
        super().__init__()
        self.visual = ImageTower(dim)
        self.text = TextTower(vocab_size, dim)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.1)))

    def encode_image(self, x):
        return F.normalize(self.visual(x), dim=-1)

    def encode_text(self, t):
        return F.normalize(self.text(t), dim=-1)

    def forward(self, x, t):
        scale = self.logit_scale.exp().clamp(max=100)
        return scale * self.encode_image(x) @ self.encode_text(t).t()


def clip_loss(logits):
    target = torch.arange(logits.size(0))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


@torch.no_grad()
def retrieval(model, data):
    model.eval()
    tok = torch.stack([data.encode(c) for c in data.captions])
    sim = model.encode_image(data.images) @ model.encode_text(tok).t()
    gt = torch.arange(len(data))
    i2t = (sim.argmax(1) == gt).float().mean().item()
    t2i = (sim.argmax(0) == gt).float().mean().item()
    return 0.5 * (i2t + t2i)


def main():
    torch.manual_seed(21)
    train = Pairs(4096, seed=0, augment=True)
    test = Pairs(None, seed=1, vocab=train.vocab, combos=all_combos())
    loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    model = TwoTower(len(train.vocab))
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.02}, {"params": rest, "weight_decay": 0.0}], lr=2e-3)
    step = 0
    for epoch in range(10):
        model.train()
        for img, tok in loader:
            loss = clip_loss(model(img, tok))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if step % 128 == 0:
                print("step", step, "loss %.3f" % loss.item(), "scale %.1f" % model.logit_scale.exp().item())
            step += 1
    r = retrieval(model, test)
    print("RESULT", json.dumps({"metric": "recall_at_1", "value": round(r, 4), "better": "higher"}))


if __name__ == "__main__":
    main()
