# PPO with a gaussian policy, 2-d point mass that must reach a goal
import sys
import math
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

N_ENVS, HORIZON, ITERS = 32, 50, 55
EPOCHS, MINIBATCH = 4, 400
GAMMA, LAM, CLIP = 0.97, 0.95, 0.2
LR = 1e-3


class VecPoint:
    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.pos = np.zeros((n, 2)); self.vel = np.zeros((n, 2)); self.goal = np.zeros((n, 2))
        self.t = np.zeros(n, int)
        self._reset(np.ones(n, bool))

    def _reset(self, m):
        k = int(m.sum())
        self.pos[m] = self.rng.uniform(-20, 20, (k, 2))
        self.goal[m] = self.rng.uniform(-20, 20, (k, 2)) + 15.0
        self.vel[m] = 0
        self.t[m] = self.rng.integers(0, 20, k)

    def obs(self):
        return np.concatenate([self.pos, self.goal, self.vel], 1).astype(np.float32)

    def step(self, a):
        a = np.clip(a, -1, 1)
        self.vel = 0.8 * self.vel + 1.5 * a
        self.pos = self.pos + self.vel
        d = np.linalg.norm(self.pos - self.goal, axis=1)
        r = -0.02 * d - 0.01 * (a ** 2).sum(1)
        self.t += 1
        done = self.t >= 60
        if done.any():
            self._reset(done)
        return self.obs(), r.astype(np.float32), done.astype(np.float32), d


class Norm:
    def __init__(self, dim):
        self.mean, self.var, self.count = np.zeros(dim), np.ones(dim), 1e-3

    def update(self, x):
        m, v, c = x.mean(0), x.var(0), len(x)
        tot = self.count + c
        delta = m - self.mean
        self.var = (self.var * self.count + v * c + delta ** 2 * self.count * c / tot) / tot
        self.mean = self.mean + delta * c / tot
        self.count = tot

    def __call__(self, x):
        return torch.as_tensor((x - self.mean) / np.sqrt(self.var + 1e-8), dtype=torch.float32)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, h=64):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(obs_dim, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, act_dim))
        self.v = nn.Sequential(nn.Linear(obs_dim, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))
        with torch.no_grad():
            self.pi[-1].weight.mul_(0.1)

    def dist(self, o):
        return Normal(self.pi(o), self.log_std.exp())

    def value(self, o):
        return self.v(o).squeeze(-1)


def gae(rew, val, done, last):
    adv = torch.zeros_like(rew)
    acc = torch.zeros(rew.shape[1])
    for t in reversed(range(rew.shape[0])):
        nxt = last if t == rew.shape[0] - 1 else val[t + 1]
        delta = rew[t] + GAMMA * nxt * (1 - done[t]) - val[t]
        acc = delta + GAMMA * LAM * (1 - done[t]) * acc
        adv[t] = acc
    return adv


def evaluate(model, norm, seed):
    env = VecPoint(64, seed)
    env.t[:] = 0
    dists = []
    for t in range(55):
        with torch.no_grad():
            a = model.pi(norm(env.obs()))
        _, _, _, d = env.step(a.numpy())
        dists.append(d)
    return float(np.mean(dists))


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    np.random.seed(seed)
    env = VecPoint(N_ENVS, seed + 10)
    norm = Norm(6)
    model = ActorCritic(6, 2)
    opt = torch.optim.Adam(model.parameters(), lr=LR, eps=1e-5)
    total_steps = ITERS * HORIZON * N_ENVS
    env_steps = 0
    o_raw = env.obs()
    for it in range(ITERS):
        frac = max(0.0, 1.0 - env_steps / total_steps)
        for g in opt.param_groups:
            g["lr"] = LR * frac
        buf = {k: [] for k in ("o", "a", "lp", "r", "d", "v")}
        for _ in range(HORIZON):
            norm.update(o_raw)
            o = norm(o_raw)
            with torch.no_grad():
                dist = model.dist(o)
                a = dist.sample()
                lp = dist.log_prob(a).sum(-1)
                v = model.value(o)
            o_raw, r, d, _ = env.step(a.numpy())
            for k, x in zip(("o", "a", "lp", "r", "d", "v"), (o, a, lp, torch.as_tensor(r), torch.as_tensor(d), v)):
                buf[k].append(x)
            env_steps += N_ENVS
        b = {k: torch.stack(x) for k, x in buf.items()}
        with torch.no_grad():
            last = model.value(norm(o_raw))
        adv = gae(b["r"], b["v"], b["d"], last)
        ret = (adv + b["v"]).reshape(-1)
        adv = adv.reshape(-1)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        obs, act, old = b["o"].reshape(-1, 6), b["a"].reshape(-1, 2), b["lp"].reshape(-1)
        n = len(obs)
        for _ in range(EPOCHS):
            for idx in torch.randperm(n).split(MINIBATCH):
                dist = model.dist(obs[idx])
                ratio = (dist.log_prob(act[idx]).sum(-1) - old[idx]).exp()
                s1 = ratio * adv[idx]
                s2 = ratio.clamp(1 - CLIP, 1 + CLIP) * adv[idx]
                pg = -torch.min(s1, s2).mean()
                vf = ((model.value(obs[idx]) - ret[idx]) ** 2).mean()
                loss = pg + 0.5 * vf - 0.001 * dist.entropy().sum(-1).mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                opt.step()
        if it % 15 == 0 or it == ITERS - 1:
            print(f"iter {it:3d} pg {pg.item():.4f} vf {vf.item():.4f} reward {b['r'].mean():.4f} dist {evaluate(model, norm, 7):.3f}")
    print("result", evaluate(model, norm, seed + 1000))


if __name__ == "__main__":
    main()
