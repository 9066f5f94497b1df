"""One-stage detector on synthetic scenes: objectness, box and class for every cell of a 6x6 grid."""
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, GRID, CLASSES = 36, 6, 3
CELL = SIZE // GRID


def render_scene(rng):
    """Return an image and its boxes (cx, cy, w, h in pixels) with class labels."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    image = 0.1 * rng.normal(size=(SIZE, SIZE))
    boxes, labels, used = [], [], []
    for _ in range(rng.integers(1, 4)):
        w, h = rng.uniform(6, 13), rng.uniform(6, 13)
        cx, cy = rng.uniform(w / 2, SIZE - w / 2), rng.uniform(h / 2, SIZE - h / 2)
        if any(abs(cx - ux) < (w + uw) / 2 and abs(cy - uy) < (h + uh) / 2 for ux, uy, uw, uh in used):
            continue
        kind = int(rng.integers(CLASSES))
        u, v = (xx - cx) / (w / 2), (yy - cy) / (h / 2)
        if kind == 0:
            shape = (np.abs(u) < 1) & (np.abs(v) < 1)
        elif kind == 1:
            shape = u ** 2 + v ** 2 < 1
        else:
            shape = (np.abs(u) < (1 + v) / 2) & (np.abs(v) < 1)
        image[shape] += rng.uniform(0.7, 1.3)
        used.append((cx, cy, w, h))
        boxes.append([cx, cy, w, h])
        labels.append(kind)
    return image.astype(np.float32), np.array(boxes, np.float32), np.array(labels)


class SceneSet:
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        scenes = [render_scene(rng) for _ in range(n)]
        self.images = torch.tensor(np.stack([s[0] for s in scenes]))[:, None]
        self.truth = [(s[1], s[2]) for s in scenes]
        self.obj = torch.zeros(n, GRID, GRID)
        self.box = torch.zeros(n, GRID, GRID, 4)
        self.cls = torch.zeros(n, GRID, GRID, dtype=torch.long)
        for i, (boxes, labels) in enumerate(self.truth):
            for (cx, cy, w, h), label in zip(boxes, labels):
                col, row = int(cx // CELL), int(cy // CELL)
                self.obj[i, row, col] = 1.0
                self.box[i, row, col] = torch.tensor([cx / CELL - col, cy / CELL - row, np.log(w / CELL), np.log(h / CELL)])
                self.cls[i, row, col] = int(label)

    def batch(self, idx, flip):
        x, obj, box, cls = self.images[idx], self.obj[idx], self.box[idx].clone(), self.cls[idx]
        if flip:
            x, obj, box, cls = x.flip(-1), obj.flip(2), box.flip(2), cls.flip(2)
            box[..., 0] = 1.0 - box[..., 0]
        return x, obj, box, cls


def conv_bn(cin, cout, stride=1, k=3):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, bias=False), nn.BatchNorm2d(cout), nn.SiLU())


class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.backbone = nn.Sequential(
            conv_bn(1, width, stride=2), conv_bn(width, 2 * width), nn.MaxPool2d(3),
            conv_bn(2 * width, 2 * width), conv_bn(2 * width, 2 * width),
        )
        self.obj_head = nn.Conv2d(2 * width, 1, 1)
        self.box_head = nn.Conv2d(2 * width, 4, 1)
        self.cls_head = nn.Conv2d(2 * width, CLASSES, 1)
        nn.init.constant_(self.obj_head.bias, -2.5)

    def forward(self, x):
        f = self.backbone(x)
        obj = self.obj_head(f).squeeze(1)
        raw = self.box_head(f).permute(0, 2, 3, 1)
        box = torch.cat([raw[..., :2].sigmoid(), raw[..., 2:]], dim=-1)
        cls = self.cls_head(f).permute(0, 2, 3, 1)
        return obj, box, cls


def detection_loss(out, obj_t, box_t, cls_t):
    obj, box, cls = out
    hit = obj_t > 0.5
    loss_obj = F.binary_cross_entropy_with_logits(obj, obj_t)
    loss_box = F.smooth_l1_loss(box[hit], box_t[hit], beta=0.1)
    loss_cls = F.cross_entropy(cls[hit], cls_t[hit])
    return 3.0 * loss_obj + 2.0 * loss_box + loss_cls, (loss_obj.item(), loss_box.item(), loss_cls.item())


def iou(a, b):
    lo = np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)
    hi = np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2)
    inter = np.prod(np.clip(hi - lo, 0, None))
    return inter / (a[2] * a[3] + b[2] * b[3] - inter + 1e-9)


@torch.no_grad()
def f1_error(model, scenes, threshold=0.4):
    """1 - F1 at IoU 0.5 with the right class, against the rendered truth."""
    model.eval()
    obj, box, cls = model(scenes.images)
    score, label = obj.sigmoid().numpy(), cls.argmax(-1).numpy()
    box = box.numpy().clip(-5, 5)
    tp = fp = fn = 0
    for i, (boxes, labels) in enumerate(scenes.truth):
        free = list(range(len(boxes)))
        cells = [(score[i, r, c], r, c) for r in range(GRID) for c in range(GRID) if score[i, r, c] > threshold]
        for _, r, c in sorted(cells, reverse=True):
            x, y, w, h = box[i, r, c]
            guess = np.array([(c + x) * CELL, (r + y) * CELL, np.exp(w) * CELL, np.exp(h) * CELL])
            match = [j for j in free if labels[j] == label[i, r, c] and iou(guess, boxes[j]) > 0.5]
            if match:
                free.remove(match[0])
                tp += 1
            else:
                fp += 1
        fn += len(free)
    model.train()
    return 1.0 - 2 * tp / max(2 * tp + fp + fn, 1)


def main(seed=0, steps=650, batch=32):
    torch.manual_seed(seed)
    train, held = SceneSet(2500, 10 * seed + 1), SceneSet(300, 10 * seed + 2)
    model = Detector()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=steps)
    print(f"untrained error {f1_error(model, held):.4f}")
    for step in range(steps):
        idx = torch.randint(0, len(train.images), (batch,))
        x, obj_t, box_t, cls_t = train.batch(idx, flip=step % 2 == 1)
        loss, parts = detection_loss(model(x), obj_t, box_t, cls_t)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 100 == 0 or step == steps - 1:
            print("step %d loss %.4f obj %.4f box %.4f cls %.4f" % (step, loss.item(), *parts))
    print(f"result {f1_error(model, held):.5f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
