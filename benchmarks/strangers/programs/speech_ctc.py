import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

N_PHONES = 14
N_MEL = 24
BLANK = 0


class PhoneBank:
    def __init__(self, gen):
        centre = torch.rand(N_PHONES, 3, generator=gen) * N_MEL
        width = 1.0 + 1.5 * torch.rand(N_PHONES, 3, generator=gen)
        bins = torch.arange(N_MEL).float()
        bumps = torch.exp(-0.5 * ((bins[None, None] - centre[..., None]) / width[..., None]) ** 2)
        self.templates = bumps.sum(1) * 2.0
        self.durations = torch.randint(3, 6, (N_PHONES,), generator=gen)

    def utter(self, gen):
        n = int(torch.randint(4, 10, (1,), generator=gen))
        phones = torch.randint(0, N_PHONES, (n,), generator=gen)
        shift = torch.randint(-1, 2, (1,), generator=gen).item()
        tilt = torch.linspace(-0.5, 0.5, N_MEL) * torch.randn(1, generator=gen)
        frames = []
        for p in phones.tolist():
            d = int(self.durations[p]) + int(torch.randint(0, 3, (1,), generator=gen))
            t = torch.roll(self.templates[p], shift)
            env = 0.6 + 0.4 * torch.sin(torch.linspace(0.4, 2.7, d))
            frames.append(t[None] * env[:, None])
            if torch.rand(1, generator=gen) < 0.3:
                frames.append(torch.zeros(2, N_MEL))
        x = torch.cat(frames)
        x = x + tilt + 0.35 * torch.randn(x.shape, generator=gen) + 4.0
        return x, phones + 1


class SpeechSet(Dataset):
    def __init__(self, bank, n, gen, stats=None, augment=False):
        self.utts = [bank.utter(gen) for _ in range(n)]
        if stats is None:
            allx = torch.cat([x for x, _ in self.utts])
            stats = allx.mean(0), allx.std(0)
        self.stats = stats
        self.utts = [((x - stats[0]) / stats[1], y) for x, y in self.utts]
        self.augment = augment

    def __len__(self):
        return len(self.utts)

    def __getitem__(self, i):
        x, y = self.utts[i]
        if self.augment:
            x = spec_augment(x.clone())
        return x, y


def spec_augment(x, f_width=3, t_width=3):
    f = int(torch.randint(0, f_width + 1, (1,)))
    f0 = int(torch.randint(0, x.size(1) - f, (1,)))
    t = int(torch.randint(0, t_width + 1, (1,)))
    t0 = int(torch.randint(0, x.size(0) - t, (1,)))
    x[:, f0:f0 + f] = 0.0
    x[t0:t0 + t] = 0.0
    return x


def collate(items):
    xs, ys = zip(*items)
    x_len = torch.tensor([len(x) for x in xs])
    y_len = torch.tensor([len(y) for y in ys])
    return nn.utils.rnn.pad_sequence(xs, batch_first=True), x_len, torch.cat(ys), y_len


class Recognizer(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(N_MEL, 48, 3, padding=1), nn.BatchNorm1d(48), nn.ReLU(),
            nn.Conv1d(48, 48, 3, stride=2, padding=1), nn.BatchNorm1d(48), nn.ReLU(),
        )
        self.rnn = nn.GRU(48, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, N_PHONES + 1)

    def out_lengths(self, n):
        return (n + 1) // 2

    def forward(self, x, x_len):
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        out_len = self.out_lengths(x_len)
        packed = nn.utils.rnn.pack_padded_sequence(h, out_len, batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        logits = self.head(h).transpose(0, 1)
        return logits.log_softmax(dim=2), out_len


def greedy_decode(logp, lengths):
    best = logp.argmax(2).t()
    out = []
    for row, n in zip(best.tolist(), lengths.tolist()):
        seq, prev = [], None
        for s in row[:n]:
            if s != prev and s != BLANK:
                seq.append(s)
            prev = s
        out.append(seq)
    return out


def levenshtein(a, b):
    d = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        diag, d[0] = d[0], i
        for j in range(1, len(b) + 1):
            diag, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, diag + (a[i - 1] != b[j - 1]))
    return d[-1]


class Trainer:
    def __init__(self, model, train_loader, test_loader, epochs):
        self.model, self.train_loader, self.test_loader, self.epochs = model, train_loader, test_loader, epochs
        self.ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
        self.opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=3, gamma=0.4)
        self.step = 0

    def train_epoch(self, epoch):
        self.model.train()
        total = 0.0
        for x, x_len, y, y_len in self.train_loader:
            logp, out_len = self.model(x, x_len)
            loss = self.ctc(logp, y, out_len, y_len)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
            self.opt.step()
            total += loss.item()
            self.step += 1
        self.sched.step()
        return total / len(self.train_loader)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        err = ref = 0
        for x, x_len, y, y_len in self.test_loader:
            logp, out_len = self.model(x, x_len)
            for hyp, gold in zip(greedy_decode(logp, out_len), y.split(y_len.tolist())):
                err += levenshtein(hyp, gold.tolist())
                ref += len(gold)
        return err / ref

    def fit(self):
        for epoch in range(self.epochs):
            loss = self.train_epoch(epoch)
            print(f"epoch {epoch:2d} step {self.step:4d} ctc {loss:.3f} per {self.evaluate():.3f}")
        return self.evaluate()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", type=int, nargs="?", default=0)
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed + 17)
    bank = PhoneBank(gen)
    train_set = SpeechSet(bank, 640, gen, augment=True)
    test_set = SpeechSet(bank, 120, gen, stats=train_set.stats)
    train_loader = DataLoader(train_set, batch_size=16, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(test_set, batch_size=80, collate_fn=collate)
    trainer = Trainer(Recognizer(), train_loader, test_loader, args.epochs)
    print("result", trainer.fit())


if __name__ == "__main__":
    main()
