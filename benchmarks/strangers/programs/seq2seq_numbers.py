"""Digits -> English number words with a small encoder-decoder Transformer."""
import math
import random
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS = 0, 1, 2
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def below_thousand(n):
    out = []
    if n >= 100:
        out += [ONES[n // 100], "hundred"]
        n %= 100
        if n:
            out.append("and")
    if n >= 20:
        out.append(TENS[n // 10])
        n %= 10
    if n:
        out.append(ONES[n])
    return out


def spell(n):
    if n == 0:
        return ["zero"]
    out = []
    if n >= 1000:
        out += below_thousand(n // 1000) + ["thousand"]
    return out + below_thousand(n % 1000)


SRC = {c: i + 3 for i, c in enumerate("0123456789")}
TGT_WORDS = ONES + TENS[2:] + ["hundred", "thousand", "and"]
TGT = {w: i + 3 for i, w in enumerate(TGT_WORDS)}


class Numbers(Dataset):
    def __init__(self, values):
        self.items = []
        for v in values:
            src = [SRC[c] for c in str(v)] + [EOS]
            tgt = [BOS] + [TGT[w] for w in spell(v)] + [EOS]
            self.items.append((torch.tensor(src), torch.tensor(tgt)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    batch = sorted(batch, key=lambda p: len(p[0]), reverse=True)
    src = [s for s, _ in batch]
    tgt = [t for _, t in batch]
    return (pad_sequence(src, batch_first=True, padding_value=PAD),
            pad_sequence(tgt, batch_first=True, padding_value=PAD))


class Positional(nn.Module):
    def __init__(self, d, max_len=128):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(max_len, d)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Translator(nn.Module):
    def __init__(self, n_src, n_tgt, d=48, heads=2, layers=2):
        super().__init__()
        self.d = d
        self.src_emb = nn.Embedding(n_src, d, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(n_tgt, d, padding_idx=PAD)
        self.pos = Positional(d)
        self.core = nn.Transformer(d, heads, layers, layers, dim_feedforward=96, dropout=0.05,
                                   batch_first=True, norm_first=True)
        self.out = nn.Linear(d, n_tgt)
        nn.init.normal_(self.src_emb.weight, std=d ** -0.5)
        nn.init.normal_(self.tgt_emb.weight, std=d ** -0.5)

    def encode(self, src):
        pad = src == PAD
        x = self.pos(self.src_emb(src) * math.sqrt(self.d))
        return self.core.encoder(x, src_key_padding_mask=pad), pad

    def decode(self, tgt, memory, src_pad):
        T = tgt.size(1)
        causal = torch.ones(T, T, dtype=torch.bool).triu(1)
        y = self.pos(self.tgt_emb(tgt) * math.sqrt(self.d))
        h = self.core.decoder(y, memory, tgt_mask=causal, tgt_key_padding_mask=tgt == PAD,
                              memory_key_padding_mask=src_pad)
        return self.out(h)

    def forward(self, src, tgt_in):
        memory, pad = self.encode(src)
        return self.decode(tgt_in, memory, pad)


@torch.no_grad()
def greedy(model, src, max_len=16):
    memory, pad = model.encode(src)
    ys = torch.full((src.size(0), 1), BOS)
    for _ in range(max_len):
        nxt = model.decode(ys, memory, pad)[:, -1]
        nxt[:, PAD] = -1e9
        ys = torch.cat([ys, nxt.argmax(-1, keepdim=True)], 1)
    return ys[:, 1:]


def cut(seq):
    seq = list(seq)
    return seq[: seq.index(EOS)] if EOS in seq else seq


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


def word_error_rate(model, loader):
    model.eval()
    errs = total = 0
    for src, tgt in loader:
        hyp = greedy(model, src)
        for h, t in zip(hyp.tolist(), tgt.tolist()):
            ref = cut(t[1:])
            errs += edit_distance(cut(h), ref)
            total += len(ref)
    model.train()
    return errs / total


def main(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    values = set()
    while len(values) < 3900:
        values.add(random.randrange(10 ** random.randint(3, 5)))
    values = sorted(values)
    random.shuffle(values)
    train = DataLoader(Numbers(values[300:]), batch_size=32, shuffle=True, collate_fn=collate, drop_last=True)
    test = DataLoader(Numbers(values[:160]), batch_size=100, collate_fn=collate)

    model = Translator(len(SRC) + 3, len(TGT) + 3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.05)
    epochs = 3
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    total = epochs * len(train)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / 40, (total - s) / (total - 40)))
    step = 0
    for epoch in range(epochs):
        running = 0.0
        for src, tgt in train:
            logits = model(src, tgt[:, :-1])
            loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
        print(f"epoch {epoch} mean loss {running / len(train):.4f}")
    wer = word_error_rate(model, test)
    print("result %.5f" % wer)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
