# toy phone recogniser: BiGRU + CTC on synthetic filterbank-like features
import json

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.data import Dataset, DataLoader

torch.set_num_threads(1)
torch.manual_seed(11)

N_PHONES = 9          # labels 1..9, 0 is the blank
N_MEL = 16
EPOCHS = 6
BATCH = 32


class PhoneSynth:
    """A phone is a glide between two of three spectral targets, so single frames are ambiguous."""

    def __init__(self):
        rng = np.random.default_rng(5)
        f = np.arange(N_MEL)
        self.targets = []
        for c1, c2 in [(2, 8), (5, 12), (3, 14)]:
            self.targets.append(2.5 * np.exp(-(f - c1) ** 2 / 3.0) + 1.8 * np.exp(-(f - c2) ** 2 / 4.0))
        self.pairs = [(i, j) for i in range(3) for j in range(3)]
        self.tilt = rng.normal(0, 1, N_MEL)

    def utter(self, rng):
        n = rng.integers(3, 8)
        phones = rng.integers(1, N_PHONES + 1, n)
        spk = rng.normal(0, 0.3, N_MEL)
        frames = []
        for p in phones:
            i, j = self.pairs[p - 1]
            d = rng.integers(5, 10)
            w = np.clip(np.linspace(-0.3, 1.3, d), 0, 1)[:, None]
            frames.append((1 - w) * self.targets[i] + w * self.targets[j])
            frames.append(np.full((rng.integers(1, 3), N_MEL), -0.5))
        x = np.concatenate(frames)
        x = 4.0 * (x + spk + rng.normal(0, 0.6, x.shape)) + 20 + 3 * self.tilt
        return x.astype(np.float32), phones


class SynthSpeech(Dataset):
    def __init__(self, n, seed):
        synth, rng = PhoneSynth(), np.random.default_rng(seed)
        self.items = [synth.utter(rng) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        x, y = self.items[i]
        return torch.from_numpy(x), torch.from_numpy(y)


class Collate:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, batch):
        order = sorted(range(len(batch)), key=lambda i: -len(batch[i][0]))
        feats = [(batch[i][0] - self.mean) / self.std for i in order]
        labels = [batch[i][1] for i in order]
        return (pad_sequence(feats, batch_first=True), torch.tensor([len(f) for f in feats]),
                pad_sequence(labels, batch_first=True), torch.tensor([len(l) for l in labels]))


class Recogniser(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.frontend = nn.Sequential(nn.Linear(N_MEL, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, N_PHONES + 1)

    def forward(self, x, lens):
        h = self.frontend(x)
        h = pack_padded_sequence(h, lens, batch_first=True)
        h, _ = self.rnn(h)
        h, _ = pad_packed_sequence(h, batch_first=True)
        return self.head(h).log_softmax(-1)


def greedy(logp, lens, blank=0):
    out = []
    for seq, n in zip(logp.argmax(-1), lens):
        seq = torch.unique_consecutive(seq[:n]).tolist()
        out.append([s for s in seq if s != blank])
    return out


def edit_distance(a, b):
    d = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, d[0] = d[0], i
        for j, y in enumerate(b, 1):
            prev, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, prev + (x != y))
    return d[-1]


@torch.no_grad()
def phone_error_rate(model, loader):
    model.eval()
    err = tot = 0
    for x, xl, y, yl in loader:
        for hyp, ref, n in zip(greedy(model(x, xl), xl), y, yl):
            err += edit_distance(hyp, ref[:n].tolist())
            tot += int(n)
    model.train()
    return err / tot


def main():
    train, test = SynthSpeech(1600, 1), SynthSpeech(300, 2)
    stacked = torch.cat([x for x, _ in train])
    collate = Collate(stacked.mean(0), stacked.std(0))
    train_dl = DataLoader(train, BATCH, shuffle=True, collate_fn=collate)
    test_dl = DataLoader(test, BATCH, collate_fn=collate)

    model = Recogniser()
    optim = torch.optim.Adam(model.parameters(), lr=4e-3)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)

    for epoch in range(EPOCHS):
        run = 0.0
        for x, xl, y, yl in train_dl:
            logp = model(x, xl)
            loss = ctc(logp.transpose(0, 1), y, xl, yl)
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optim.step()
            run += loss.item()
        print(f"epoch {epoch + 1}: ctc {run / len(train_dl):.3f}")

    per = phone_error_rate(model, test_dl)
    print("RESULT " + json.dumps({"metric": "phone_error_rate", "value": per, "better": "lower"}))


if __name__ == "__main__":
    main()
