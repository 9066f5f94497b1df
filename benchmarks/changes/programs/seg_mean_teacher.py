"""Semi-supervised segmentation of discs and bars with a mean teacher."""
import copy
import random

import torch
from torch import nn
import torch.nn.functional as F

CFG = {
    "n_classes": 3, "size": 48, "labelled": 160, "unlabelled": 480, "bs": 16,
    "lr": 1e-3, "wd": 1e-4, "iters": 1200, "ema": 0.99, "cons_max": 1.0, "ramp": 400,
    "ignore": 255, "mean": 110.0, "std": 50.0, "seed": 0,
}


# ---------------------------------------------------------------- data
def paint(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    imgs = 90 + 20 * torch.randn(n, 1, size, size, generator=g)
    masks = torch.zeros(n, size, size, dtype=torch.long)
    for i in range(n):
        cx, cy, r = (torch.rand(3, generator=g) * torch.tensor([size, size, 8.0])).tolist()
        disc = (xx - cx) ** 2 + (yy - cy) ** 2 < (r + 4) ** 2
        x0 = int(torch.randint(0, size - 8, (1,), generator=g))
        bar = (xx >= x0) & (xx < x0 + 5)
        masks[i][bar], masks[i][disc] = 2, 1
        imgs[i, 0][bar] += 60
        imgs[i, 0][disc] += 110
    return imgs.clamp(0, 255), masks


def normalise(img):
    return (img - CFG["mean"]) / CFG["std"]

def random_hflip(img, mask):
    if random.random() < 0.5:
        img, mask = img.flip(-1), mask.flip(-1)
    return img, mask

def random_shift(img, mask, limit=6):
    dx = random.randint(-limit, limit)
    img, mask = torch.roll(img, dx, dims=-1), torch.roll(mask, dx, dims=-1)
    edge = slice(0, dx) if dx >= 0 else slice(dx, None)
    if dx:
        img[..., edge] = CFG["mean"]
        mask[..., edge] = CFG["ignore"]
    return img, mask

def weak_augment(img, mask):
    img, mask = random_shift(*random_hflip(img, mask))
    return normalise(img), mask

def jitter(img):
    gain = 1 + 0.2 * torch.randn(img.size(0), 1, 1, 1)
    return img * gain + 0.1 * torch.randn_like(img)

# ---------------------------------------------------------------- model
class ChannelNorm(nn.Module):
    def __init__(self, ch, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain, self.shift = nn.Parameter(torch.ones(1, ch, 1, 1)), nn.Parameter(torch.zeros(1, ch, 1, 1))

    def forward(self, x):
        mu = x.mean(dim=(2, 3), keepdim=True)
        var = x.var(dim=(2, 3), keepdim=True, unbiased=False)
        return (x - mu) / torch.sqrt(var + self.eps) * self.gain + self.shift

def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), ChannelNorm(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.1))

class MiniUNet(nn.Module):
    def __init__(self, n_classes, w=16):
        super().__init__()
        self.down1, self.down2 = double_conv(1, w), double_conv(w, 2 * w)
        self.mid = double_conv(2 * w, 4 * w)
        self.up2, self.up1 = double_conv(6 * w, 2 * w), double_conv(3 * w, w)
        self.out = nn.Conv2d(w, n_classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        c = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.up1(torch.cat([F.interpolate(c, scale_factor=2), a], 1)))

def dice_loss(logits, mask, smooth=1.0):
    valid = (mask != CFG["ignore"]).unsqueeze(1).float()
    prob = logits.softmax(dim=1) * valid
    hot = F.one_hot(mask.clamp(max=CFG["n_classes"] - 1), CFG["n_classes"]).permute(0, 3, 1, 2) * valid
    inter = (prob * hot).sum(dim=(2, 3))
    score = (2 * inter + smooth) / (prob.sum(dim=(2, 3)) + hot.sum(dim=(2, 3)) + smooth)
    return 1 - score.mean()

@torch.no_grad()
def update_teacher(source, target, decay):
    for s, t in zip(source.parameters(), target.parameters()):
        t.mul_(decay).add_(s, alpha=1 - decay)

random.seed(CFG["seed"])
torch.manual_seed(CFG["seed"])
lab_x, lab_y = paint(CFG["labelled"], CFG["size"], seed=1)
unl_x, _ = paint(CFG["unlabelled"], CFG["size"], seed=2)
val_x, val_y = paint(80, CFG["size"], seed=3)
student = MiniUNet(CFG["n_classes"])
teacher = copy.deepcopy(student).requires_grad_(False)
teacher.eval()
optimiser = torch.optim.AdamW(student.parameters(), lr=CFG["lr"], weight_decay=CFG["wd"])

for it in range(CFG["iters"]):
    pick, upick = torch.randint(len(lab_x), (CFG["bs"],)), torch.randint(len(unl_x), (CFG["bs"],))
    x, y = weak_augment(lab_x[pick], lab_y[pick])
    u = normalise(unl_x[upick])
    logits = student(x)
    ce = F.cross_entropy(logits.permute(0, 2, 3, 1).reshape(-1, CFG["n_classes"]), y.reshape(-1), ignore_index=CFG["ignore"])
    with torch.no_grad():
        soft = teacher(u).softmax(dim=1)
    cons = F.mse_loss(student(jitter(u)).softmax(dim=1), soft)
    weight = CFG["cons_max"] * min(1.0, it / CFG["ramp"])
    loss = ce + dice_loss(logits, y) + weight * cons
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    update_teacher(student, teacher, min(CFG["ema"], 1 - 1 / (it + 1)))
    if it % 100 == 0:
        with torch.no_grad():
            acc = (teacher(normalise(val_x)).argmax(1) == val_y).float().mean()
        print(f"iter {it} ce {ce:.3f} cons {cons:.4f} teacher pixel accuracy {acc:.3f}")
