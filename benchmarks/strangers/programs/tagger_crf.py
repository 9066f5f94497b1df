import random
import sys
from collections import Counter

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]
TAG2ID = {t: i for i, t in enumerate(TAGS)}

SYL = ["ba", "do", "ki", "lan", "mer", "no", "pra", "ri", "sto", "tu", "vel", "wen"]
names = random.Random(1234)
POOL = sorted({"".join(names.choice(SYL) for _ in range(names.choice([2, 3]))) for _ in range(260)})
names.shuffle(POOL)
FIRST, LAST = POOL[:70], POOL[50:120]
PLACE, COMPANY = POOL[100:170], POOL[150:220]
PLACE2 = ["hill", "lake", "falls", "west", "valley"]
SUFFIX = ["group", "bank", "labs", "west"]
FILL = ["today", "quietly", "often", "again", "later", "slowly", "there", "maybe"]


def rare(rng, word):
    return "".join(rng.choice(SYL) for _ in range(4)) if rng.random() < 0.12 else word


def entity(rng, kind):
    if kind == "PER":
        w = [rare(rng, rng.choice(FIRST))] + ([rng.choice(LAST)] if rng.random() < 0.6 else [])
    elif kind == "LOC":
        w = [rare(rng, rng.choice(PLACE))] + ([rng.choice(PLACE2)] if rng.random() < 0.4 else [])
    else:
        w = [rare(rng, rng.choice(COMPANY))] + ([rng.choice(SUFFIX)] if rng.random() < 0.5 else [])
    return w, ["B-" + kind] + ["I-" + kind] * (len(w) - 1)


TEMPLATES = [
    "PER met PER in LOC", "PER works for ORG", "ORG hired PER", "they flew to LOC with PER",
    "shares of ORG fell in LOC", "PER left ORG and moved to LOC", "the hill near LOC", "an apple for PER",
    "PER likes LOC", "PER likes PER", "ORG likes PER", "we saw PER and ORG", "we saw LOC and PER", "it was about ORG",
    "it was about PER", "the mayor of LOC thanked ORG", "ORG and ORG will merge", "LOC is far from LOC", "PER said that ORG lied",
    "the west bank of the lake", "in june PER visited LOC", "PER who owns ORG lives in LOC",
]


def sentence(rng):
    words, tags = [], []
    for tok in rng.choice(TEMPLATES).split():
        if rng.random() < 0.15:
            words.append(rng.choice(FILL))
            tags.append("O")
        if tok.isupper():
            w, t = entity(rng, tok)
            words += w
            tags += t
        else:
            words.append(tok)
            tags.append("O")
    return words, tags


def build_vocab(sents, min_count=2):
    counts = Counter(w for words, _ in sents for w in words)
    vocab = {"<pad>": 0, "<unk>": 1}
    for w, n in counts.items():
        if n >= min_count:
            vocab[w] = len(vocab)
    return vocab


def encode(sents, vocab):
    return [([vocab.get(w, 1) for w in ws], [TAG2ID[t] for t in ts]) for ws, ts in sents]


def batches(data, size, rng=None):
    order = list(range(len(data)))
    if rng is not None:
        rng.shuffle(order)
    for i in range(0, len(order), size):
        chunk = [data[j] for j in order[i:i + size]]
        n = max(len(w) for w, _ in chunk)
        x = torch.zeros(len(chunk), n, dtype=torch.long)
        y = torch.zeros(len(chunk), n, dtype=torch.long)
        mask = torch.zeros(len(chunk), n, dtype=torch.bool)
        for k, (w, t) in enumerate(chunk):
            x[k, :len(w)] = torch.tensor(w)
            y[k, :len(t)] = torch.tensor(t)
            mask[k, :len(w)] = True
        yield x, y, mask


class CRF(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(n))
        self.end = nn.Parameter(torch.zeros(n))
        self.trans = nn.Parameter(torch.randn(n, n) * 0.01)

    def log_norm(self, em, mask):
        alpha = self.start + em[:, 0]
        for t in range(1, em.size(1)):
            scores = alpha.unsqueeze(2) + self.trans + em[:, t].unsqueeze(1)
            new = torch.logsumexp(scores, dim=1)
            alpha = torch.where(mask[:, t].unsqueeze(1), new, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def path_score(self, em, tags, mask):
        m = mask.float()
        unary = em.gather(2, tags.unsqueeze(2)).squeeze(2)
        pair = self.trans[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, (mask.sum(1) - 1).unsqueeze(1)).squeeze(1)
        return self.start[tags[:, 0]] + (unary * m).sum(1) + (pair * m[:, 1:]).sum(1) + self.end[last]

    def nll(self, em, tags, mask):
        return (self.log_norm(em, mask) - self.path_score(em, tags, mask)).mean()

    @torch.no_grad()
    def decode(self, em, mask):
        out = []
        for e, m in zip(em, mask):
            e = e[: int(m.sum())]
            score, back = self.start + e[0], []
            for t in range(1, len(e)):
                best, idx = (score.unsqueeze(1) + self.trans).max(0)
                score = best + e[t]
                back.append(idx)
            cur = int((score + self.end).argmax())
            path = [cur]
            for idx in reversed(back):
                cur = int(idx[cur])
                path.append(cur)
            out.append(path[::-1])
        return out


class Tagger(nn.Module):
    def __init__(self, n_words, n_tags, emb=32, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(n_words, emb, padding_idx=0)
        self.drop = nn.Dropout(0.2)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, n_tags)
        self.crf = CRF(n_tags)

    def emissions(self, x, mask):
        e = self.drop(self.emb(x))
        packed = pack_padded_sequence(e, mask.sum(1), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.fc(self.drop(h))

    def forward(self, x, y, mask):
        return self.crf.nll(self.emissions(x, mask), y, mask)

    def predict(self, x, mask):
        return self.crf.decode(self.emissions(x, mask), mask)


def error_rate(model, data):
    model.eval()
    wrong = total = 0
    with torch.no_grad():
        for x, y, mask in batches(data, 64):
            for path, gold, m in zip(model.predict(x, mask), y, mask):
                g = gold[m].tolist()
                wrong += sum(a != b for a, b in zip(path, g))
                total += len(g)
    model.train()
    return wrong / total


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    rng = random.Random(seed)
    torch.manual_seed(seed)

    train_s = [sentence(rng) for _ in range(1600)]
    test_s = [sentence(rng) for _ in range(400)]
    vocab = build_vocab(train_s)
    train, test = encode(train_s, vocab), encode(test_s, vocab)

    model = Tagger(len(vocab), len(TAGS))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.7)
    step = 0
    for epoch in range(8):
        total = 0.0
        for x, y, mask in batches(train, 32, rng):
            loss = model(x, y, mask)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
            step += 1
        scheduler.step()
        print(f"epoch {epoch} step {step} train nll {total / 50:.4f} dev err {error_rate(model, test[:100]):.4f}")
    print(f"result {error_rate(model, test):.5f}")
