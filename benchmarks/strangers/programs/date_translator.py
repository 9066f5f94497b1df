"""Translate free-form dates ("Tuesday 3 of March 1987") into ISO form with a GRU encoder and Bahdanau attention."""
import random
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august",
          "september", "october", "november", "december"]
PAD, SOS, EOS = 0, 1, 2


class Vocab:
    def __init__(self, chars):
        self.itos = ["<pad>", "<sos>", "<eos>"] + sorted(chars)
        self.stoi = {c: i for i, c in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, text):
        return [self.stoi[c] for c in text]


SRC_VOCAB = Vocab(set("abcdefghijklmnopqrstuvwxyz0123456789 ,./"))
TGT_VOCAB = Vocab(set("0123456789-"))


def random_date(rng):
    y, m, d = rng.randint(1950, 2049), rng.randint(1, 12), rng.randint(1, 28)
    name = MONTHS[m - 1]
    human = rng.choice([
        f"{d} {name} {y}", f"{name} {d}, {y}", f"{name[:3]} {d}, {y}", f"{d} {name[:3]} {y}",
        f"{d:02d}/{m:02d}/{y}", f"{y}, {name} {d}", f"{d}.{m}.{y}", f"the {d} of {name} {y}",
    ])
    return human, f"{y}-{m:02d}-{d:02d}"


class DateDataset(Dataset):
    def __init__(self, size, seed):
        rng = random.Random(seed)
        self.pairs = [random_date(rng) for _ in range(size)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        human, iso = self.pairs[i]
        src = torch.tensor(SRC_VOCAB.encode(human) + [EOS])
        tgt = torch.tensor([SOS] + TGT_VOCAB.encode(iso) + [EOS])
        return src, tgt


def collate(batch):
    srcs, tgts = zip(*batch)
    lengths = torch.tensor([len(s) for s in srcs])
    src = nn.utils.rnn.pad_sequence(srcs, batch_first=True, padding_value=PAD)
    tgt = nn.utils.rnn.pad_sequence(tgts, batch_first=True, padding_value=PAD)
    return src, lengths, tgt


class Encoder(nn.Module):
    def __init__(self, emb=16, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(len(SRC_VOCAB), emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, 2 * hidden)

    def forward(self, src, lengths):
        packed = pack_padded_sequence(self.embedding(src), lengths, batch_first=True, enforce_sorted=False)
        outputs, h_n = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        state = torch.tanh(self.bridge(torch.cat([h_n[0], h_n[1]], dim=-1)))
        return outputs, state


class BahdanauAttention(nn.Module):
    def __init__(self, dim, attn_dim=32):
        super().__init__()
        self.query = nn.Linear(dim, attn_dim, bias=False)
        self.key = nn.Linear(dim, attn_dim)
        self.score = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, state, keys, memory, mask):
        energy = self.score(torch.tanh(self.query(state).unsqueeze(1) + keys)).squeeze(-1)
        energy = energy.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(energy, dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, emb=12, dim=64):
        super().__init__()
        self.embedding = nn.Embedding(len(TGT_VOCAB), emb, padding_idx=PAD)
        self.attention = BahdanauAttention(dim)
        self.cell = nn.GRUCell(emb + dim, dim)
        self.out = nn.Linear(2 * dim + emb, len(TGT_VOCAB))

    def step(self, token, state, keys, memory, mask):
        context = self.attention(state, keys, memory, mask)
        emb = self.embedding(token)
        state = self.cell(torch.cat([emb, context], dim=-1), state)
        return self.out(torch.cat([state, context, emb], dim=-1)), state


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, src, lengths, tgt, teacher_forcing=1.0):
        memory, state = self.encoder(src, lengths)
        keys, mask = self.decoder.attention.key(memory), src != PAD
        token, logits = tgt[:, 0], []
        for t in range(1, tgt.size(1)):
            step_logits, state = self.decoder.step(token, state, keys, memory, mask)
            logits.append(step_logits)
            token = tgt[:, t] if random.random() < teacher_forcing else step_logits.argmax(-1)
        return torch.stack(logits, dim=1)


@torch.no_grad()
def date_error(model, loader):
    model.eval()
    wrong, total = 0, 0
    for src, lengths, tgt in loader:
        pred = model(src, lengths, tgt, teacher_forcing=0.0).argmax(-1)
        gold = tgt[:, 1:]
        wrong += (pred != gold).any(dim=1).sum().item()
        total += gold.size(0)
    return wrong / total


def main(seed, epochs=2):
    random.seed(seed)
    torch.manual_seed(seed)
    train_loader = DataLoader(DateDataset(2880, seed + 10), batch_size=32, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(DateDataset(500, seed + 90000), batch_size=250, collate_fn=collate)
    model = Seq2Seq()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    total_steps, step = epochs * len(train_loader), 0
    running = 0.0
    for epoch in range(epochs):
        model.train()
        for src, lengths, tgt in train_loader:
            for group in optimizer.param_groups:
                group["lr"] = 8e-3 * min(1.0, 2.0 * (1 - step / total_steps))
            logits = model(src, lengths, tgt, teacher_forcing=0.8)
            loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
            step += 1
            if step % 30 == 0:
                print(f"epoch {epoch} step {step} loss {running / 30:.4f}")
                running = 0.0
    print(f"result {date_error(model, test_loader):.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
