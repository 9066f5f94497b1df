import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, BATCH, STEPS, LR = 40, 10, 220, 4e-3
rng = np.random.default_rng(11)
torch.manual_seed(11)


def fake_scan(r):
    """Grey background with smooth texture, zero to three bright blobs, and a streak that looks like one."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    img = 90 + 25 * np.sin(xx / r.uniform(4, 9) + r.uniform(0, 6)) * np.cos(yy / r.uniform(4, 9))
    img = img + np.linspace(0, 40, SIZE)[:, None]
    mask = np.zeros((SIZE, SIZE), dtype=np.uint8)
    for _ in range(r.integers(0, 4)):
        cy, cx = r.uniform(6, SIZE - 6, 2)
        a, b, phi = r.uniform(2, 5), r.uniform(2, 5), r.uniform(0, np.pi)
        u = (xx - cx) * np.cos(phi) + (yy - cy) * np.sin(phi)
        v = -(xx - cx) * np.sin(phi) + (yy - cy) * np.cos(phi)
        blob = (u / a) ** 2 + (v / b) ** 2 < 1
        img = img + 45 * blob
        mask[blob] = 255
    img[r.integers(0, SIZE)] += 50
    img = img + r.normal(0, 18, img.shape)
    return np.clip(img, 0, 255).astype(np.uint8), mask


def build(n):
    pairs = [fake_scan(rng) for _ in range(n)]
    return np.stack([p[0] for p in pairs]), np.stack([p[1] for p in pairs])


train_x, train_y = build(320)
val_x, val_y = build(80)
MEAN, STD = float(train_x.mean()), float(train_x.std())


def to_tensors(imgs, masks):
    x = torch.from_numpy((imgs.astype(np.float32) - MEAN) / STD).unsqueeze(1)
    y = torch.from_numpy(masks.astype(np.float32) / 255).unsqueeze(1)
    return x, y


def augment(x, y):
    if torch.rand(1) < 0.5:
        x, y = x.flip(-1), y.flip(-1)
    if torch.rand(1) < 0.5:
        x, y = x.transpose(-1, -2), y.transpose(-1, -2)
    x = x + 0.1 * torch.randn(x.size(0), 1, 1, 1)
    return x, y


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.enc1 = conv_block(1, width)
        self.enc2 = conv_block(width, width * 2)
        self.bottom = conv_block(width * 2, width * 4)
        self.up2 = nn.ConvTranspose2d(width * 4, width * 2, 2, stride=2)
        self.dec2 = conv_block(width * 4, width * 2)
        self.up1 = nn.ConvTranspose2d(width * 2, width, 2, stride=2)
        self.dec1 = conv_block(width * 2, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        s1 = self.enc1(x)
        s2 = self.enc2(F.max_pool2d(s1, 2))
        b = self.bottom(F.max_pool2d(s2, 2))
        u2 = self.up2(b)
        d2 = self.dec2(torch.cat([u2, s2], dim=1))
        u1 = self.up1(d2)
        d1 = self.dec1(torch.cat([u1, s1], dim=1))
        return self.head(d1)


def dice_loss(logits, target, smooth=1.0):
    p = torch.sigmoid(logits)
    inter = (p * target).sum(dim=(1, 2, 3))
    union = p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return (1 - (2 * inter + smooth) / (union + smooth)).mean()


def focal_loss(logits, target, gamma=2.0, alpha=0.75):
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = torch.exp(-ce)
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * (1 - p_t) ** gamma * ce).mean()


@torch.no_grad()
def evaluate(net):
    net.eval()
    scores = []
    for i in range(len(val_x)):
        x, y = to_tensors(val_x[i:i + 1], val_y[i:i + 1])
        pred = (torch.sigmoid(net(x)) > 0.5).float()
        denom = pred.sum() + y.sum()
        scores.append(1.0 if denom == 0 else (2 * (pred * y).sum() / denom).item())
    net.train()
    return float(np.mean(scores))


net = UNet()
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=75, gamma=0.4)

for step in range(STEPS):
    pick = rng.choice(len(train_x), BATCH, replace=False)
    x, y = augment(*to_tensors(train_x[pick], train_y[pick]))
    logits = net(x)
    loss = dice_loss(logits, y) + 10 * focal_loss(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 40 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}")
    if step % 110 == 109:
        print(f"          val dice {evaluate(net):.4f}")

print(f"result {1 - evaluate(net):.4f}")
