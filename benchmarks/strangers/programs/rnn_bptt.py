import argparse
import math

import numpy as np
import torch
import torch.nn as nn

# Word-level LSTM language model with truncated BPTT.


def make_stream(rng, n, n_names=8, n_fill=16):
    """A log: 'set NAME' events, filler words, and 'get NAME' events that refer to the last set."""
    SET, GET = 0, 1
    trans = rng.dirichlet(np.full(n_fill, 0.15), size=n_fill)
    out, name, f = [], 0, 0
    while len(out) < n:
        r = rng.random()
        if r < 0.05:
            name = int(rng.integers(n_names))
            out += [SET, 2 + name]
        elif r < 0.55:
            out += [GET, 2 + name]
        else:
            f = int(rng.choice(n_fill, p=trans[f]))
            out.append(2 + n_names + f)
    return torch.tensor(out[:n]), 2 + n_names + n_fill


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data[: nbatch * bsz].view(bsz, -1)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, dropout=0.1):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, batch_first=True)
        self.decoder = nn.Linear(nhid, ntoken)
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, x, hidden=None):
        emb = self.drop(self.encoder(x))
        out, hidden = self.rnn(emb, hidden)
        return self.decoder(self.drop(out)), hidden


def repackage(h):
    return tuple(v.detach() for v in h)


def chunks(source, bptt):
    for i in range(0, source.size(1) - 1, bptt):
        n = min(bptt, source.size(1) - 1 - i)
        if n < bptt:
            break
        yield source[:, i:i + n], source[:, i + 1:i + 1 + n]


def evaluate(model, source, bptt, criterion):
    model.eval()
    total, count, hidden = 0.0, 0, None
    with torch.no_grad():
        for x, y in chunks(source, bptt):
            out, hidden = model(x, hidden)
            total += criterion(out.reshape(-1, out.size(-1)), y.reshape(-1)).item() * y.numel()
            count += y.numel()
    return total / count


def train_epoch(model, source, args, optimizer, criterion, epoch):
    model.train()
    hidden = None
    for i, (x, y) in enumerate(chunks(source, args.bptt)):
        if hidden is not None:
            hidden = repackage(hidden)
        optimizer.zero_grad()
        out, hidden = model(x, hidden)
        loss = criterion(out.reshape(-1, out.size(-1)), y.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        if i % 60 == 0:
            print(f"| epoch {epoch} | {i:4d} | loss {loss.item():.3f} | ppl {math.exp(loss.item()):.2f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", type=int, nargs="?", default=0)
    ap.add_argument("--bptt", type=int, default=8)
    ap.add_argument("--clip", type=float, default=0.25)
    ap.add_argument("--lr", type=float, default=8.0)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=20)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    stream, ntoken = make_stream(rng, 32000)
    train = batchify(stream[:24000], args.batch)
    val = batchify(stream[24000:28000], 10)
    test = batchify(stream[28000:], 10)

    model = RNNModel(ntoken, 32, 80)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    best = None
    for epoch in range(1, args.epochs + 1):
        train_epoch(model, train, args, optimizer, criterion, epoch)
        val_loss = evaluate(model, val, args.bptt, criterion)
        print(f"end of epoch {epoch}: valid loss {val_loss:.4f}, lr {optimizer.param_groups[0]['lr']:.4f}")
        if best is None or val_loss < best:
            best = val_loss
        else:
            for group in optimizer.param_groups:
                group["lr"] /= 4.0

    test_loss = evaluate(model, test, args.bptt, criterion)
    print(f"test ppl {math.exp(test_loss):.3f}")
    print(f"result {test_loss:.5f}")


if __name__ == "__main__":
    main()
