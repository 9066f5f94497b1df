"""Character LM with a mixture of experts. No classes: parameters in a dict, everything is a function."""
import argparse
import math

import torch
import torch.nn.functional as F

TEXT = ("the quick brown fox jumps over the lazy dog while five wizards box quietly near the old mill. "
        "pack my box with a dozen jugs of liquid, said the sailor to the judge, and bring them home. ") * 60


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--dim", type=int, default=96)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--experts", type=int, default=4)
    p.add_argument("--ctx", type=int, default=48)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--micro", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=80)
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--drop", type=float, default=0.1)
    p.add_argument("--balance", type=float, default=0.02)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def normal(*shape, std=0.02):
    return torch.nn.Parameter(torch.randn(*shape) * std)


def init_params(args, vocab):
    d = args.dim
    P = {"tok": normal(vocab, d), "pos": normal(args.ctx, d), "gf": torch.nn.Parameter(torch.ones(d))}
    for i in range(args.layers):
        P[f"{i}.g1"] = torch.nn.Parameter(torch.ones(d))
        P[f"{i}.g2"] = torch.nn.Parameter(torch.ones(d))
        P[f"{i}.qkv"] = normal(d, 3 * d)
        P[f"{i}.proj"] = normal(d, d, std=0.02 / math.sqrt(2 * args.layers))
        P[f"{i}.route"] = normal(d, args.experts)
        P[f"{i}.up"] = normal(args.experts, d, 2 * d)
        P[f"{i}.down"] = normal(args.experts, 2 * d, d)
    return P


def get_batch(data, args, rng):
    ix = torch.randint(len(data) - args.ctx - 1, (args.batch,), generator=rng).tolist()
    x = torch.stack([data[i:i + args.ctx] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + args.ctx] for i in ix])
    return x, y


def attend(x, P, i, args, train):
    B, T, d = x.shape
    hd = d // args.heads
    q, k, v = (x @ P[f"{i}.qkv"]).split(d, dim=-1)
    q, k, v = (t.view(B, T, args.heads, hd).transpose(1, 2) for t in (q, k, v))
    att = (q @ k.transpose(-2, -1)) / math.sqrt(hd)
    causal = torch.tril(torch.ones(T, T, dtype=torch.bool))
    att = att.masked_fill(~causal, float("-inf")).softmax(dim=-1)
    att = F.dropout(att, args.drop, training=train)
    out = (att @ v).transpose(1, 2).reshape(B, T, d)
    return out @ P[f"{i}.proj"]


def moe(x, P, i, args):
    flat = x.reshape(-1, x.size(-1))
    probs = (flat @ P[f"{i}.route"]).softmax(dim=-1)
    gate, choice = probs.max(dim=-1)
    out = torch.zeros_like(flat)
    for e in range(args.experts):
        hit = (choice == e).nonzero(as_tuple=True)[0]
        if hit.numel():
            h = F.gelu(flat[hit] @ P[f"{i}.up"][e]) @ P[f"{i}.down"][e]
            out = out.index_add(0, hit, h * gate[hit].unsqueeze(1))
    load = F.one_hot(choice, args.experts).float().mean(0)
    balance = args.experts * (load * probs.mean(0)).sum()
    return out.view_as(x), balance


def forward(P, idx, args, train=True):
    d = args.dim
    x = P["tok"][idx] + P["pos"][: idx.size(1)]
    x = F.dropout(x, args.drop, training=train)
    aux = 0.0
    for i in range(args.layers):
        x = x + attend(F.layer_norm(x, (d,), P[f"{i}.g1"]), P, i, args, train)
        h, balance = moe(F.layer_norm(x, (d,), P[f"{i}.g2"]), P, i, args)
        x = x + F.dropout(h, args.drop, training=train)
        aux = aux + balance
    return F.layer_norm(x, (d,), P["gf"]) @ P["tok"].T, aux / args.layers


def lr_at(step, args):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    t = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * t)))


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    chars = sorted(set(TEXT))
    data = torch.tensor([chars.index(c) for c in TEXT])
    cut = int(0.9 * len(data))
    rng = torch.Generator().manual_seed(args.seed)
    P = init_params(args, len(chars))
    opt = torch.optim.AdamW(list(P.values()), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(args.steps):
        for group in opt.param_groups:
            group["lr"] = lr_at(step, args)
        opt.zero_grad()
        for _ in range(args.micro):
            x, y = get_batch(data[:cut], args, rng)
            logits, aux = forward(P, x, args)
            nll = F.cross_entropy(logits.view(-1, len(chars)), y.view(-1))
            ((nll + args.balance * aux) / args.micro).backward()
        torch.nn.utils.clip_grad_norm_(list(P.values()), 1.0)
        opt.step()
        if step % 100 == 0:
            with torch.no_grad():
                vx, vy = get_batch(data[cut:], args, rng)
                val = F.cross_entropy(forward(P, vx, args, train=False)[0].flatten(0, 1), vy.flatten())
            print(f"{step:5d} train {nll.item():.3f} val {val.item():.3f}")

if __name__ == "__main__":
    main()
