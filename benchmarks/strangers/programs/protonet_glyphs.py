"""Prototypical networks on procedurally drawn glyphs: N-way K-shot episodes with unseen glyph classes at test time."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 20


def draw_stroke(canvas, p0, p1, p2, thickness=0.75):
    """Rasterise a quadratic curve by its distance to sampled points."""
    t = np.linspace(0, 1, 14)[:, None]
    pts = (1 - t) ** 2 * p0 + 2 * t * (1 - t) * p1 + t ** 2 * p2
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    d2 = ((yy[None] - pts[:, 0, None, None]) ** 2 + (xx[None] - pts[:, 1, None, None]) ** 2).min(0)
    np.maximum(canvas, np.exp(-d2 / (2 * thickness ** 2)), out=canvas)


class GlyphBank:
    """Each class is a random set of strokes; each example jitters, scales, shifts and soils it."""

    def __init__(self, num_classes, examples, rng):
        self.images = torch.zeros(num_classes, examples, 1, SIZE, SIZE)
        for c in range(num_classes):
            strokes = rng.uniform(3, SIZE - 3, size=(rng.integers(2, 4), 3, 2))
            for e in range(examples):
                canvas = np.zeros((SIZE, SIZE))
                scale, shift = rng.uniform(0.85, 1.15), rng.normal(0, 1.2, size=2)
                angle = rng.normal(0, 0.2)
                rot = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                for s in strokes:
                    s = (s + rng.normal(0, 0.7, size=s.shape) - SIZE / 2) @ rot.T * scale + SIZE / 2 + shift
                    draw_stroke(canvas, *s)
                self.images[c, e, 0] = torch.from_numpy(canvas + rng.normal(0, 0.25, size=canvas.shape))

    def normalise(self, mean, std):
        self.images = (self.images - mean) / std


class EpisodeSampler:
    def __init__(self, bank, n_way, k_shot, n_query, generator):
        self.bank, self.n_way, self.k_shot, self.n_query = bank, n_way, k_shot, n_query
        self.generator = generator

    def __call__(self):
        num_classes, examples = self.bank.images.shape[:2]
        classes = torch.randperm(num_classes, generator=self.generator)[: self.n_way]
        support, query = [], []
        for c in classes:
            perm = torch.randperm(examples, generator=self.generator)
            support.append(self.bank.images[c, perm[: self.k_shot]])
            query.append(self.bank.images[c, perm[self.k_shot: self.k_shot + self.n_query]])
        return torch.stack(support), torch.stack(query)


def conv_block(c_in, c_out):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU(), nn.MaxPool2d(2))


class ProtoNet(nn.Module):
    def __init__(self, width=12, out_dim=32):
        super().__init__()
        self.backbone = nn.Sequential(conv_block(1, width), conv_block(width, 2 * width), conv_block(2 * width, 2 * width))
        self.head = nn.Linear(2 * width * 4, out_dim)

    def embed(self, x):
        return self.head(self.backbone(x).flatten(1))

    def forward(self, support, query):
        n_way, k_shot = support.shape[:2]
        n_query = query.size(1)
        x = torch.cat([support.flatten(0, 1), query.flatten(0, 1)], dim=0)
        z = self.embed(x)
        z_support, z_query = z[: n_way * k_shot], z[n_way * k_shot:]
        prototypes = z_support.view(n_way, k_shot, -1).mean(dim=1)
        dists = torch.cdist(z_query, prototypes).pow(2)
        targets = torch.arange(n_way).repeat_interleave(n_query)
        return -dists, targets


@torch.no_grad()
def episodic_error(model, sampler, episodes):
    model.eval()
    errors = []
    for _ in range(episodes):
        support, query = sampler()
        logits, targets = model(support, query)
        errors.append((logits.argmax(dim=1) != targets).float().mean().item())
    return float(np.mean(errors))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--train-way", type=int, default=10)
    parser.add_argument("--test-way", type=int, default=10)
    parser.add_argument("--shots", type=int, default=2)
    parser.add_argument("--queries", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=220)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    train_bank, val_bank, test_bank = GlyphBank(80, 15, rng), GlyphBank(12, 12, rng), GlyphBank(40, 15, rng)
    mean, std = train_bank.images.mean(), train_bank.images.std()
    for bank in (train_bank, val_bank, test_bank):
        bank.normalise(mean, std)

    gen = torch.Generator().manual_seed(args.seed + 1)
    train_sampler = EpisodeSampler(train_bank, args.train_way, args.shots, args.queries, gen)
    val_sampler = EpisodeSampler(val_bank, args.test_way, args.shots, args.queries, gen)
    test_sampler = EpisodeSampler(test_bank, args.test_way, args.shots, 10, torch.Generator().manual_seed(args.seed + 2))

    model = ProtoNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=70, gamma=0.5)
    best_val, best_state = float("inf"), None
    for episode in range(args.episodes):
        model.train()
        support, query = train_sampler()
        logits, targets = model(support, query)
        loss = F.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if (episode + 1) % 44 == 0:
            val_err = episodic_error(model, val_sampler, 10)
            if val_err < best_val:
                best_val = val_err
                best_state = {k: v.clone() for k, v in model.state_dict().items()}
            print(f"episode {episode + 1} loss {loss.item():.3f} val {val_err:.3f}")
    model.load_state_dict(best_state)
    print(f"result {episodic_error(model, test_sampler, 40):.4f}")


if __name__ == "__main__":
    main()
