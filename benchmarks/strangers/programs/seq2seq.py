#!/usr/bin/env python
"""Tiny encoder-decoder transformer. Task: reverse a digit string, adding the output position to each digit (mod 10)."""
import json, math, random
import torch, torch.nn as nn

PAD, BOS, EOS = 0, 1, 2
VOCAB = 13
D, HEADS, FF = 48, 4, 96
MIN_LEN, MAX_LEN = 3, 8
STEPS_PER_EPOCH, EPOCHS, BATCH = 90, 8, 48


def transform(src):
    out = []
    for k, d in enumerate(reversed(src)):
        out.append((d + k) % 10)
    return out


def sample_batch(n, rng):
    S = torch.full((n, MAX_LEN + 1), PAD)
    Y = torch.full((n, MAX_LEN + 2), PAD)
    for i in range(n):
        s = [rng.randrange(10) for _ in range(rng.randint(MIN_LEN, MAX_LEN))]
        t = transform(s)
        S[i, :len(s) + 1] = torch.tensor([d + 3 for d in s] + [EOS])
        Y[i, :len(t) + 2] = torch.tensor([BOS] + [d + 3 for d in t] + [EOS])
    return S, Y


class PositionalEncoding(nn.Module):
    def __init__(self, d, max_len=512):
        super().__init__()
        pos = torch.arange(max_len).float()[:, None]
        div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(1000.0) / d))
        pe = torch.zeros(max_len, d)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer('pe', pe)

    def forward(self, x):
        return x + self.pe[:x.size(1)].unsqueeze(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, ctx, mask):
        B, Lq, Lk = x.size(0), x.size(1), ctx.size(1)
        q = self.q(x).view(B, Lq, HEADS, -1).transpose(1, 2)
        k = self.k(ctx).view(B, Lk, HEADS, -1).transpose(1, 2)
        v = self.v(ctx).view(B, Lk, HEADS, -1).transpose(1, 2)
        score = q @ k.transpose(-2, -1) / math.sqrt(D // HEADS)
        score = score.masked_fill(~mask, -1e9)
        out = score.softmax(-1) @ v
        return self.o(out.transpose(1, 2).reshape(B, Lq, D))


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(D, FF), nn.ReLU(), nn.Linear(FF, D))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.ff = Attention(), FeedForward()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x, mask):
        h = self.n1(x)
        x = x + self.attn(h, h, mask)
        return x + self.ff(self.n2(x))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.cross, self.ff = Attention(), Attention(), FeedForward()
        self.n1, self.n2, self.n3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, y, mem, ymask, smask):
        h = self.n1(y)
        y = y + self.self_attn(h, h, ymask)
        y = y + self.cross(self.n2(y), mem, smask)
        return y + self.ff(self.n3(y))


class Seq2Seq(nn.Module):
    def __init__(self, n_enc=1, n_dec=1):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(VOCAB, D), nn.Embedding(VOCAB, D)
        self.pos = PositionalEncoding(D)
        self.encoder = nn.ModuleList([EncoderLayer() for _ in range(n_enc)])
        self.decoder = nn.ModuleList([DecoderLayer() for _ in range(n_dec)])
        self.norm_e, self.norm_d = nn.LayerNorm(D), nn.LayerNorm(D)
        self.generator = nn.Linear(D, VOCAB)

    def encode(self, src):
        smask = (src != PAD)[:, None, None, :]
        x = self.pos(self.src_emb(src))
        for l in self.encoder:
            x = l(x, smask)
        return self.norm_e(x), smask

    def decode(self, tgt, mem, smask):
        L = tgt.size(1)
        causal = torch.ones(L, L, dtype=torch.bool).tril()
        ymask = causal[None, None] & (tgt != PAD)[:, None, None, :]
        y = self.pos(self.tgt_emb(tgt))
        for l in self.decoder:
            y = l(y, mem, ymask, smask)
        return self.generator(self.norm_d(y))

    def forward(self, src, tgt):
        return self.decode(tgt, *self.encode(src))

    @torch.no_grad()
    def greedy(self, src):
        mem, smask = self.encode(src)
        ys = torch.full((src.size(0), 1), BOS)
        for _ in range(MAX_LEN + 1):
            nxt = self.decode(ys, mem, smask)[:, -1].argmax(-1, keepdim=True)
            ys = torch.cat([ys, nxt], 1)
        return ys


class NoamSchedule:
    def __init__(self, opt, factor=0.4, warmup=150):
        self.opt, self.factor, self.warmup, self.n = opt, factor, warmup, 0
        self.step()

    def step(self):
        self.n += 1
        lr = self.factor * D ** -0.5 * min(self.n ** -0.5, self.n * self.warmup ** -1.5)
        for g in self.opt.param_groups:
            g['lr'] = lr


def exact_match(model, rng, n=400):
    model.eval()
    src, ref = sample_batch(n, rng)
    hyp = model.greedy(src)
    ok = 0
    for h, r in zip(hyp.tolist(), ref.tolist()):
        r = r[1:r.index(EOS)]
        h = h[1:]
        h = h[:h.index(EOS)] if EOS in h else h
        ok += h == r
    return ok / n


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    rng = random.Random(7)
    model = Seq2Seq()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    sched = NoamSchedule(opt)
    for epoch in range(EPOCHS):
        model.train()
        running = 0.
        for _ in range(STEPS_PER_EPOCH):
            src, tgt = sample_batch(BATCH, rng)
            tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
            logits = model(src, tgt_in)
            loss = criterion(logits.reshape(-1, VOCAB), tgt_out.reshape(-1))
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
        print('epoch %d | loss %.4f | lr %.2e' % (epoch + 1, running / STEPS_PER_EPOCH, opt.param_groups[0]['lr']))
    em = exact_match(model, random.Random(12345))
    print('RESULT ' + json.dumps({'metric': 'exact_match', 'value': round(em, 4), 'better': 'higher'}))


if __name__ == '__main__':
    main()
