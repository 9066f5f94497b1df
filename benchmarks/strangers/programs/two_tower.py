# Query/item retrieval with two towers and a gradient cache (GradCache, Gao et al. 2021):
# the whole batch is embedded in chunks without a graph, the loss is taken once on all of it, then every
# chunk is run again with the graph and the cached d(loss)/d(embedding) is pushed through.
import argparse, math, time
import torch
from torch import nn, Tensor
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=300)
p.add_argument("--batch", type=int, default=128)
p.add_argument("--chunk", type=int, default=32)
p.add_argument("--lr", type=float, default=2.5e-3)
p.add_argument("--seed", type=int, default=11)
cfg = p.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(cfg.seed)
VOCAB, MAXLEN, PAD, DENSE, CONCEPTS = 121, 12, 0, 48, 16


class World:
    """A hidden concept vector; the query is a bag of tokens drawn by it, the item a dense view of it."""

    def __init__(self, dev):
        g = torch.Generator().manual_seed(2024)
        self.word = torch.randn(VOCAB - 1, CONCEPTS, generator=g).to(dev)
        self.w1 = (torch.randn(CONCEPTS, 64, generator=g) / math.sqrt(CONCEPTS)).to(dev)
        self.w2 = (torch.randn(64, DENSE, generator=g) / 8).to(dev)
        self.dev = dev

    def sample(self, n) -> tuple[Tensor, Tensor]:
        c = torch.randn(n, CONCEPTS, device=self.dev)
        tok = 1 + torch.multinomial((1.2 * c @ self.word.T).softmax(-1), MAXLEN)
        ln = torch.randint(7, MAXLEN + 1, (n, 1), device=self.dev)
        tok = tok.masked_fill(torch.arange(MAXLEN, device=self.dev) >= ln, PAD)
        item = torch.tanh(1.5 * c @ self.w1) @ self.w2 + 0.05 * torch.randn(n, DENSE, device=self.dev)
        return tok, item


class EncoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, keep):
        B, L, D = x.shape
        q, k, v = (u.view(B, L, self.h, -1).transpose(1, 2) for u in self.qkv(self.ln1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        x = x + self.o(a.transpose(1, 2).reshape(B, L, D))
        return x + self.ff(self.ln2(x))


class QueryTower(nn.Module):
    def __init__(self, d=48, out=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.layers = nn.ModuleList([EncoderLayer(d, 4) for _ in range(1)])
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, out)

    def forward(self, tok):
        keep = tok != PAD
        x = self.emb(tok)
        for layer in self.layers:
            x = checkpoint(layer, x, keep, use_reentrant=False) if torch.is_grad_enabled() else layer(x, keep)
        m = keep.unsqueeze(-1).to(x.dtype)
        return self.head(self.ln((x * m).sum(1) / m.sum(1)))


class ItemTower(nn.Module):
    def __init__(self, d=160, out=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DENSE, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, out))

    def forward(self, x):
        return self.net(x)


class Contrast(nn.Module):
    def __init__(self, init_t=0.07):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / init_t)))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        q, k = F.normalize(q.float(), dim=-1), F.normalize(k.float(), dim=-1)
        sim = self.logit_scale.exp() * q @ k.T
        y = torch.arange(len(q), device=q.device)
        return 0.5 * (F.cross_entropy(sim, y) + F.cross_entropy(sim.T, y))


def autocast():
    return torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=(device == "cuda"))


@torch.no_grad()
def embed(tower, x):
    with autocast():
        return torch.cat([tower(c) for c in x.split(cfg.chunk)]).float()


@torch.no_grad()
def recall(qt, it, world, pool=512, rounds=4):
    qt.eval(); it.eval()
    r1 = r10 = 0.0
    for _ in range(rounds):
        tok, item = world.sample(pool)
        s = F.normalize(embed(qt, tok), dim=-1) @ F.normalize(embed(it, item), dim=-1).T
        rank = (s > s.diagonal()[:, None]).sum(1)
        r1 += (rank == 0).float().mean().item() / rounds
        r10 += (rank < 10).float().mean().item() / rounds
    qt.train(); it.train()
    return r1, r10


def main():
    t0 = time.time()
    world = World(device)
    qt, it, crit = QueryTower().to(device), ItemTower().to(device), Contrast().to(device)
    decay, plain = [], []
    for m in (qt, it, crit):
        for w in m.parameters():
            (decay if w.ndim > 1 else plain).append(w)
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                            lr=cfg.lr, betas=(0.9, 0.98), fused=(device == "cuda"))
    warm = 20
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: (s + 1) / warm if s < warm else 0.5 * (1 + math.cos(math.pi * min(1.0, (s - warm) / (cfg.steps - warm)))))
    for step in range(1, cfg.steps + 1):
        tok, item = world.sample(cfg.batch)
        opt.zero_grad(set_to_none=True)
        # pass 1: embeddings without a graph, then the loss and its gradient on the embeddings
        zq = embed(qt, tok).requires_grad_()
        zk = embed(it, item).requires_grad_()
        loss = crit(zq, zk)
        loss.backward()
        # pass 2: with the graph, chunk by chunk
        for tower, x, g in ((qt, tok, zq.grad), (it, item, zk.grad)):
            for xc, gc in zip(x.split(cfg.chunk), g.split(cfg.chunk)):
                with autocast():
                    out = tower(xc)
                (out.float() * gc).sum().backward()
        torch.nn.utils.clip_grad_norm_([w for gr in opt.param_groups for w in gr["params"]], 1.0, foreach=True)
        opt.step()
        sched.step()
        with torch.no_grad():
            crit.logit_scale.clamp_(max=math.log(100.0))
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f} scale {crit.logit_scale.exp().item():.1f}")
    r1, r10 = recall(qt, it, world)
    print(f"{time.time() - t0:.1f} s")
    print(f"FINAL recall@1 {r1:.3f} recall@10 {r10:.3f} (chance {1 / 512:.3f})")


if __name__ == "__main__":
    main()
