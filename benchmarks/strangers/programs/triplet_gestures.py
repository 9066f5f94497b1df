"""Embeds short one-axis gestures with batch-hard triplets; scores retrieval of gestures never seen in training."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LENGTH, N_TRAIN_CLASSES, N_NEW_CLASSES, PER_CLASS = 64, 40, 15, 30
P, K, STEPS, MARGIN = 12, 5, 300, 0.3


def gesture_family(rng):
    freq = rng.uniform(1.0, 6.0, 3)
    phase = rng.uniform(0, 2 * np.pi, 3)
    amp = rng.uniform(0.4, 1.0, 3)

    def sample():
        t = np.linspace(0, 1, LENGTH)
        t = t ** rng.uniform(0.85, 1.18) * rng.uniform(0.93, 1.07) + rng.uniform(-0.04, 0.04)
        wave = (amp[:, None] * np.sin(2 * np.pi * freq[:, None] * t + phase[:, None])).sum(0)
        return rng.uniform(0.5, 2.0) * wave + 0.4 * rng.standard_normal(LENGTH) + rng.normal(0, 0.5)

    return np.stack([sample() for _ in range(PER_CLASS)])


class PKSampler:
    """Draws P classes and K gestures of each."""

    def __init__(self, data, seed):
        self.data = data
        self.rng = np.random.default_rng(seed)

    def draw(self):
        classes = self.rng.choice(len(self.data), P, replace=False)
        xs, ys = [], []
        for c in classes:
            rows = self.rng.choice(PER_CLASS, K, replace=False)
            xs.append(self.data[c, rows])
            ys += [int(c)] * K
        return torch.from_numpy(np.concatenate(xs)), torch.tensor(ys)


class Embedder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 24, 7, stride=2, padding=3), nn.BatchNorm1d(24), nn.ReLU(),
            nn.Conv1d(24, 48, 5, stride=2, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
            nn.Conv1d(48, 64, 3, stride=2, padding=1), nn.BatchNorm1d(64), nn.ReLU(), nn.Flatten())
        self.fc = nn.Linear(64 * LENGTH // 8, dim)

    def forward(self, x):
        x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
        z = self.fc(self.features(x.unsqueeze(1)))
        return F.normalize(z, dim=1)


def pairwise_distance(z):
    gram = z @ z.t()
    sq = gram.diagonal()
    d2 = sq[:, None] - 2 * gram + sq[None, :]
    return torch.sqrt(d2.clamp(min=1e-9))


def batch_hard_triplet(z, y):
    dist = pairwise_distance(z)
    same = y[:, None] == y[None, :]
    hardest_pos = dist.masked_fill(~same, 0).max(1).values
    hardest_neg = dist.masked_fill(same, float("inf")).min(1).values
    losses = F.relu(hardest_pos - hardest_neg + MARGIN)
    return losses.mean(), (losses > 0).float().mean()


@torch.no_grad()
def recall_at_1(model, data):
    """Every gesture queries all the others; a hit has the class of the query."""
    model.eval()
    x = torch.from_numpy(data.reshape(-1, LENGTH))
    y = torch.arange(len(data)).repeat_interleave(PER_CLASS)
    dist = pairwise_distance(model(x))
    dist.fill_diagonal_(float("inf"))
    hits = y[dist.argmin(1)] == y
    model.train()
    return hits.float().mean().item()


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    everything = np.stack([gesture_family(rng) for _ in range(N_TRAIN_CLASSES + N_NEW_CLASSES)]).astype(np.float32)
    seen, unseen = everything[:N_TRAIN_CLASSES], everything[N_TRAIN_CLASSES:]
    sampler = PKSampler(seen, seed=4)

    model = Embedder()
    optim = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, T_max=STEPS)
    print(f"untrained recall@1 {recall_at_1(model, unseen):.3f}")
    for step in range(1, STEPS + 1):
        x, y = sampler.draw()
        loss, active = batch_hard_triplet(model(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
        schedule.step()
        if step % 50 == 0 or step == 1:
            print(f"step {step:3d}  triplet {loss.item():.4f}  active {active.item():.2f}")
    r1 = recall_at_1(model, unseen)
    print(f"recall@1 on new gestures {r1:.4f}")
    print(f"result {1 - r1:.4f}")


if __name__ == "__main__":
    main()
