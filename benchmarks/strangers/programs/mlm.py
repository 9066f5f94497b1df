import json, math, time
import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = dict(vocab=24, n_topics=4, max_len=22, d_model=48, heads=4, layers=2, ff=96, batch=48,
           epochs=10, steps_per_epoch=70, lr=2e-3, warmup=100, mask_prob=0.15, noise=0.05, seed=0)
PAD, MASK, OFFSET = 0, 1, 2
V = cfg["vocab"] + OFFSET

torch.set_num_threads(1)
torch.manual_seed(cfg["seed"])
tables = torch.stack([torch.randperm(cfg["vocab"]) for _ in range(cfg["n_topics"])])


def draw_sentences(n, gen):
    """each sentence follows the successor table of its (hidden) topic, with a few typos; variable length"""
    topic = torch.randint(0, cfg["n_topics"], (n,), generator=gen)
    cur = torch.randint(0, cfg["vocab"], (n,), generator=gen)
    cols = []
    for _ in range(cfg["max_len"]):
        cols.append(cur)
        nxt = tables[topic, cur]
        typo = torch.rand(n, generator=gen) < cfg["noise"]
        cur = torch.where(typo, torch.randint(0, cfg["vocab"], (n,), generator=gen), nxt)
    toks = torch.stack(cols, 1) + OFFSET
    lens = torch.randint(10, cfg["max_len"], (n, 1), generator=gen)
    return toks.masked_fill(torch.arange(cfg["max_len"])[None] >= lens, PAD)


def mask_tokens(tokens, gen=None):
    pick = (torch.rand(tokens.shape, generator=gen) < cfg["mask_prob"]) & (tokens != PAD)
    labels = tokens.masked_fill(~pick, -100)
    inputs = tokens.clone()
    how = torch.rand(tokens.shape, generator=gen)
    inputs[pick & (how < 0.8)] = MASK
    rand = torch.randint(OFFSET, V, tokens.shape, generator=gen)
    inputs = torch.where(pick & (how >= 0.9), rand, inputs)
    return inputs, labels


class Block(nn.Module):
    def __init__(self, d, heads, ff, drop=0.05):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, dropout=drop, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, ff), nn.GELU(), nn.Linear(ff, d), nn.Dropout(drop))

    def forward(self, x, pad):
        h = self.ln1(x)
        a, _ = self.attn(h, h, h, key_padding_mask=pad, need_weights=False)
        x = x + a
        return x + self.mlp(self.ln2(x))


class MaskedLM(nn.Module):
    def __init__(self):
        super().__init__()
        d = cfg["d_model"]
        self.tok = nn.Embedding(V, d, padding_idx=PAD)
        self.pos = nn.Embedding(64, d)
        nn.init.normal_(self.tok.weight, std=0.1)
        nn.init.normal_(self.pos.weight, std=0.1)
        self.blocks = nn.ModuleList([Block(d, cfg["heads"], cfg["ff"]) for _ in range(cfg["layers"])])
        self.norm = nn.LayerNorm(d)
        self.decoder = nn.Linear(d, V)

    def forward(self, ids):
        B, T = ids.shape
        pad = ids == PAD
        x = self.tok(ids) + self.pos(torch.arange(T))[None, :]
        for blk in self.blocks:
            x = blk(x, pad)
        return self.decoder(self.norm(x))


def evaluate(model, tokens):
    gen = torch.Generator().manual_seed(77)
    model.eval()
    pick = (torch.rand(tokens.shape, generator=gen) < cfg["mask_prob"]) & (tokens != PAD)
    ids = tokens.masked_fill(pick, MASK)
    with torch.no_grad():
        pred = torch.cat([model(c).argmax(-1) for c in ids.split(cfg["batch"])])
    model.train()
    return (pred == tokens)[pick].float().mean().item()


def main():
    train = draw_sentences(20000, torch.Generator().manual_seed(1))
    test = draw_sentences(1000, torch.Generator().manual_seed(2))
    model = MaskedLM()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], betas=(0.9, 0.98), weight_decay=0.01)
    total = cfg["epochs"] * cfg["steps_per_epoch"]
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / cfg["warmup"], max(0.02, (total - s) / (total - cfg["warmup"]))))
    t0 = time.time()
    for epoch in range(cfg["epochs"]):
        acc_loss = 0.
        for _ in range(cfg["steps_per_epoch"]):
            batch = train[torch.randint(0, len(train), (cfg["batch"],))]
            inputs, labels = mask_tokens(batch)
            logits = model(inputs)
            loss = F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1), ignore_index=-100)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            acc_loss += loss.item()
        print("epoch %2d | loss %.4f | %.1fs" % (epoch, acc_loss / cfg["steps_per_epoch"], time.time() - t0))
    print("RESULT " + json.dumps({"metric": "masked_accuracy", "value": evaluate(model, test), "better": "higher"}))


main()
