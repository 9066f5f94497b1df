"""Residual classifier on striped patches: mixed precision, accumulation, resume."""
import math
import os
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class TrainConfig:
    num_classes: int = 8
    image_size: int = 32
    per_class: int = 400
    batch_size: int = 64
    accum_steps: int = 2
    base_lr: float = 2e-3
    weight_decay: float = 0.05
    warmup_steps: int = 60
    total_steps: int = 900
    clip_norm: float = 1.0
    eval_every: int = 100
    checkpoint: str = "vision_trainer.pt"
    seed: int = 7


def make_images(config, per_class, seed):
    rng = torch.Generator().manual_seed(seed)
    size = config.image_size
    ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    images, labels = [], []
    for label in range(config.num_classes):
        angle = math.pi * label / config.num_classes
        phase = torch.rand(per_class, 1, 1, generator=rng) * 6.28
        wave = torch.sin(0.6 * (xs * math.cos(angle) + ys * math.sin(angle)) + phase)
        noise = torch.randn(per_class, size, size, generator=rng)
        images.append((128 + 50 * wave + 25 * noise).clamp(0, 255).unsqueeze(1))
        labels.append(torch.full((per_class,), label))
    return torch.cat(images), torch.cat(labels)

class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(out)))

class StripeNet(nn.Module):
    def __init__(self, config, width=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 5, stride=2, padding=2), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(ResidualBlock(width), nn.MaxPool2d(2), ResidualBlock(width))
        self.head = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, config.num_classes))

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean(dim=(2, 3)))

class Trainer:
    def __init__(self, config):
        self.config, self.step = config, 0
        torch.manual_seed(config.seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = StripeNet(config).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.base_lr, weight_decay=config.weight_decay)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.lr_factor)
        self.scaler = torch.cuda.amp.GradScaler(enabled=self.device == "cuda")
        train_x, train_y = make_images(config, config.per_class, seed=1)
        val_x, val_y = make_images(config, 50, seed=2)
        mean, std = train_x.mean(), train_x.std()
        train_x, val_x = (train_x - mean) / std, (val_x - mean) / std
        self.train_loader = DataLoader(TensorDataset(train_x, train_y), config.batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(TensorDataset(val_x, val_y), 200)

    def lr_factor(self, step):
        if step < self.config.warmup_steps:
            return (step + 1) / self.config.warmup_steps
        progress = (step - self.config.warmup_steps) / (self.config.total_steps - self.config.warmup_steps)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    def save(self):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "scheduler": self.scheduler.state_dict(), "scaler": self.scaler.state_dict(),
                    "step": self.step}, self.config.checkpoint)

    def maybe_resume(self):
        if os.path.exists(self.config.checkpoint):
            state = torch.load(self.config.checkpoint, map_location=self.device)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scheduler.load_state_dict(state["scheduler"])
            self.scaler.load_state_dict(state["scaler"])
            self.step = state["step"]

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        hits = sum((self.model(x.to(self.device)).argmax(1).cpu() == y).sum().item() for x, y in self.val_loader)
        self.model.train()
        return hits / len(self.val_loader.dataset)

    def fit(self):
        self.maybe_resume()
        self.model.train()
        while self.step < self.config.total_steps:
            for index, (x, y) in enumerate(self.train_loader):
                with torch.autocast(self.device, enabled=self.device == "cuda", dtype=torch.float16):
                    loss = F.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
                self.scaler.scale(loss / self.config.accum_steps).backward()
                if (index + 1) % self.config.accum_steps:
                    continue
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
                self.scheduler.step()
                self.step += 1
                if self.step % self.config.eval_every == 0:
                    print(f"step {self.step} loss {loss.item():.4f} accuracy {self.evaluate():.3f}")
                    self.save()

if __name__ == "__main__":
    Trainer(TrainConfig()).fit()
