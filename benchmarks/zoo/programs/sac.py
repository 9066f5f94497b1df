"""Soft actor-critic on a point that must reach the origin: twin critics, learned temperature, Polyak targets."""

import copy
import itertools
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
np.random.seed(seed)


class PointEnv:
    def reset(self):
        self.x, self.v, self.t = np.random.uniform(-1, 1, 2), np.zeros(2), 0
        return self.observe()

    def observe(self):
        return np.concatenate([self.x, self.v]).astype(np.float32)

    def step(self, action):
        self.v = 0.8 * self.v + 0.2 * action
        self.x = np.clip(self.x + 0.3 * self.v, -2, 2)
        self.t += 1
        return self.observe(), -float((self.x**2).sum()) - 0.02 * float((action**2).sum()), self.t >= 40


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(4, 4)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, -1)
        dist = Normal(mean, log_std.clamp(-5, 2).exp())
        raw = dist.rsample()
        logp = dist.log_prob(raw).sum(-1) - (2 * (np.log(2) - raw - F.softplus(-2 * raw))).sum(-1)
        return torch.tanh(raw), logp, torch.tanh(mean)


class SAC:
    def __init__(self):
        self.actor, self.q1, self.q2 = Actor(), mlp(6, 1), mlp(6, 1)
        self.q1_targ, self.q2_targ = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        for p in itertools.chain(self.q1_targ.parameters(), self.q2_targ.parameters()):
            p.requires_grad = False
        self.q_params = list(itertools.chain(self.q1.parameters(), self.q2.parameters()))
        self.pi_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.q_opt = torch.optim.Adam(self.q_params, lr=1e-3)
        self.log_alpha = torch.tensor(-1.5, requires_grad=True)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=1e-3)

    def update(self, o, a, r, o2, d):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            a2, logp2, _ = self.actor(o2)
            x2 = torch.cat([o2, a2], -1)
            q_targ = torch.min(self.q1_targ(x2), self.q2_targ(x2)).squeeze(-1)
            backup = r + 0.97 * (1 - d) * (q_targ - alpha * logp2)
        x = torch.cat([o, a], -1)
        loss_q = F.mse_loss(self.q1(x).squeeze(-1), backup) + F.mse_loss(self.q2(x).squeeze(-1), backup)
        self.q_opt.zero_grad()
        loss_q.backward()
        self.q_opt.step()

        for p in self.q_params:
            p.requires_grad = False
        pi, logp, _ = self.actor(o)
        xp = torch.cat([o, pi], -1)
        loss_pi = (alpha * logp - torch.min(self.q1(xp), self.q2(xp)).squeeze(-1)).mean()
        self.pi_opt.zero_grad()
        loss_pi.backward()
        self.pi_opt.step()
        for p in self.q_params:
            p.requires_grad = True

        loss_alpha = -(self.log_alpha.exp() * (logp.detach() - 2.0)).mean()
        self.alpha_opt.zero_grad()
        loss_alpha.backward()
        self.alpha_opt.step()
        with torch.no_grad():
            for net, targ in ((self.q1, self.q1_targ), (self.q2, self.q2_targ)):
                for p, p_targ in zip(net.parameters(), targ.parameters()):
                    p_targ.mul_(0.99).add_(0.01 * p)


env, agent, buffer = PointEnv(), SAC(), []
obs, total = env.reset(), 0.0
for t in range(2400):
    if t < 400:
        act = np.random.uniform(-1, 1, 2).astype(np.float32)
    else:
        with torch.no_grad():
            act = agent.actor(torch.as_tensor(obs))[0].numpy()
    obs2, rew, done = env.step(act)
    buffer.append((obs, act, rew, obs2, 0.0))
    obs, total = obs2, total + rew
    if done:
        if t % 400 == 399:
            print(f"step {t + 1} return {total:.2f} alpha {agent.log_alpha.exp().item():.3f}")
        obs, total = env.reset(), 0.0
    if t >= 400 and t % 2 == 0:
        picks = np.random.randint(0, len(buffer), 64)
        o, a, r, o2, d = (torch.as_tensor(np.array(c), dtype=torch.float32) for c in zip(*[buffer[i] for i in picks]))
        agent.update(o, a, r, o2, d)
scores = []
for _ in range(10):
    obs, done, total = env.reset(), False, 0.0
    while not done:
        with torch.no_grad():
            obs, rew, done = env.step(agent.actor(torch.as_tensor(obs))[2].numpy())
        total += rew
    scores.append(-total)
print("result", float(np.mean(scores)))
