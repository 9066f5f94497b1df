"""Double DQN keeping a pole upright against random gusts."""
import random
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PoleEnv:
    """Pole on a fixed hinge, three torques, episode cut after max_steps."""

    def __init__(self, rng, max_steps=100):
        self.rng = rng
        self.max_steps = max_steps
        self.state = None
        self.t = 0

    def reset(self):
        self.state = self.rng.uniform(-0.1, 0.1, size=2).astype(np.float32)
        self.t = 0
        return self.state.copy()

    def step(self, action):
        torque = (action - 1) * 4.0
        gust = self.rng.normal(0.0, 2.0)
        acc = 10.0 * np.sin(self.state[0]) + torque + gust
        self.state[1] += 0.05 * acc
        self.state[0] += 0.05 * self.state[1]
        self.t += 1
        fell = bool(abs(self.state[0]) > 0.35)
        cut = self.t >= self.max_steps
        reward = 1.0 - 2.0 * abs(float(self.state[0]))
        return self.state.copy(), reward, fell, cut


class Replay:
    def __init__(self, capacity, obs_dim):
        self.s = np.zeros((capacity, obs_dim), np.float32)
        self.a = np.zeros(capacity, np.int64)
        self.r = np.zeros(capacity, np.float32)
        self.s2 = np.zeros((capacity, obs_dim), np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.capacity, self.pos, self.size = capacity, 0, 0

    def add(self, s, a, r, s2, done):
        i = self.pos
        self.s[i], self.a[i], self.r[i], self.s2[i], self.done[i] = s, a, r, s2, done
        self.pos = (self.pos + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        idx = np.random.randint(0, self.size, n)
        return [torch.from_numpy(x[idx]) for x in (self.s, self.a, self.r, self.s2, self.done)]


def make_net(obs_dim, n_actions, hidden=64):
    return nn.Sequential(
        nn.Linear(obs_dim, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, n_actions),
    )


class Agent:
    def __init__(self, obs_dim=2, n_actions=3, gamma=0.97, lr=1e-3):
        self.n_actions = n_actions
        self.gamma = gamma
        self.online = make_net(obs_dim, n_actions)
        self.target = make_net(obs_dim, n_actions)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(self.n_actions)
        return int(self.online(torch.from_numpy(obs)).argmax())

    def update(self, batch):
        s, a, r, s2, done = batch
        q = self.online(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.online(s2).argmax(1, keepdim=True)
            q_next = self.target(s2).gather(1, best).squeeze(1)
            y = r + self.gamma * (1.0 - done) * q_next
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.opt.step()
        return loss.item()

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())


def evaluate(agent, seed, episodes=12):
    env = PoleEnv(np.random.default_rng(seed))
    returns = []
    for _ in range(episodes):
        obs, total = env.reset(), 0.0
        while True:
            obs, reward, fell, cut = env.step(agent.act(obs, 0.0))
            total += reward
            if fell or cut:
                break
        returns.append(total)
    return float(np.mean(returns))


def main(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    env = PoleEnv(np.random.default_rng(seed + 1))
    agent = Agent()
    replay = Replay(4000, 2)
    total, warmup = 3500, 300
    obs = env.reset()
    running = 0.0
    for step in range(1, total + 1):
        eps = max(0.05, 1.0 - step / 1800)
        action = agent.act(obs, eps)
        obs2, reward, fell, cut = env.step(action)
        replay.add(obs, action, reward, obs2, float(fell))
        obs = env.reset() if (fell or cut) else obs2
        if step > warmup:
            running += 0.02 * (agent.update(replay.sample(64)) - running)
            if step % 200 == 0:
                agent.sync()
        if step % 500 == 0:
            print(f"step {step} eps {eps:.2f} loss {running:.4f} eval return {evaluate(agent, 99, 4):.1f}")
    print("result", round(1.0 - evaluate(agent, seed + 500, 30) / 100, 5))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
