"""CenterNet-style detector for coloured shapes on clutter."""
import torch
import torch.nn as nn
import torch.nn.functional as F

IMG, STRIDE, CLASSES = 64, 4, 3
GRID = IMG // STRIDE
LOG_SIZE_PRIOR = 2.5


def make_scene(gen):
    """uint8 image (3, IMG, IMG), boxes (n, 4) as x1 y1 x2 y2, labels (n,)."""
    img = 110 + 25 * torch.randn(3, IMG, IMG, generator=gen)
    boxes, labels = [], []
    for _ in range(int(torch.randint(1, 5, (1,), generator=gen))):
        w = int(torch.randint(8, 15, (1,), generator=gen))
        h = int(torch.randint(10, 25, (1,), generator=gen))
        x = int(torch.randint(0, IMG - w, (1,), generator=gen))
        y = int(torch.randint(0, IMG - h, (1,), generator=gen))
        if any(x < b[2] + 2 and b[0] < x + w + 2 and y < b[3] + 2 and b[1] < y + h + 2 for b in boxes):
            continue
        c = int(torch.randint(0, CLASSES, (1,), generator=gen))
        img[c, y:y + h, x:x + w] += 90
        img[(c + 1) % 3, y:y + h, x:x + w] -= 30
        boxes.append([x, y, x + w, y + h])
        labels.append(c)
    return img.clamp(0, 255).to(torch.uint8), torch.tensor(boxes).float(), torch.tensor(labels)


def encode(boxes, labels):
    heat = torch.zeros(CLASSES, GRID, GRID)
    size, offset = torch.zeros(2, GRID, GRID), torch.zeros(2, GRID, GRID)
    mask = torch.zeros(1, GRID, GRID)
    grid = torch.arange(GRID).float()
    for (x1, y1, x2, y2), c in zip(boxes.tolist(), labels.tolist()):
        cx, cy = (x1 + x2) / 2 / STRIDE, (y1 + y2) / 2 / STRIDE
        ix, iy = int(cx), int(cy)
        sigma = max(0.6, min(x2 - x1, y2 - y1) / STRIDE / 5)
        g = torch.exp(-((grid[None, :] - ix) ** 2 + (grid[:, None] - iy) ** 2) / (2 * sigma ** 2))
        heat[c] = torch.maximum(heat[c], g)
        size[:, iy, ix] = torch.tensor([x2 - x1, y2 - y1]).log()
        offset[:, iy, ix] = torch.tensor([cx - ix, cy - iy])
        mask[0, iy, ix] = 1
    return heat, size, offset, mask


class Detector(nn.Module):
    def __init__(self, ch=32):
        super().__init__()

        def cbr(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

        self.backbone = nn.Sequential(cbr(3, 16, 2), cbr(16, ch, 2), cbr(ch, ch, 1), cbr(ch, ch, 1), cbr(ch, ch, 1))
        self.heat = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, CLASSES, 1))
        self.size = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, 2, 1))
        self.offset = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, 2, 1))
        nn.init.constant_(self.heat[-1].bias, -2.19)
        nn.init.constant_(self.size[-1].bias, LOG_SIZE_PRIOR)

    def forward(self, images):
        x = images.float() / 255 - 0.45
        f = self.backbone(x)
        return self.heat(f), self.size(f), self.offset(f)


def heatmap_loss(logits, target):
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = (target == 1).float()
    pos_term = (1 - p) ** 2 * p.log() * pos
    neg_term = (1 - target) ** 4 * p ** 2 * (1 - p).log() * (1 - pos)
    return -(pos_term + neg_term).sum() / pos.sum().clamp(min=1)


def regression_loss(pred, target, mask):
    return ((pred - target).abs() * mask).sum() / mask.sum().clamp(min=1)


@torch.no_grad()
def detect(model, images, k=12, threshold=0.3):
    heat, size, offset = model(images)
    heat = heat.sigmoid()
    heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
    scores, index = heat.flatten(1).topk(k)
    results = []
    for b in range(len(images)):
        keep = scores[b] > threshold
        idx = index[b][keep]
        cls, cell = idx // (GRID * GRID), idx % (GRID * GRID)
        iy, ix = cell // GRID, cell % GRID
        wh = size[b][:, iy, ix].exp()
        center = (torch.stack([ix, iy]) + offset[b][:, iy, ix]) * STRIDE
        results.append((torch.cat([center - wh / 2, center + wh / 2]).T, cls, scores[b][keep]))
    return results


def iou(box, boxes):
    lt, rb = torch.maximum(box[:2], boxes[:, :2]), torch.minimum(box[2:], boxes[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    area = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return inter / (area - inter)


def f1_score(model, scenes, min_iou=0.7):
    model.eval()
    tp = n_pred = n_true = 0
    detections = detect(model, torch.stack([s[0] for s in scenes]))
    for (boxes, cls, _), (_, gt, labels) in zip(detections, scenes):
        taken = torch.zeros(len(gt), dtype=torch.bool)
        for box, c in zip(boxes, cls):
            overlap = iou(box, gt) * (labels == c) * ~taken
            if overlap.max() >= min_iou:
                taken[overlap.argmax()] = True
                tp += 1
        n_pred, n_true = n_pred + len(boxes), n_true + len(gt)
    model.train()
    return 2 * tp / max(n_pred + n_true, 1)


def train(steps=220, batch=16, lr=4e-3):
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(21)
    scenes = [make_scene(gen) for _ in range(400)]
    held_out = [make_scene(gen) for _ in range(100)]
    targets = [encode(b, l) for _, b, l in scenes]
    model = Detector()
    heads = [*model.heat.parameters(), *model.size.parameters(), *model.offset.parameters()]
    opt = torch.optim.AdamW([{"params": model.backbone.parameters()}, {"params": heads}], lr=lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[int(steps * 0.6), int(steps * 0.85)], gamma=0.2)
    for step in range(steps):
        pick = torch.randint(len(scenes), (batch,)).tolist()
        images = torch.stack([scenes[i][0] for i in pick])
        heat_t, size_t, offset_t, mask = (torch.stack(t) for t in zip(*[targets[i] for i in pick]))
        heat, size, offset = model(images)
        l_heat = heatmap_loss(heat, heat_t)
        l_size = regression_loss(size, size_t, mask)
        l_off = regression_loss(offset, offset_t, mask)
        loss = l_heat + l_size + l_off
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 40 == 0:
            print(f"[{step}] heat {l_heat.item():.3f} size {l_size.item():.3f} offset {l_off.item():.3f}")
    return model, held_out


if __name__ == "__main__":
    model, held_out = train()
    f1 = f1_score(model, held_out)
    print(f"F1 {f1:.4f}")
    print(f"result {1 - f1:.4f}")
