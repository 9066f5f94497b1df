"""Classify small rendered shapes. Random shift, flip and mixup; AdamW with a cosine schedule."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEED = 7
CLASSES = ["disk", "square", "cross", "ring", "stripes"]
EPOCHS = 12
BATCH = 64
LR = 2e-3
ALPHA = 0.4
DROP = 0.2
MEAN = torch.tensor([0.36, 0.36, 0.36]).view(3, 1, 1)
STD = torch.tensor([0.25, 0.25, 0.25]).view(3, 1, 1)

torch.manual_seed(SEED)
device = "cuda" if torch.cuda.is_available() else "cpu"


def render(kind, rng):
    """One 32x32 RGB picture, height x width x channel, uint8."""
    yy, xx = np.mgrid[0:32, 0:32]
    cy, cx, r = rng.uniform(12, 20), rng.uniform(12, 20), rng.uniform(6, 11)
    dist = np.sqrt((yy - cy) ** 2 + (xx - cx) ** 2)
    if kind == 0:
        inside = dist < r
    elif kind == 1:
        inside = (abs(yy - cy) < r * 0.8) & (abs(xx - cx) < r * 0.8)
    elif kind == 2:
        inside = (abs(yy - cy) < 2.5) | (abs(xx - cx) < 2.5)
    elif kind == 3:
        inside = (dist < r) & (dist > r - 3)
    else:
        inside = (yy // 4) % 2 == 0
    background, colour = rng.uniform(0, 90, 3), rng.uniform(120, 255, 3)
    picture = np.where(inside[..., None], colour, background) + rng.normal(0, 18, (32, 32, 3))
    return picture.clip(0, 255).astype(np.uint8)


class Shapes(Dataset):
    def __init__(self, per_class, seed):
        rng = np.random.default_rng(seed)
        self.labels = np.repeat(np.arange(len(CLASSES)), per_class)
        self.pictures = np.stack([render(k, rng) for k in self.labels])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = torch.from_numpy(self.pictures[i]).permute(2, 0, 1)
        return image.float() / 255.0, int(self.labels[i])


def normalize(x):
    return (x - MEAN.to(x.device)) / STD.to(x.device)


def augment(x):
    dy, dx = torch.randint(-3, 4, (2,)).tolist()
    x = torch.roll(x, (dy, dx), dims=(2, 3))
    flip = torch.rand(len(x), device=x.device) < 0.5
    return torch.where(flip[:, None, None, None], x.flip(3), x)


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.fc = nn.Linear(2 * width * 16, len(CLASSES))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 4)
        x = F.dropout(x.flatten(1), p=DROP, training=self.training)
        return self.fc(x)


train_loader = DataLoader(Shapes(400, SEED), batch_size=BATCH, shuffle=True, drop_last=True)
val_loader = DataLoader(Shapes(80, SEED + 1), batch_size=200)

model = Net().to(device)
decay, no_decay = [], []
for name, p in model.named_parameters():
    if p.ndim > 1:
        decay.append(p)
    else:
        no_decay.append(p)
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.02},
                               {"params": no_decay, "weight_decay": 0.0}], lr=LR)
total = EPOCHS * len(train_loader)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)

for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for images, labels in train_loader:
        images, labels = normalize(images.to(device)), labels.to(device)
        images = augment(images)
        lam = float(np.random.beta(ALPHA, ALPHA))
        perm = torch.randperm(len(images), device=device)
        mixed = lam * images + (1 - lam) * images[perm]
        logits = model(mixed)
        loss = lam * F.cross_entropy(logits, labels) + (1 - lam) * F.cross_entropy(logits, labels[perm])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        running += loss.item()

    model.eval()
    correct = count = 0
    with torch.no_grad():
        for images, labels in val_loader:
            images, labels = normalize(images.to(device)), labels.to(device)
            correct += (model(images).argmax(1) == labels).sum().item()
            count += len(labels)
    print(f"epoch {epoch} loss {running / len(train_loader):.4f} val acc {correct / count:.3f}")
