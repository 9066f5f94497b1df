"""TD3 on a damped point mass with wind that has to reach and hold a drifting target."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn


class WindyPoint:
    """A batch of independent environments, stepped together."""
    obs_dim, act_dim, horizon = 6, 2, 40

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.state = np.zeros((n, 6), np.float32)
        self.t = np.zeros(n, int)
        self.reset(np.ones(n, bool))

    def reset(self, which):
        k = int(which.sum())
        fresh = np.concatenate([self.rng.uniform(-1, 1, (k, 2)), np.zeros((k, 2)), self.rng.uniform(-1, 1, (k, 2))], 1)
        self.state[which], self.t[which] = fresh, 0
        return self.state.copy()

    def observe(self):
        return self.state.copy()

    def step(self, action):
        a = np.clip(action, -1, 1)
        pos, vel, goal = self.state[:, :2], self.state[:, 2:4], self.state[:, 4:]
        wind = 0.3 * np.sin(2.0 * pos[:, ::-1])
        vel = 0.85 * vel + 0.12 * (a + wind)
        pos = np.clip(pos + vel, -1.5, 1.5)
        goal = np.clip(goal + 0.02 * self.rng.normal(size=goal.shape), -1, 1)
        self.state[:] = np.concatenate([pos, vel, goal], 1)
        dist = np.linalg.norm(pos - goal, axis=1)
        reward = -dist - 0.05 * (a ** 2).sum(1) + 1.0 * (dist < 0.15)
        self.t += 1
        crashed = np.abs(pos).max(1) >= 1.5
        reward = reward - 3.0 * crashed
        return self.observe(), reward.astype(np.float32), crashed, self.t >= self.horizon


class Replay:
    def __init__(self, size, obs_dim, act_dim):
        self.size, self.ptr, self.full = size, 0, 0
        self.s, self.s2 = torch.zeros(size, obs_dim), torch.zeros(size, obs_dim)
        self.a = torch.zeros(size, act_dim)
        self.r, self.done = torch.zeros(size, 1), torch.zeros(size, 1)

    def add(self, s, a, r, s2, done):
        n = len(s)
        at = (self.ptr + torch.arange(n)) % self.size
        self.s[at], self.a[at], self.s2[at] = torch.as_tensor(s), torch.as_tensor(a), torch.as_tensor(s2)
        self.r[at] = torch.as_tensor(r)[:, None]
        self.done[at] = torch.as_tensor(done, dtype=torch.float32)[:, None]
        self.ptr = (self.ptr + n) % self.size
        self.full = min(self.full + n, self.size)

    def draw(self, n):
        i = torch.randint(0, self.full, (n,))
        return self.s[i], self.a[i], self.r[i], self.s2[i], self.done[i]


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, act_dim)

    def forward(self, s):
        return torch.tanh(self.mu(self.body(s)))


class TwinCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=64):
        super().__init__()
        make = lambda: nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden),
                                     nn.ReLU(), nn.Linear(hidden, 1))
        self.q1, self.q2 = make(), make()

    def forward(self, s, a):
        return self.q1(torch.cat([s, a], dim=1)), self.q2(torch.cat([s, a], dim=1))


class TD3:
    def __init__(self, env, gamma=0.95, tau=0.02, noise=0.2, clip=0.4, delay=2):
        self.gamma, self.tau, self.noise, self.clip, self.delay = gamma, tau, noise, clip, delay
        self.actor = Actor(env.obs_dim, env.act_dim)
        self.critic = TwinCritic(env.obs_dim, env.act_dim)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=2e-3)
        self.count = 0

    @torch.no_grad()
    def act(self, s, std=0.0):
        a = self.actor(torch.as_tensor(s))
        return (a + std * torch.randn_like(a)).clamp(-1, 1).numpy()

    def soft_update(self, net, target):
        with torch.no_grad():
            for p, q in zip(net.parameters(), target.parameters()):
                q.add_(self.tau * (p - q))

    def learn(self, batch):
        s, a, r, s2, done = batch
        self.count += 1
        with torch.no_grad():
            eps = (self.noise * torch.randn_like(a)).clamp(-self.clip, self.clip)
            a2 = (self.actor_target(s2) + eps).clamp(-1, 1)
            t1, t2 = self.critic_target(s2, a2)
            y = r + self.gamma * (1 - done) * torch.min(t1, t2)
        q1, q2 = self.critic(s, a)
        loss_c = (q1 - y).pow(2).mean() + (q2 - y).pow(2).mean()
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()
        if self.count % self.delay == 0:
            loss_a = -self.critic(s, self.actor(s))[0].mean()
            self.opt_a.zero_grad()
            loss_a.backward()
            self.opt_a.step()
            self.soft_update(self.actor, self.actor_target)
            self.soft_update(self.critic, self.critic_target)
        return loss_c.item()


def evaluate(agent, seed, n=64):
    """Gap of the noise-free policy to the largest reward per step, which is one."""
    env = WindyPoint(n, np.random.default_rng(9000 + seed))
    s, total = env.observe(), 0.0
    for _ in range(env.horizon):
        s, r, _, _ = env.step(agent.act(s))
        total += r.mean()
    return 1.0 - total / env.horizon


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", nargs="?", type=int, default=0)
    ap.add_argument("--steps", type=int, default=2400)
    ap.add_argument("--envs", type=int, default=16)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--explore", type=float, default=0.3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    env = WindyPoint(args.envs, np.random.default_rng(args.seed))
    agent = TD3(env)
    buffer = Replay(20000, env.obs_dim, env.act_dim)
    print(f"untrained gap {evaluate(agent, args.seed):.4f}")
    s, losses = env.observe(), []
    for step in range(args.steps):
        a = agent.act(s, args.explore) if step > 20 else np.random.default_rng(step).uniform(-1, 1, (args.envs, 2)).astype(np.float32)
        s2, r, crashed, timeout = env.step(a)
        buffer.add(s, a, r, s2, crashed)
        s = s2
        if (crashed | timeout).any():
            s = env.reset(crashed | timeout)
        if step > 20:
            losses.append(agent.learn(buffer.draw(args.batch)))
        if step % 400 == 399:
            print(f"step {step + 1} critic loss {np.mean(losses[-100:]):.4f}")
    print(f"result {evaluate(agent, args.seed):.5f}")


if __name__ == "__main__":
    main()
