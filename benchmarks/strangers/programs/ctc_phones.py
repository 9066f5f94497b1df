"""CTC phone recogniser on synthetic filterbank features."""
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

BLANK = 0


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("run", type=int, nargs="?", default=0, help="number of the run")
    p.add_argument("--phones", type=int, default=10)
    p.add_argument("--mels", type=int, default=20)
    p.add_argument("--train-size", type=int, default=960)
    p.add_argument("--test-size", type=int, default=96)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=8e-3)
    p.add_argument("--hidden", type=int, default=48)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


class Phones(Dataset):
    def __init__(self, n, templates, rng):
        self.items = [self.utterance(templates, rng) for _ in range(n)]

    @staticmethod
    def utterance(templates, rng):
        labels = rng.integers(0, len(templates), rng.integers(3, 9))
        for i in range(1, len(labels)):
            if rng.random() < 0.15:
                labels[i] = labels[i - 1]
        frames = []
        for k in labels:
            d = rng.integers(5, 9)
            envelope = np.sin(np.pi * (np.arange(d) + 0.5) / d)[:, None]
            frames.append(envelope * templates[k])
        x = np.concatenate(frames) * rng.uniform(0.7, 1.4)
        x = x + 0.45 * rng.standard_normal(x.shape) + rng.uniform(-0.5, 0.5)
        x = (x - x.mean(0)) / (x.std(0) + 1e-5)
        return torch.tensor(x, dtype=torch.float32), torch.tensor(labels + 1)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    feats, labels = zip(*batch)
    feat_lens = torch.tensor([len(f) for f in feats])
    label_lens = torch.tensor([len(t) for t in labels])
    feats = nn.utils.rnn.pad_sequence(feats, batch_first=True)
    labels = nn.utils.rnn.pad_sequence(labels, batch_first=True)
    return feats, feat_lens, labels, label_lens


def spec_augment(feats, width=4):
    start = torch.randint(0, feats.size(2) - width, (1,)).item()
    feats = feats.clone()
    feats[:, :, start:start + torch.randint(0, width + 1, (1,)).item()] = 0
    return feats


class Recognizer(nn.Module):
    def __init__(self, mels, hidden, n_out):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(mels, hidden, 5, stride=2, padding=2),
                                  nn.BatchNorm1d(hidden), nn.ReLU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, n_out)

    def forward(self, feats, feat_lens):
        x = self.conv(feats.transpose(1, 2)).transpose(1, 2)
        lens = (feat_lens - 1) // 2 + 1
        x, _ = self.rnn(x)
        return self.out(x).log_softmax(-1), lens


def greedy_decode(log_probs, lens):
    hyps = []
    for path, n in zip(log_probs.argmax(-1), lens):
        path = torch.unique_consecutive(path[:n])
        hyps.append([p for p in path.tolist() if p != BLANK])
    return hyps


def levenshtein(a, b):
    d = np.arange(len(b) + 1)
    for x in a:
        new = [d[0] + 1]
        for j, y in enumerate(b):
            new.append(min(new[-1] + 1, d[j + 1] + 1, d[j] + (x != y)))
        d = np.array(new)
    return int(d[-1])


@torch.no_grad()
def phone_error_rate(model, loader):
    model.eval()
    wrong, total = 0, 0
    for feats, feat_lens, labels, label_lens in loader:
        log_probs, lens = model(feats, feat_lens)
        for hyp, ref, n in zip(greedy_decode(log_probs, lens), labels, label_lens):
            wrong += levenshtein(hyp, ref[:n].tolist())
            total += n.item()
    model.train()
    return wrong / total


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    raw = rng.standard_normal((args.phones, args.mels + 4))
    templates = np.stack([raw[:, i:i + args.mels] for i in range(5)]).mean(0) * 2.2

    train_set = Phones(args.train_size, templates, rng)
    test_set = Phones(args.test_size, templates, rng)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(test_set, args.batch_size, collate_fn=collate)

    model = Recognizer(args.mels, args.hidden, args.phones + 1)
    ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.epochs * len(train_loader))

    for epoch in range(args.epochs):
        running = 0.0
        for feats, feat_lens, labels, label_lens in train_loader:
            log_probs, lens = model(spec_augment(feats), feat_lens)
            loss = ctc(log_probs.permute(1, 0, 2), labels, lens, label_lens)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            running += loss.item()
        print(f"epoch {epoch} ctc {running / len(train_loader):.4f} lr {scheduler.get_last_lr()[0]:.5f}")

    print(f"result {phone_error_rate(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
