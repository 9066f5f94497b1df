"""Single-file DQN on a hand-written key-less maze with moving goal (vectorised)."""
import json
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Args:
    seed: int = 1
    num_envs: int = 16
    total_iters: int = 3000
    learning_starts: int = 100
    train_every: int = 2
    buffer_size: int = 30000
    batch_size: int = 128
    gamma: float = 0.95
    lr: float = 1e-3
    target_every: int = 50
    eps_start: float = 1.0
    eps_end: float = 0.05
    eps_frac: float = 0.6


class MazeVec:
    """6x6 rooms with walls and pits. -0.1 per move, -1 for a pit (ends), the goal ends the episode."""
    MAP = ["......",
           ".##.P.",
           "....#.",
           ".P#...",
           "..#.#.",
           "......"]
    MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
    GOALS = np.array([[0, 0], [0, 5], [5, 5], [5, 3]])

    def __init__(self, n, seed, max_len=40):
        self.n, self.max_len = n, max_len
        self.rng = np.random.default_rng(seed)
        grid = np.array([list(r) for r in self.MAP])
        self.wall, self.pit = grid == "#", grid == "P"
        self.free = np.argwhere(grid == ".")
        self.pos = np.zeros((n, 2), dtype=np.int64)
        self.goal = np.zeros(n, dtype=np.int64)
        self.t = np.zeros(n, dtype=np.int64)

    @property
    def obs_dim(self):
        return 12 + 4

    def _spawn(self, idx):
        for i in idx:
            self.goal[i] = self.rng.integers(4)
            while True:
                p = self.free[self.rng.integers(len(self.free))]
                if not (p == self.GOALS[self.goal[i]]).all():
                    break
            self.pos[i] = p
            self.t[i] = 0

    def obs(self):
        o = np.zeros((self.n, self.obs_dim), dtype=np.float32)
        r = np.arange(self.n)
        o[r, self.pos[:, 0]] = 1
        o[r, 6 + self.pos[:, 1]] = 1
        o[r, 12 + self.goal] = 1
        return o

    def reset(self):
        self._spawn(range(self.n))
        return self.obs()

    def step(self, a):
        new = self.pos + self.MOVES[a]
        inside = ((new >= 0) & (new < 6)).all(1)
        new = np.where(inside[:, None], new, self.pos)
        blocked = self.wall[new[:, 0], new[:, 1]]
        self.pos = np.where(blocked[:, None], self.pos, new)
        self.t += 1
        hit = self.pit[self.pos[:, 0], self.pos[:, 1]]
        won = (self.pos == self.GOALS[self.goal]).all(1)
        reward = np.full(self.n, -0.1, dtype=np.float32)
        reward[hit] = -1.0
        done = hit | won
        trunc = (self.t >= self.max_len) & ~done
        final_obs = self.obs()
        over = np.nonzero(done | trunc)[0]
        self._spawn(over)
        return self.obs(), final_obs, reward, done, trunc, won


class ReplayBuffer:
    def __init__(self, size, obs_dim):
        self.o = np.zeros((size, obs_dim), dtype=np.float32)
        self.o2 = np.zeros((size, obs_dim), dtype=np.float32)
        self.a = np.zeros(size, dtype=np.int64)
        self.r = np.zeros(size, dtype=np.float32)
        self.d = np.zeros(size, dtype=np.float32)
        self.size, self.ptr, self.full = size, 0, False

    def add(self, o, o2, a, r, d):
        n = len(o)
        idx = (self.ptr + np.arange(n)) % self.size
        self.o[idx], self.o2[idx], self.a[idx], self.r[idx], self.d[idx] = o, o2, a, r, d
        self.full = self.full or self.ptr + n >= self.size
        self.ptr = (self.ptr + n) % self.size

    def sample(self, n):
        hi = self.size if self.full else self.ptr
        idx = np.random.randint(0, hi, n)
        return tuple(torch.from_numpy(x[idx]) for x in (self.o, self.o2, self.a, self.r, self.d))


class QNetwork(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(obs_dim, 128), nn.ReLU(),
            nn.Linear(128, 128), nn.ReLU(),
            nn.Linear(128, n_actions),
        )

    def forward(self, x):
        return self.network(x)


def linear_schedule(start, end, duration, t):
    return max(start + (end - start) * t / duration, end)


def evaluate(q, seed, n=512, horizon=40):
    env = MazeVec(n, seed)
    obs = env.reset()
    alive, ret, wins = np.ones(n, bool), np.zeros(n), 0
    for _ in range(horizon):
        with torch.no_grad():
            a = q(torch.from_numpy(obs)).argmax(1).numpy()
        obs, _, r, done, trunc, won = env.step(a)
        ret += r * alive
        wins += (won & alive).sum()
        alive &= ~(done | trunc)
    return ret.mean(), wins / n


if __name__ == "__main__":
    args = Args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    envs = MazeVec(args.num_envs, args.seed)
    q_network = QNetwork(envs.obs_dim, 4)
    target_network = QNetwork(envs.obs_dim, 4)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.lr)
    rb = ReplayBuffer(args.buffer_size, envs.obs_dim)

    obs = envs.reset()
    for it in range(args.total_iters):
        eps = linear_schedule(args.eps_start, args.eps_end, args.eps_frac * args.total_iters, it)
        with torch.no_grad():
            actions = q_network(torch.from_numpy(obs)).argmax(1).numpy()
        explore = np.random.rand(args.num_envs) < eps
        actions[explore] = np.random.randint(0, 4, explore.sum())
        next_obs, real_next_obs, rewards, dones, truncs, _ = envs.step(actions)
        rb.add(obs, real_next_obs, actions, rewards, dones)
        obs = next_obs

        if it >= args.learning_starts and it % args.train_every == 0:
            o, o2, a, r, d = rb.sample(args.batch_size)
            with torch.no_grad():
                target_max, _ = target_network(o2).max(dim=1)
                td_target = r + args.gamma * target_max * (1 - d)
            old_val = q_network(o).gather(1, a.unsqueeze(1)).squeeze(1)
            loss = ((old_val - td_target) ** 2).mean()

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        if it % args.target_every == 0:
            target_network.load_state_dict(q_network.state_dict())

        if it > args.learning_starts and it % 300 == 0:
            ret, _ = evaluate(q_network, 7, n=128)
            print(f"iter={it} eps={eps:.2f} td_loss={loss.item():.5f} q={old_val.mean().item():.3f} return={ret:.3f}")

    ret, win = evaluate(q_network, 12345)
    print("win rate", win)
    print("RESULT " + json.dumps({"metric": "greedy_return", "value": float(ret), "better": "higher"}))
