"""Small BERT: masked-word pretraining on unlabelled notes, then a topic classifier."""
import math
import random
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, CLS, MASK, SEP = 0, 1, 2, 3
N_SPECIAL = 4


@dataclass
class Config:
    n_words: int = 240
    n_topics: int = 6
    max_len: int = 20
    dim: int = 48
    heads: int = 4
    layers: int = 1
    batch: int = 32
    pre_steps: int = 420
    ft_steps: int = 80
    pre_lr: float = 3e-3
    ft_lr: float = 1e-3
    mask_prob: float = 0.2
    n_labelled: int = 48
    n_test: int = 500


class Notes:
    def __init__(self, cfg, rng):
        self.cfg, self.rng = cfg, rng
        words = list(range(N_SPECIAL, N_SPECIAL + cfg.n_words))
        rng.shuffle(words)
        per = cfg.n_words // (cfg.n_topics + 2)
        self.topic_words = [words[i * per:(i + 1) * per] for i in range(cfg.n_topics)]
        self.common = words[cfg.n_topics * per:]

    def sample(self, n):
        ids = torch.full((n, self.cfg.max_len), PAD)
        y = torch.empty(n, dtype=torch.long)
        for i in range(n):
            t = self.rng.randrange(self.cfg.n_topics)
            length = self.rng.randint(8, self.cfg.max_len - 3)
            body = []
            for _ in range(length):
                r = self.rng.random()
                if r < 0.5:
                    body.append(self.rng.choice(self.topic_words[t]))
                elif r < 0.6:
                    body.append(self.rng.choice(self.rng.choice(self.topic_words)))
                else:
                    body.append(self.rng.choice(self.common))
            row = [CLS] + body + [SEP]
            ids[i, :len(row)] = torch.tensor(row)
            y[i] = t
        return ids, y


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        s = s.masked_fill(pad[:, None, None, :], -1e9)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads, p=0.1):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.drop = nn.Dropout(p)

    def forward(self, x, pad):
        x = x + self.drop(self.att(self.n1(x), pad))
        return x + self.drop(self.ff(self.n2(x)))


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(N_SPECIAL + cfg.n_words, cfg.dim, padding_idx=PAD)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        nn.init.normal_(self.tok.weight, std=0.2)
        nn.init.normal_(self.pos.weight, std=0.05)
        self.layers = nn.ModuleList([Layer(cfg.dim, cfg.heads) for _ in range(cfg.layers)])
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, ids):
        pad = ids.eq(PAD)
        x = self.tok(ids) + self.pos.weight[: ids.size(1)]
        for layer in self.layers:
            x = layer(x, pad)
        return self.norm(x)


class MaskedLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.bias = nn.Parameter(torch.zeros(N_SPECIAL + cfg.n_words))

    def forward(self, ids):
        return self.encoder(ids) @ self.encoder.tok.weight.t() + self.bias


class Classifier(nn.Module):
    def __init__(self, cfg, n_out):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.head = nn.Linear(cfg.dim, n_out)

    def forward(self, ids):
        h = self.encoder(ids)
        keep = ids.ne(PAD).unsqueeze(-1)
        return self.head((h * keep).sum(1) / keep.sum(1))


def corrupt(batch, p, n_vocab):
    ids = batch.clone()
    labels = batch.clone()
    chosen = (torch.rand(ids.shape) < p) & (ids >= N_SPECIAL)
    labels[~chosen] = -100
    r = torch.rand(ids.shape)
    ids[chosen & (r < 0.8)] = MASK
    swap = chosen & (r >= 0.9)
    ids[swap] = torch.randint(N_SPECIAL, n_vocab, (int(swap.sum()),))
    return ids, labels


def schedule(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return max(0.05, (total - step) / (total - warmup))


def pretrain(cfg, ids):
    model = MaskedLM(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.pre_lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: schedule(s, 40, cfg.pre_steps))
    model.train()
    for step in range(cfg.pre_steps):
        batch = ids[torch.randint(len(ids), (cfg.batch,))]
        inputs, labels = corrupt(batch, cfg.mask_prob, N_SPECIAL + cfg.n_words)
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 80 == 0:
            print(f"pretrain {step:4d} mlm loss {loss.item():.4f}")
    return model


@torch.no_grad()
def evaluate(model, ids, y):
    model.eval()
    out = model(ids)
    return F.cross_entropy(out, y).item(), (out.argmax(-1) == y).float().mean().item()


def finetune(cfg, lm, ids, y, test):
    model = Classifier(cfg, cfg.n_topics)
    model.encoder.load_state_dict(lm.encoder.state_dict())
    opt = torch.optim.AdamW([
        {"params": model.encoder.parameters(), "lr": cfg.ft_lr},
        {"params": model.head.parameters(), "lr": 10 * cfg.ft_lr},
    ], weight_decay=0.01)
    for step in range(cfg.ft_steps):
        model.train()
        pick = torch.randint(len(ids), (16,))
        loss = F.cross_entropy(model(ids[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 30 == 0:
            vl, va = evaluate(model, *test)
            print(f"finetune {step:3d} loss {loss.item():.4f} held-out {vl:.4f} acc {va:.3f}")
    return model


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    cfg = Config()
    notes = Notes(cfg, random.Random(seed))
    unlabelled, _ = notes.sample(3000)
    train_ids, train_y = notes.sample(cfg.n_labelled)
    test = notes.sample(cfg.n_test)
    lm = pretrain(cfg, unlabelled)
    model = finetune(cfg, lm, train_ids, train_y, test)
    loss, acc = evaluate(model, *test)
    print(f"test accuracy {acc:.3f}")
    print(f"result {loss:.5f}")


if __name__ == "__main__":
    main()
