import argparse
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    seed: int = 0
    n_train: int = 3000
    n_test: int = 500
    n_classes: int = 8
    size: int = 10
    batch: int = 64
    steps: int = 320
    lr: float = 0.05
    eps: float = 0.12
    pgd_step: float = 0.05
    pgd_iters: int = 3


def make_data(cfg):
    g = torch.Generator().manual_seed(cfg.seed + 5)
    coarse = torch.rand(cfg.n_classes, 1, 4, 4, generator=g)
    protos = F.interpolate(coarse, size=cfg.size, mode="bilinear", align_corners=True)
    fine = torch.randn(cfg.n_classes, 1, cfg.size, cfg.size, generator=g).sign() * 0.07

    def draw(n):
        y = torch.randint(0, cfg.n_classes, (n,), generator=g)
        a = 0.5 + 0.5 * torch.rand(n, 1, 1, 1, generator=g)
        bg = F.interpolate(torch.rand(n, 1, 3, 3, generator=g), size=cfg.size, mode="bilinear", align_corners=True)
        x = a * protos[y] + (1 - a) * bg + fine[y] + 0.06 * torch.randn(n, 1, cfg.size, cfg.size, generator=g)
        return x.clamp(0, 1), y

    return draw(cfg.n_train), draw(cfg.n_test)


class Net(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(32 * 9, 64), nn.ReLU(), nn.Linear(64, n_classes))

    def forward(self, x):
        return self.head(self.features(x * 2 - 1))


class PGD:
    def __init__(self, eps, alpha, iters):
        self.eps, self.alpha, self.iters = eps, alpha, iters

    def __call__(self, net, x, y):
        was_training = net.training
        net.eval()
        for p in net.parameters():
            p.requires_grad_(False)
        delta = torch.empty_like(x).uniform_(-self.eps, self.eps)
        for _ in range(self.iters):
            delta.requires_grad_(True)
            loss = F.cross_entropy(net((x + delta).clamp(0, 1)), y)
            grad, = torch.autograd.grad(loss, delta)
            delta = (delta.detach() + self.alpha * grad.sign()).clamp(-self.eps, self.eps)
        for p in net.parameters():
            p.requires_grad_(True)
        net.train(was_training)
        return (x + delta).clamp(0, 1)


class AdversarialTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        (self.x, self.y), (self.tx, self.ty) = make_data(cfg)
        self.net = Net(cfg.n_classes)
        self.attack = PGD(cfg.eps, cfg.pgd_step, cfg.pgd_iters)
        self.test_attack = PGD(cfg.eps, 0.03, 10)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=5e-4)
        self.sched = torch.optim.lr_scheduler.MultiStepLR(self.opt, [cfg.steps * 6 // 10, cfg.steps * 17 // 20], gamma=0.2)

    def batches(self):
        while True:
            order = torch.randperm(len(self.x))
            for chunk in order.split(self.cfg.batch):
                yield self.x[chunk], self.y[chunk]

    def evaluate(self):
        self.net.eval()
        with torch.no_grad():
            clean = (self.net(self.tx).argmax(1) != self.ty).float().mean().item()
        adv = self.test_attack(self.net, self.tx, self.ty)
        with torch.no_grad():
            robust = (self.net(adv).argmax(1) != self.ty).float().mean().item()
        return clean, robust

    def run(self):
        stream = self.batches()
        for step in range(1, self.cfg.steps + 1):
            x, y = next(stream)
            self.net.train()
            adv = self.attack(self.net, x, y)
            logits = self.net(adv)
            loss = F.cross_entropy(logits, y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            if step % 107 == 0:
                clean, robust = self.evaluate()
                print(f"[{step}] loss={loss.item():.4f} clean_err={clean:.3f} robust_err={robust:.3f}")
        return self.evaluate()[1]


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", type=int, nargs="?", default=0)
    cfg = Config(seed=ap.parse_args().seed)
    torch.manual_seed(cfg.seed)
    print("result", AdversarialTrainer(cfg).run())
