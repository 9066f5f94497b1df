import math
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    size: int = 11
    T: int = 12
    n_traj: int = 1500
    d: int = 40
    heads: int = 4
    layers: int = 2
    batch: int = 32
    steps: int = 320
    lr: float = 3e-3
    warmup: int = 30
    seed: int = 0


MOVES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]])


class Maze:
    """Batch of independent grid walks towards a goal; a hidden wind flips the axes in half of them."""

    def __init__(self, n, cfg, rng):
        self.cfg = cfg
        self.pos = rng.integers(0, cfg.size, (n, 2))
        self.goal = rng.integers(0, cfg.size, (n, 2))
        self.flip = rng.integers(0, 2, n)

    def obs(self):
        return np.concatenate([self.pos, self.goal, self.flip[:, None] * 5], 1).astype(np.float32)

    def step(self, a):
        m = MOVES[a]
        m = np.where(self.flip[:, None] == 1, -m, m)
        self.pos = np.clip(self.pos + m, 0, self.cfg.size - 1)
        return -np.abs(self.pos - self.goal).sum(1) / 10.0


def expert(env):
    diff = env.goal - env.pos
    use_x = np.abs(diff[:, 0]) >= np.abs(diff[:, 1])
    a = np.where(use_x, np.where(diff[:, 0] > 0, 0, 1), np.where(diff[:, 1] > 0, 2, 3))
    swap = np.array([1, 0, 3, 2, 4])
    a = np.where(env.flip == 1, swap[a], a)
    return np.where(np.abs(diff).sum(1) == 0, 4, a)


def collect(cfg, rng):
    env = Maze(cfg.n_traj, cfg, rng)
    eps = rng.choice([0.1, 0.5, 0.9], cfg.n_traj)
    S, A, R = [], [], []
    for _ in range(cfg.T):
        a = np.where(rng.random(cfg.n_traj) < eps, rng.integers(0, 5, cfg.n_traj), expert(env))
        S.append(env.obs())
        r = env.step(a)
        A.append(a)
        R.append(r)
    S, A, R = np.stack(S, 1), np.stack(A, 1), np.stack(R, 1)
    rtg = np.cumsum(R[:, ::-1], axis=1)[:, ::-1].copy()
    return (torch.tensor(S), torch.tensor(A), torch.tensor(rtg, dtype=torch.float32).unsqueeze(-1))


class Block(nn.Module):
    def __init__(self, d, heads, max_len):
        super().__init__()
        self.h = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        mask = torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), diagonal=1)
        self.register_buffer("mask", mask)

    def attend(self, x):
        B, L, D = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        w = q @ k.transpose(-1, -2) / math.sqrt(D // self.h)
        w = w.masked_fill(self.mask[:L, :L], float("-inf")).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(B, L, D))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class DecisionTransformer(nn.Module):
    def __init__(self, cfg, s_mean, s_std):
        super().__init__()
        d = cfg.d
        self.register_buffer("s_mean", s_mean)
        self.register_buffer("s_std", s_std)
        self.emb_s, self.emb_r, self.emb_a = nn.Linear(5, d), nn.Linear(1, d), nn.Embedding(5, d)
        self.emb_t = nn.Embedding(cfg.T, d)
        self.blocks = nn.Sequential(*[Block(d, cfg.heads, 3 * cfg.T) for _ in range(cfg.layers)])
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, 5)

    def forward(self, rtg, s, a):
        B, T = a.shape
        t = self.emb_t(torch.arange(T))
        tok = torch.stack([self.emb_r(rtg / 5.0) + t, self.emb_s((s - self.s_mean) / self.s_std) + t, self.emb_a(a) + t], 2)
        h = self.blocks(tok.reshape(B, 3 * T, -1))
        return self.head(self.ln(h).view(B, T, 3, -1)[:, :, 1])


@torch.no_grad()
def rollout(model, cfg, seed, n=200):
    """Mean distance to the goal over the episode when asking for the shortest walk."""
    model.eval()
    env = Maze(n, cfg, np.random.default_rng(seed))
    dist = np.abs(env.pos - env.goal).sum(1)
    want = -sum(np.maximum(dist - k, 0) for k in range(1, cfg.T + 1)) / 10.0
    rtg = torch.zeros(n, cfg.T, 1)
    s = torch.zeros(n, cfg.T, 5)
    a = torch.zeros(n, cfg.T, dtype=torch.long)
    total = np.zeros(n)
    want = want.astype(np.float32)
    for t in range(cfg.T):
        rtg[:, t, 0] = torch.from_numpy(want)
        s[:, t] = torch.from_numpy(env.obs())
        logits = model(rtg[:, : t + 1], s[:, : t + 1], a[:, : t + 1])
        a[:, t] = logits[:, -1].argmax(-1)
        r = env.step(a[:, t].numpy())
        want = (want - r).astype(np.float32)
        total += r
    model.train()
    return float(-total.mean())


def train(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    S, A, RTG = collect(cfg, rng)
    flat = S.reshape(-1, 5)
    model = DecisionTransformer(cfg, flat.mean(0), flat.std(0))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)

    def lr_at(i):
        if i < cfg.warmup:
            return (i + 1) / cfg.warmup
        return 0.5 * (1 + math.cos(math.pi * (i - cfg.warmup) / (cfg.steps - cfg.warmup)))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_at)
    for i in range(cfg.steps):
        idx = torch.from_numpy(rng.integers(0, cfg.n_traj, cfg.batch))
        logits = model(RTG[idx], S[idx], A[idx])
        loss = F.cross_entropy(logits.reshape(-1, 5), A[idx].reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if i % 80 == 0 or i == cfg.steps - 1:
            print(f"[{i:4d}] loss={loss.item():.4f} rollout cost={rollout(model, cfg, 77, 64):.3f}")
    return model


if __name__ == "__main__":
    cfg = Config(seed=int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    model = train(cfg)
    print("result", rollout(model, cfg, 10_000 + cfg.seed))
