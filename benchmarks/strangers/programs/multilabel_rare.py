"""Multi-label tagging of short synthetic documents with rare tags: weighted BCE, per-tag thresholds from validation data."""
import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCAB, DOC_LEN = 600, 24


@dataclass
class Config:
    num_tags: int = 12
    n_train: int = 5000
    n_val: int = 2000
    n_test: int = 4000
    epochs: int = 7
    micro_batch: int = 50
    accumulate: int = 4
    lr: float = 6e-3
    weight_decay: float = 1e-4
    max_pos_weight: float = 10.0
    grad_clip: float = 1.0
    seed: int = 0


def synthesise(cfg):
    """Tags have prevalences from 35% to 2%; each has its own words, shared in part with one other tag."""
    rng = np.random.default_rng(cfg.seed)
    n = cfg.n_train + cfg.n_val + cfg.n_test
    prevalence = np.geomspace(0.35, 0.02, cfg.num_tags)
    rng.shuffle(prevalence)
    tags = rng.random((n, cfg.num_tags)) < prevalence
    words = [rng.choice(VOCAB, 14, replace=False) for _ in range(cfg.num_tags)]
    words = [np.concatenate([w[:10], words[(i + 1) % cfg.num_tags][10:]]) for i, w in enumerate(words)]
    background = rng.dirichlet(np.full(VOCAB, 0.5))
    docs = rng.choice(VOCAB, size=(n, DOC_LEN), p=background)
    for i in range(n):
        slot = 0
        for tag in rng.permutation(np.flatnonzero(tags[i])):
            k = min(rng.integers(2, 6), DOC_LEN - slot)
            docs[i, slot:slot + k] = rng.choice(words[tag], k)
            slot += k
        rng.shuffle(docs[i])
    docs, tags = torch.from_numpy(docs).long(), torch.from_numpy(tags).float()
    splits = torch.split(torch.arange(n), [cfg.n_train, cfg.n_val, cfg.n_test])
    return [TensorDataset(docs[s], tags[s]) for s in splits]


class TagNet(nn.Module):
    def __init__(self, num_tags, dim=64):
        super().__init__()
        self.embedding = nn.EmbeddingBag(VOCAB, dim, mode="mean")
        self.body = nn.Sequential(nn.BatchNorm1d(dim), nn.Linear(dim, 128), nn.ReLU(), nn.Dropout(0.3))
        self.classifier = nn.Linear(128, num_tags)

    def forward(self, docs):
        return self.classifier(self.body(self.embedding(docs)))


def f1_per_tag(pred, target):
    tp = (pred * target).sum(0)
    fp = (pred * (1 - target)).sum(0)
    fn = ((1 - pred) * target).sum(0)
    return 2 * tp / (2 * tp + fp + fn).clamp(min=1)


def choose_thresholds(probs, target):
    grid = torch.linspace(0.02, 0.98, 49)
    scores = torch.stack([f1_per_tag((probs >= t).float(), target) for t in grid])
    return grid[scores.argmax(dim=0)]


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        train_set, val_set, test_set = synthesise(cfg)
        self.train_loader = DataLoader(train_set, batch_size=cfg.micro_batch, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(val_set, batch_size=500)
        self.test_loader = DataLoader(test_set, batch_size=500)
        self.model = TagNet(cfg.num_tags)
        positives = train_set.tensors[1].sum(dim=0)
        pos_weight = ((len(train_set) - positives) / positives).sqrt().clamp(max=cfg.max_pos_weight)
        self.criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
        self.init_bias(positives / len(train_set))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        self.steps_per_epoch = len(self.train_loader) // cfg.accumulate
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=cfg.lr, total_steps=cfg.epochs * self.steps_per_epoch, pct_start=0.2)

    @torch.no_grad()
    def init_bias(self, prior):
        self.model.classifier.bias.copy_(torch.log(prior / (1 - prior)))

    def train_epoch(self):
        self.model.train()
        total = 0.0
        self.optimizer.zero_grad()
        for i, (docs, tags) in enumerate(self.train_loader):
            loss = self.criterion(self.model(docs), tags)
            (loss / self.cfg.accumulate).backward()
            total += loss.item()
            if (i + 1) % self.cfg.accumulate == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.grad_clip)
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
        return total / len(self.train_loader)

    @torch.no_grad()
    def predict(self, loader):
        self.model.eval()
        probs, targets = [], []
        for docs, tags in loader:
            probs.append(torch.sigmoid(self.model(docs)))
            targets.append(tags)
        return torch.cat(probs), torch.cat(targets)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch()
            probs, targets = self.predict(self.val_loader)
            macro = f1_per_tag((probs >= choose_thresholds(probs, targets)).float(), targets).mean()
            print(f"epoch {epoch} loss {loss:.4f} val macro-F1 {macro:.4f}")

    def test(self):
        val_probs, val_targets = self.predict(self.val_loader)
        thresholds = choose_thresholds(val_probs, val_targets)
        probs, targets = self.predict(self.test_loader)
        f1 = f1_per_tag((probs >= thresholds).float(), targets)
        print("per-tag F1", " ".join(f"{v:.2f}" for v in f1))
        return 1 - f1.mean().item()


if __name__ == "__main__":
    trainer = Trainer(Config(seed=int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    trainer.fit()
    print(f"result {trainer.test():.4f}")
