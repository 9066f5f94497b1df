"""Single-object detector: class + normalised (cx, cy, w, h) box."""
import argparse
import torch
from torch import nn
from torch.nn import functional as F

SIZE = 24
NUM_CLASSES = 4


def render(labels, gen):
    n = len(labels)
    imgs = 0.3 * torch.randn(n, 1, SIZE, SIZE, generator=gen)
    boxes = torch.empty(n, 4)
    for i, c in enumerate(labels.tolist()):
        h, w = torch.randint(6, 13, (2,), generator=gen).tolist()
        top = int(torch.randint(0, SIZE - h + 1, (1,), generator=gen))
        left = int(torch.randint(0, SIZE - w + 1, (1,), generator=gen))
        v = torch.linspace(-1, 1, h)[:, None]
        u = torch.linspace(-1, 1, w)[None, :]
        if c == 0:
            m = torch.ones(h, w)
        elif c == 1:
            m = (u ** 2 + v ** 2 <= 1.05).float()
        elif c == 2:
            m = ((u.abs() > 0.6) | (v.abs() > 0.6)).float()
        else:
            m = ((u - v).abs().lt(0.35) | (u + v).abs().lt(0.35)).float()
        imgs[i, 0, top:top + h, left:left + w] += m * 1.2
        boxes[i] = torch.tensor([left + w / 2, top + h / 2, w, h]) / SIZE
    return imgs, boxes


def build(n, seed):
    gen = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) * NUM_CLASSES // n
    imgs, boxes = render(labels, gen)
    order = torch.randperm(n, generator=gen)
    imgs, boxes, labels = imgs[order], boxes[order], labels[order]
    cut = int(0.8 * n)
    return (imgs[:cut], boxes[:cut], labels[:cut]), (imgs[cut:], boxes[cut:], labels[cut:])


def random_flip(imgs, boxes):
    flip = torch.rand(len(imgs)) < 0.5
    imgs = torch.where(flip[:, None, None, None], imgs.flip(-1), imgs)
    boxes = boxes.clone()
    boxes[flip, 0] = 1 - boxes[flip, 0]
    return imgs, boxes


def corners(b):
    cx, cy, w, h = b.unbind(-1)
    return cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2


def iou(a, b):
    ax0, ay0, ax1, ay1 = corners(a)
    bx0, by0, bx1, by1 = corners(b)
    iw = (torch.minimum(ax1, bx1) - torch.maximum(ax0, bx0)).clamp(min=0)
    ih = (torch.minimum(ay1, by1) - torch.maximum(ay0, by0)).clamp(min=0)
    inter = iw * ih
    union = (ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - inter
    return inter / union.clamp(min=1e-6)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Conv2d(16, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU())
        self.neck = nn.Sequential(nn.Flatten(), nn.Linear(32 * 36, 96), nn.ReLU())
        self.cls_head = nn.Linear(96, NUM_CLASSES)
        self.box_head = nn.Linear(96, 4)

    def forward(self, x):
        f = self.neck(self.backbone(x))
        return self.cls_head(f), torch.sigmoid(self.box_head(f))


def criterion(logits, pred, labels, boxes):
    l_cls = F.cross_entropy(logits, labels)
    l_l1 = F.smooth_l1_loss(pred, boxes, beta=0.05)
    l_iou = (1 - iou(pred, boxes)).mean()
    return l_cls + 5.0 * l_l1 + l_iou, l_cls, l_iou


@torch.no_grad()
def validate(model, data):
    model.eval()
    imgs, boxes, labels = data
    logits, pred = model(imgs)
    ok = (logits.argmax(1) == labels).float()
    overlap = iou(pred, boxes)
    model.train()
    return overlap.mean().item(), ok.mean().item(), (overlap * ok).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", nargs="?", type=int, default=0)
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--bs", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    train, val = build(2600, args.seed + 11)
    model = Detector()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    steps = args.epochs * (len(train[0]) // args.bs)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 50) * max(0.02, 1 - s / steps))
    for ep in range(args.epochs):
        order = torch.randperm(len(train[0]))
        for b in range(len(order) // args.bs):
            idx = order[b * args.bs:(b + 1) * args.bs]
            imgs, boxes = random_flip(train[0][idx], train[1][idx])
            logits, pred = model(imgs)
            loss, l_cls, l_iou = criterion(logits, pred, train[2][idx], boxes)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
        if ep % 3 == 0 or ep == args.epochs - 1:
            m, acc, _ = validate(model, val)
            print(f"[{ep:02d}] loss {loss.item():.3f} cls {l_cls.item():.3f} iou-loss {l_iou.item():.3f} | "
                  f"val iou {m:.3f} acc {acc:.3f}")
    print("result", round(1 - validate(model, val)[2], 5))


if __name__ == "__main__":
    main()
