"""Keyword spotting on synthetic words (formant-like chirps with syllables) with a log-mel front end and a small CNN."""
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 4000
SAMPLES = 2400
N_FFT = 128
HOP = 64
N_MELS = 24
WORDS = 8
LABELS = WORDS + 1  # plus "unknown"
EPOCHS = 8


def make_word(rng):
    syllables = rng.integers(2, 4)
    return [(rng.uniform(250, 700), rng.uniform(250, 700), rng.uniform(800, 1700), rng.uniform(800, 1700))
            for _ in range(syllables)]


def speak(word, rng):
    """Render one utterance with its own pitch, tempo, loudness, onset and background noise."""
    out = np.zeros(SAMPLES)
    tempo = rng.uniform(0.85, 1.15)
    shift = rng.uniform(0.93, 1.07)
    length = int(1500 / len(word) * tempo)
    t = np.arange(length) / length
    pieces = []
    for f1a, f1b, f2a, f2b in word:
        envelope = np.sin(np.pi * t) ** 0.5
        phase1 = 2 * np.pi * np.cumsum(shift * (f1a + (f1b - f1a) * t)) / RATE
        phase2 = 2 * np.pi * np.cumsum(shift * (f2a + (f2b - f2a) * t)) / RATE
        pieces.append(envelope * (np.sin(phase1 + rng.uniform(0, 6)) + 0.6 * np.sin(phase2 + rng.uniform(0, 6))))
    voice = np.concatenate(pieces)
    onset = rng.integers(0, SAMPLES - len(voice))
    out[onset:onset + len(voice)] = voice
    noise = rng.standard_normal(SAMPLES)
    noise = noise + 0.8 * np.roll(noise, 1)
    return (rng.uniform(0.05, 1.0) * (out + rng.uniform(0.4, 1.0) * noise)).astype(np.float32)


def mel_filterbank():
    to_mel = lambda f: 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(to_mel(60), to_mel(RATE / 2), N_MELS + 2) / 2595) - 1)
    freqs = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.from_numpy(np.maximum(0, np.minimum(up, down)).astype(np.float32))


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))
        self.register_buffer("mel", mel_filterbank())

    def forward(self, wave):
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True)
        power = spec.abs().square()
        logmel = (self.mel @ power + 1e-3).log()
        return logmel - logmel.mean(dim=(-2, -1), keepdim=True)


class Utterances(Dataset):
    def __init__(self, words, per_label, rng):
        waves, labels = [], []
        for label in range(LABELS):
            for _ in range(per_label):
                word = words[label] if label < WORDS else make_word(rng)
                waves.append(speak(word, rng))
                labels.append(label)
        self.features = LogMel()(torch.from_numpy(np.stack(waves)))
        self.labels = torch.tensor(labels)

    def standardise(self, mean, std):
        self.features = (self.features - mean) / std

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.features[i], self.labels[i]


def spec_augment(x, max_time=6, max_mel=3):
    x = x.clone()
    for row in x:
        t, m = torch.randint(0, max_time + 1, ()).item(), torch.randint(0, max_mel + 1, ()).item()
        t0 = torch.randint(0, row.shape[1] - t + 1, ()).item()
        m0 = torch.randint(0, row.shape[0] - m + 1, ()).item()
        row[:, t0:t0 + t] = 0
        row[m0:m0 + m] = 0
    return x


def conv_block(c_in, c_out, stride):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU())


class KeywordNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = conv_block(1, width, (1, 2))
        self.body = nn.Sequential(conv_block(width, 2 * width, 2), conv_block(2 * width, 2 * width, 2))
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(2 * width * (N_MELS // 4), LABELS)

    def forward(self, features):
        h = self.body(self.stem(features.unsqueeze(1)))
        h = h.mean(dim=3).flatten(1)
        return self.classifier(self.dropout(h))


def evaluate(model, loader):
    model.eval()
    wrong = total = 0
    with torch.no_grad():
        for x, y in loader:
            wrong += (model(x).argmax(1) != y).sum().item()
            total += len(y)
    return wrong / total


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    words = [make_word(rng) for _ in range(WORDS)]
    train, test = Utterances(words, 100, rng), Utterances(words, 80, rng)
    mean = train.features.mean(dim=(0, 2), keepdim=True)
    std = train.features.std(dim=(0, 2), keepdim=True)
    train.standardise(mean, std)
    test.standardise(mean, std)

    train_loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=128)
    model = KeywordNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(EPOCHS):
        model.train()
        losses = []
        for features, labels in train_loader:
            logits = model(spec_augment(features))
            loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        print(f"epoch {epoch} loss {np.mean(losses):.3f} test error {evaluate(model, test_loader):.3f}")
    print(f"result {evaluate(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
