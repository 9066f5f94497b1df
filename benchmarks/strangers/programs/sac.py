import copy
import json
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

torch.set_num_threads(1)
torch.manual_seed(0)
np.random.seed(0)

GAMMA, TAU, LR = 0.97, 0.01, 1e-3
N_ENVS, BATCH, UPDATES, START = 8, 128, 1300, 60
HORIZON = 50


class PointMass:
    """Vectorised planar mass with drag; the wind depends on the position. Reach the origin and stay there.
    Leaving the arena ends the episode with a penalty."""

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros((n, 4), dtype=np.float32)
        self.t = np.zeros(n, dtype=np.int64)

    def reset(self, idx=None):
        idx = np.arange(self.n) if idx is None else idx
        self.state[idx, :2] = self.rng.uniform(-1.5, 1.5, (len(idx), 2))
        self.state[idx, 2:] = self.rng.uniform(-0.5, 0.5, (len(idx), 2))
        self.t[idx] = 0
        return self.state.copy()

    def step(self, action):
        p, v = self.state[:, :2], self.state[:, 2:]
        wind = 0.35 * np.stack([np.sin(2 * p[:, 1]), np.cos(2 * p[:, 0])], 1)
        v = v + 0.1 * (2.0 * action + wind - 0.3 * v)
        p = p + 0.1 * v
        self.state[:, :2] = p
        self.state[:, 2:] = v
        self.t += 1
        reward = -np.sqrt((p ** 2).sum(1)) - 0.05 * (action ** 2).sum(1)
        out = (np.abs(p) > 2.0).any(1)
        reward = reward - 20.0 * out
        timeout = self.t >= HORIZON
        return self.state.copy(), reward.astype(np.float32), out, timeout


class Replay:
    def __init__(self, cap=20000):
        self.o = np.zeros((cap, 4), np.float32)
        self.a = np.zeros((cap, 2), np.float32)
        self.r = np.zeros(cap, np.float32)
        self.o2 = np.zeros((cap, 4), np.float32)
        self.d = np.zeros(cap, np.float32)
        self.cap, self.ptr, self.size = cap, 0, 0

    def add(self, o, a, r, o2, d):
        for i in range(len(o)):
            j = self.ptr
            self.o[j], self.a[j], self.r[j], self.o2[j], self.d[j] = o[i], a[i], r[i], o2[i], d[i]
            self.ptr = (self.ptr + 1) % self.cap
            self.size = min(self.size + 1, self.cap)

    def sample(self, n):
        i = np.random.randint(0, self.size, n)
        f = torch.from_numpy
        return f(self.o[i]), f(self.a[i]), f(self.r[i]).unsqueeze(1), f(self.o2[i]), f(self.d[i]).unsqueeze(1)


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.mean = nn.Linear(64, 2)
        self.log_std = nn.Linear(64, 2)

    def forward(self, o):
        h = self.trunk(o)
        mu = self.mean(h)
        std = self.log_std(h).clamp(-5, 1).exp()
        dist = Normal(mu, std)
        u = dist.rsample()
        a = torch.tanh(u)
        logp = (dist.log_prob(u) - 2 * (np.log(2) - u - F.softplus(-2 * u))).sum(1, keepdim=True)
        return a, logp

    @torch.no_grad()
    def act(self, o, greedy=False):
        o = torch.as_tensor(o)
        if greedy:
            return torch.tanh(self.mean(self.trunk(o))).numpy()
        return self.forward(o)[0].numpy()


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(6, 64, 1)
        self.q2 = mlp(6, 64, 1)

    def forward(self, o, a):
        x = torch.cat([o, a], 1)
        return self.q1(x), self.q2(x)


def soft_update(target, source, tau):
    with torch.no_grad():
        for tp, p in zip(target.parameters(), source.parameters()):
            tp.mul_(1 - tau).add_(tau * p)


def evaluate(actor, episodes=200):
    env = PointMass(episodes, seed=999)
    o = env.reset()
    ret, alive = np.zeros(episodes), np.ones(episodes)
    for _ in range(HORIZON):
        o, r, out, _ = env.step(actor.act(o, greedy=True))
        ret += r * alive
        alive = alive * (1 - out)
    return float(ret.mean())


actor, critic = Actor(), TwinQ()
critic_target = copy.deepcopy(critic)
for p in critic_target.parameters():
    p.requires_grad_(False)
log_alpha = torch.tensor(np.log(0.2), dtype=torch.float32, requires_grad=True)
target_entropy = -2.0
pi_opt = torch.optim.Adam(actor.parameters(), lr=LR)
q_opt = torch.optim.Adam(critic.parameters(), lr=LR)
alpha_opt = torch.optim.Adam([log_alpha], lr=LR)

env, buf = PointMass(N_ENVS, seed=1), Replay()
obs = env.reset()
print("return before training", evaluate(actor))
for it in range(START + UPDATES):
    if it < START:
        act = np.random.uniform(-1, 1, (N_ENVS, 2)).astype(np.float32)
    else:
        act = actor.act(obs)
    nxt, rew, out, timeout = env.step(act)
    buf.add(obs, act, rew, nxt, out)
    obs = nxt
    done_idx = np.nonzero(out | timeout)[0]
    if len(done_idx):
        obs = env.reset(done_idx)
    if it < START:
        continue

    o, a, r, o2, d = buf.sample(BATCH)
    alpha = log_alpha.exp().detach()
    with torch.no_grad():
        a2, logp2 = actor(o2)
        t1, t2 = critic_target(o2, a2)
        backup = r + GAMMA * (1 - d) * (torch.min(t1, t2) - alpha * logp2)
    q1, q2 = critic(o, a)
    q_loss = ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()
    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()

    for p in critic.parameters():
        p.requires_grad_(False)
    pi, logp = actor(o)
    p1, p2 = critic(o, pi)
    pi_loss = (alpha * logp - torch.min(p1, p2)).mean()
    pi_opt.zero_grad()
    pi_loss.backward()
    pi_opt.step()
    for p in critic.parameters():
        p.requires_grad_(True)

    alpha_loss = -(log_alpha * (logp.detach() + target_entropy)).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()

    soft_update(critic_target, critic, TAU)

    if it % 200 == 0:
        print(f"it {it} q_loss {q_loss.item():.3f} pi_loss {pi_loss.item():.3f} alpha {alpha.item():.3f} q {q1.mean().item():.2f}")

print("RESULT " + json.dumps({"metric": "greedy_return", "value": round(evaluate(actor), 3), "better": "higher"}))
