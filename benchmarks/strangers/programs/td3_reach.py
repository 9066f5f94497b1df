"""TD3 on a two-dimensional thruster that has to reach and hold a goal in a side wind."""
import copy
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    seed: int = 0
    horizon: int = 40
    warmup: int = 600
    steps: int = 1700
    batch: int = 96
    gamma: float = 0.96
    tau: float = 0.02
    lr: float = 2e-3
    hidden: int = 64
    policy_delay: int = 2
    expl_noise: float = 0.2
    target_noise: float = 0.15
    noise_clip: float = 0.3


class Thruster:
    """state: position(2), velocity(2), goal(2)"""

    max_force = 2.0

    def __init__(self, horizon, rng):
        self.horizon, self.rng = horizon, rng
        self.state = np.zeros(6, dtype=np.float32)

    def reset(self):
        self.state[:2] = self.rng.uniform(-1, 1, 2)
        self.state[2:4] = self.rng.normal(0, 0.2, 2)
        self.state[4:] = self.rng.uniform(-1, 1, 2)
        self.t = 0
        return self.state.copy()

    def step(self, a):
        s = self.state
        wind = np.array([0.6 * np.sin(2.0 * s[1]), -0.5], dtype=np.float32)
        s[2:4] += 0.1 * (self.max_force * a + wind - 0.4 * s[2:4])
        s[:2] += 0.1 * s[2:4]
        self.t += 1
        dist = float(np.sqrt(((s[:2] - s[4:]) ** 2).sum()))
        out = bool(np.abs(s[:2]).max() > 3.0)
        reward = -dist - 0.05 * float((a ** 2).sum()) - (10.0 if out else 0.0)
        return self.state.copy(), reward, out, self.t >= self.horizon


class Replay:
    def __init__(self, size, obs_dim, act_dim, rng):
        self.s = np.zeros((size, obs_dim), np.float32)
        self.a = np.zeros((size, act_dim), np.float32)
        self.r = np.zeros((size, 1), np.float32)
        self.s2 = np.zeros((size, obs_dim), np.float32)
        self.d = np.zeros((size, 1), np.float32)
        self.n, self.rng = 0, rng

    def add(self, s, a, r, s2, d):
        i = self.n
        self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i] = s, a, r, s2, d
        self.n += 1

    def sample(self, k):
        idx = self.rng.integers(0, self.n, k)
        return [torch.from_numpy(b[idx]) for b in (self.s, self.a, self.r, self.s2, self.d)]


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.net = mlp(i, h, o)

    def forward(self, s):
        return torch.tanh(self.net(s))


class TwinCritic(nn.Module):
    def __init__(self, s, a, h):
        super().__init__()
        self.q1 = mlp(s + a, h, 1)
        self.q2 = mlp(s + a, h, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], dim=-1)
        return self.q1(x), self.q2(x)


class TD3:
    def __init__(self, cfg, obs_dim, act_dim):
        self.cfg = cfg
        self.actor = Actor(obs_dim, cfg.hidden, act_dim)
        self.critic = TwinCritic(obs_dim, act_dim, cfg.hidden)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=cfg.lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=cfg.lr)
        self.it = 0

    @torch.no_grad()
    def act(self, s, noise=0.0):
        a = self.actor(torch.as_tensor(s)).numpy()
        return np.clip(a + noise * np.random.randn(*a.shape), -1, 1).astype(np.float32)

    def soft_update(self, source, target):
        with torch.no_grad():
            for p, tp in zip(source.parameters(), target.parameters()):
                tp.mul_(1 - self.cfg.tau).add_(self.cfg.tau * p)

    def update(self, buffer):
        cfg = self.cfg
        s, a, r, s2, d = buffer.sample(cfg.batch)
        with torch.no_grad():
            eps = (torch.randn_like(a) * cfg.target_noise).clamp(-cfg.noise_clip, cfg.noise_clip)
            a2 = (self.actor_target(s2) + eps).clamp(-1, 1)
            y = r + cfg.gamma * (1 - d) * torch.min(*self.critic_target(s2, a2))
        q1, q2 = self.critic(s, a)
        critic_loss = F.smooth_l1_loss(q1, y) + F.smooth_l1_loss(q2, y)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        self.it += 1
        if self.it % cfg.policy_delay == 0:
            actor_loss = -self.critic(s, self.actor(s))[0].mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.soft_update(self.actor, self.actor_target)
            self.soft_update(self.critic, self.critic_target)
        return critic_loss.item()


def evaluate(agent, cfg, episodes=24):
    env = Thruster(cfg.horizon, np.random.default_rng(12345))
    total = 0.0
    for _ in range(episodes):
        s, stop = env.reset(), False
        while not stop:
            s, r, out, last = env.step(agent.act(s))
            total += r
            stop = out or last
    return total / episodes


def main(cfg):
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    env = Thruster(cfg.horizon, rng)
    agent = TD3(cfg, 6, 2)
    buffer = Replay(cfg.steps + cfg.warmup, 6, 2, rng)
    s = env.reset()
    losses = []
    for t in range(cfg.warmup + cfg.steps):
        if t < cfg.warmup:
            a = rng.uniform(-1, 1, 2).astype(np.float32)
        else:
            a = agent.act(s, cfg.expl_noise)
        s2, r, out, last = env.step(a)
        buffer.add(s, a, r, s2, float(out))
        s = env.reset() if (out or last) else s2
        if t >= cfg.warmup:
            losses.append(agent.update(buffer))
            if len(losses) % 340 == 0:
                print(f"step {t + 1}  critic loss {np.mean(losses[-200:]):.4f}  "
                      f"return {evaluate(agent, cfg, 3):.2f}")
    print("result %.4f" % -evaluate(agent, cfg))


if __name__ == "__main__":
    main(Config(seed=int(sys.argv[1]) if len(sys.argv) > 1 else 0))
