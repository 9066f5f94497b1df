# PointNet-style classifier on sampled surfaces; sets have 32..64 valid points, the rest is padding.
import json, math, random
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

torch.set_num_threads(1)
random.seed(3); np.random.seed(3); torch.manual_seed(3)

CLASSES = ["sphere", "cube", "cylinder", "cone", "torus", "helix"]
MAX_POINTS = 64


def sample_shape(name, n, rng):
    u, v = rng.random(n), rng.random(n)
    t = 2 * np.pi * u
    if name == "sphere":
        z = 2 * v - 1
        s = np.sqrt(1 - z ** 2)
        return np.stack([s * np.cos(t), s * np.sin(t), z], 1)
    if name == "cube":
        p = rng.uniform(-1, 1, (n, 3))
        ax = rng.integers(0, 3, n)
        p[np.arange(n), ax] = np.sign(p[np.arange(n), ax])
        return p
    if name == "cylinder":
        return np.stack([0.7 * np.cos(t), 0.7 * np.sin(t), 2 * v - 1], 1)
    if name == "cone":
        h = np.sqrt(v)
        return np.stack([h * np.cos(t), h * np.sin(t), 1 - 2 * h], 1)
    if name == "torus":
        w = 2 * np.pi * v
        return np.stack([(1 + 0.35 * np.cos(w)) * np.cos(t), (1 + 0.35 * np.cos(w)) * np.sin(t), 0.35 * np.sin(w)], 1)
    return np.stack([0.8 * np.cos(2 * t), 0.8 * np.sin(2 * t), 2 * u - 1], 1)


def normalize(pts):
    pts = pts - pts.mean(0, keepdims=True)
    return pts / np.sqrt((pts ** 2).sum(1)).max()


def rotate(pts, rng, tilt=0.5):
    a, b = rng.uniform(0, 2 * np.pi), rng.uniform(-tilt, tilt)
    rz = np.array([[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0], [0, 0, 1]])
    rx = np.array([[1, 0, 0], [0, math.cos(b), -math.sin(b)], [0, math.sin(b), math.cos(b)]])
    return pts @ rz.T @ rx.T


class Shapes(Dataset):
    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        self.train = train
        self.clouds, self.labels = [], []
        for i in range(n):
            c = i * len(CLASSES) // n
            k = int(rng.integers(32, MAX_POINTS + 1))
            p = sample_shape(CLASSES[c], k, rng) * rng.uniform(0.6, 1.6, 3)
            p = rotate(p, rng) + 0.06 * rng.standard_normal((k, 3))
            p = p * rng.uniform(0.5, 3.0) + rng.uniform(-2, 2, 3)
            self.clouds.append(p)
            self.labels.append(c)
        self.rng = rng

    def __len__(self):
        return len(self.clouds)

    def __getitem__(self, i):
        pts = normalize(self.clouds[i])
        if self.train:
            pts = rotate(pts, self.rng, tilt=0.0)
        k = len(pts)
        x = np.zeros((MAX_POINTS, 3), np.float32)
        m = np.zeros(MAX_POINTS, bool)
        x[:k], m[:k] = pts, True
        return torch.from_numpy(x), torch.from_numpy(m), self.labels[i]


class PointMLP(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(a, b, 1) for a, b in zip(widths[:-1], widths[1:])])
        self.norms = nn.ModuleList([nn.BatchNorm1d(b) for b in widths[1:]])

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = torch.relu(norm(layer(x)))
        return x


class PointNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.features = PointMLP([3, 32, 64, 64])
        self.classifier = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, n_classes))

    def forward(self, x, mask):
        x = x.transpose(1, 2)                 # B, 3, N
        f = self.features(x)                  # B, C, N
        f = f.masked_fill(~mask.unsqueeze(1), -1e4)
        g = f.max(dim=2).values               # B, C
        return self.classifier(g)


def run_epoch(model, loader, loss_fn, opt):
    model.train()
    tot = hit = cnt = 0
    for x, m, y in loader:
        opt.zero_grad()
        logits = model(x, m)
        loss = loss_fn(logits, y)
        loss.backward()
        opt.step()
        tot += loss.item() * len(y); hit += (logits.argmax(1) == y).sum().item(); cnt += len(y)
    return tot / cnt, hit / cnt


def evaluate(model, loader):
    model.eval()
    hit = cnt = 0
    with torch.no_grad():
        for x, m, y in loader:
            hit += (model(x, m).argmax(1) == y).sum().item(); cnt += len(y)
    return hit / cnt


def main():
    train_ds, test_ds = Shapes(2400, 0, True), Shapes(900, 1, False)
    train_dl = DataLoader(train_ds, batch_size=48, shuffle=True)
    test_dl = DataLoader(test_ds, batch_size=50)
    model = PointNet(len(CLASSES))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    epochs = 14
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    loss_fn = nn.CrossEntropyLoss()
    for ep in range(epochs):
        loss, acc = run_epoch(model, train_dl, loss_fn, opt)
        sched.step()
        print("epoch %d loss %.4f acc %.3f" % (ep, loss, acc))
    print("RESULT " + json.dumps({"metric": "test_accuracy", "value": round(evaluate(model, test_dl), 4), "better": "higher"}))


if __name__ == "__main__":
    main()
