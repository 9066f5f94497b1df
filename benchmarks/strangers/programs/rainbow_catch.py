"""Double / dueling DQN with prioritised replay and n-step returns on Catch (numpy)."""
import copy
from collections import deque
from dataclasses import dataclass
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, COLS = 8, 7

@dataclass
class Config:
    seed: int = 3
    n_step: int = 3
    num_envs: int = 16
    updates: int = 400
    gamma: float = 0.95
    batch: int = 128
    capacity: int = 6000
    lr: float = 2e-3
    target_every: int = 25
    alpha: float = 0.6
    beta0: float = 0.4


class Catch:
    """A ball falls and drifts, the paddle in the last row must be under it."""
    def __init__(self, rng):
        self.rng = rng
        self.board = np.zeros((ROWS, COLS), dtype=np.float32)

    def _draw(self):
        self.board[:] = 0.0
        self.board[self.y, self.x] = 1.0
        self.board[-1, self.paddle] = 1.0
        return self.board.reshape(-1)

    def reset(self):
        self.y, self.x = 0, int(self.rng.integers(COLS))
        self.paddle = int(self.rng.integers(COLS))
        return self._draw()

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + action - 1, 0, COLS - 1))
        self.y += 1
        if self.rng.random() < 0.1:
            self.x = int(np.clip(self.x + self.rng.choice([-1, 1]), 0, COLS - 1))
        done = self.y == ROWS - 1
        reward = (1.0 if self.x == self.paddle else -1.0) if done else 0.0
        return self._draw(), reward, done


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, alpha, rng):
        self.capacity, self.alpha, self.rng = capacity, alpha, rng
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.act, self.disc = np.zeros(capacity, np.int64), np.zeros(capacity, np.float32)
        self.ret = np.zeros(capacity, np.float32)
        self.prio, self.max_prio = np.zeros(capacity), 1.0
        self.pos, self.size = 0, 0

    def add(self, obs, act, ret, next_obs, disc):
        i = self.pos
        self.obs[i], self.next_obs[i] = obs, next_obs
        self.act[i], self.ret[i], self.disc[i] = act, ret, disc
        self.prio[i] = self.max_prio
        self.pos = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n, beta):
        p = self.prio[: self.size] ** self.alpha
        p /= p.sum()
        idx = self.rng.choice(self.size, n, p=p)
        w = (self.size * p[idx]) ** (-beta)
        batch = [torch.from_numpy(c[idx]) for c in (self.obs, self.act, self.ret, self.next_obs, self.disc)]
        return idx, torch.as_tensor(w / w.max(), dtype=torch.float32), batch

    def update(self, idx, td):
        self.prio[idx] = np.abs(td) + 1e-3
        self.max_prio = max(self.max_prio, float(self.prio[idx].max()))


class DuelingNet(nn.Module):
    def __init__(self, obs_dim, n_act, hidden=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value, self.adv = nn.Linear(hidden, 1), nn.Linear(hidden, n_act)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=1, keepdim=True)


class NStep:
    def __init__(self, n, gamma):
        self.n, self.gamma, self.q = n, gamma, deque()
    def push(self, buf, obs, act, rew, next_obs, done):
        self.q.append((obs, act, rew))
        if done:
            while self.q:
                self._emit(buf, next_obs, 0.0)
        elif len(self.q) == self.n:
            self._emit(buf, next_obs, self.gamma ** self.n)

    def _emit(self, buf, next_obs, disc):
        ret = sum(self.gamma ** k * item[2] for k, item in enumerate(self.q))
        buf.add(*self.q.popleft()[:2], ret, next_obs, disc)


@torch.no_grad()
def evaluate(net):
    rng = np.random.default_rng(99)
    env, total, episodes = Catch(rng), 0.0, 200
    for _ in range(episodes):
        obs, done = env.reset(), False
        while not done:
            action = net(torch.from_numpy(obs)[None]).argmax(1).item()
            obs, rew, done = env.step(action)
        total += rew
    return total / episodes


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    envs = [Catch(rng) for _ in range(cfg.num_envs)]
    queues = [NStep(cfg.n_step, cfg.gamma) for _ in envs]
    current = [env.reset().copy() for env in envs]
    net = DuelingNet(ROWS * COLS, 3)
    target = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    buf = PrioritizedReplay(cfg.capacity, ROWS * COLS, cfg.alpha, rng)

    for upd in range(-30, cfg.updates):
        eps = 1.0 if upd < 0 else max(0.05, 1.0 - upd / (0.6 * cfg.updates))
        with torch.no_grad():
            greedy = net(torch.from_numpy(np.stack(current))).argmax(1).numpy()
        for i, env in enumerate(envs):
            a = int(rng.integers(3)) if rng.random() < eps else int(greedy[i])
            nxt, rew, done = env.step(a)
            queues[i].push(buf, current[i], a, rew, nxt, done)
            current[i] = env.reset().copy() if done else nxt.copy()
        if upd < 0:
            continue
        beta = cfg.beta0 + (1.0 - cfg.beta0) * upd / cfg.updates
        idx, w, (obs, act, ret, nobs, disc) = buf.sample(cfg.batch, beta)
        with torch.no_grad():
            best = net(nobs).argmax(1, keepdim=True)
            y = ret + disc * target(nobs).gather(1, best).squeeze(1)
        q = net(obs).gather(1, act[:, None]).squeeze(1)
        loss = (w * F.smooth_l1_loss(q, y, reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        buf.update(idx, (q - y).detach().numpy())
        if upd % cfg.target_every == 0:
            target.load_state_dict(net.state_dict())
        if upd % 50 == 0:
            print(f"update {upd:4d} loss {loss.item():.4f} q {q.mean().item():+.3f} eps {eps:.2f}")

    score = evaluate(net)
    print(f"greedy return {score:+.3f}\nresult {(1.0 - score) / 2.0:.4f}")


main()
