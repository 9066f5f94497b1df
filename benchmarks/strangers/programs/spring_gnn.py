"""Graph network simulator for charged balls on springs in two dimensions; evaluated by rollouts from unseen states."""
import sys

import numpy as np
import torch
import torch.nn as nn

NODES = 5
DT = 0.05
SUBSTEPS = 5
TRAIN_TRAJ, TEST_TRAJ = 60, 30
LENGTH = 50
ROLLOUT = 30
STEPS = 600
BATCH = 64
NOISE = 0.001


def accelerations(pos, springs, mass):
    """pos (T, N, 2), springs (T, N, N), mass (T, N)."""
    delta = pos[:, None, :, :] - pos[:, :, None, :]
    dist = np.sqrt((delta ** 2).sum(-1) + 0.2)
    pull = springs * (dist - 1.0) * 2.0
    push = 0.3 / dist ** 2 * (1 - np.eye(pos.shape[1]))
    force = ((pull - push)[..., None] * delta / dist[..., None]).sum(2)
    return force / mass[..., None] + np.array([0.0, -0.2]) - 0.3 * pos


def simulate(n_traj, rng):
    pos = rng.uniform(-1.2, 1.2, (n_traj, NODES, 2))
    vel = 0.4 * rng.standard_normal((n_traj, NODES, 2))
    mass = rng.uniform(0.6, 1.8, (n_traj, NODES))
    springs = np.triu(rng.random((n_traj, NODES, NODES)) < 0.5, 1).astype(float)
    springs = springs + springs.transpose(0, 2, 1)
    h = DT / SUBSTEPS
    frames = []
    for _ in range(LENGTH):
        frames.append(np.concatenate([pos, vel], -1))
        for _ in range(SUBSTEPS):
            vel = vel + h * accelerations(pos, springs, mass)
            pos = pos + h * vel
    states = np.stack(frames, 1)
    as_tensor = lambda a: torch.from_numpy(a.astype(np.float32))
    return as_tensor(states), as_tensor(mass), as_tensor(springs)


def mlp(n_in, n_out, hidden=64):
    return nn.Sequential(nn.Linear(n_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, n_out))


class InteractionNetwork(nn.Module):
    """Predicts the normalised velocity change of every node over one frame."""

    def __init__(self, message=32):
        super().__init__()
        self.edge_net = mlp(8, message)
        self.node_net = mlp(message + 5, 2)
        self.register_buffer("delta_mean", torch.zeros(2))
        self.register_buffer("delta_std", torch.ones(2))
        src, dst = zip(*[(i, j) for i in range(NODES) for j in range(NODES) if i != j])
        self.register_buffer("src", torch.tensor(src))
        self.register_buffer("dst", torch.tensor(dst))

    def fit_normaliser(self, states):
        delta = states[:, 1:, :, 2:] - states[:, :-1, :, 2:]
        self.delta_mean.copy_(delta.mean((0, 1, 2)))
        self.delta_std.copy_(delta.std((0, 1, 2)))

    def forward(self, state, mass, springs):
        pos, vel = state[..., :2], state[..., 2:]
        rel = pos[:, self.src] - pos[:, self.dst]
        dist = rel.norm(dim=-1, keepdim=True)
        linked = springs[:, self.src, self.dst].unsqueeze(-1)
        rel_vel = vel[:, self.src] - vel[:, self.dst]
        edge = torch.cat([rel, dist, linked, rel_vel, mass[:, self.src, None], mass[:, self.dst, None]], -1)
        messages = self.edge_net(edge)
        inbox = messages.new_zeros(len(pos), NODES, messages.shape[-1]).index_add_(1, self.dst, messages)
        return self.node_net(torch.cat([inbox, pos, vel, mass[..., None]], -1))

    def step(self, state, mass, springs):
        accel = self(state, mass, springs) * self.delta_std + self.delta_mean
        vel = state[..., 2:] + accel
        pos = state[..., :2] + DT * (state[..., 2:] + vel) / 2
        return torch.cat([pos, vel], -1)


@torch.no_grad()
def rollout_error(model, states, mass, springs):
    model.eval()
    state = states[:, 0]
    errors = []
    for t in range(1, ROLLOUT + 1):
        state = model.step(state, mass, springs)
        errors.append((state[..., :2] - states[:, t, :, :2]).square().mean().item())
    return float(np.sqrt(np.mean(errors)))


class Trainer:
    def __init__(self, model, train_set, rng):
        self.model = model
        self.states, self.mass, self.springs = train_set
        self.rng = rng
        self.opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-5)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, self.rate)

    @staticmethod
    def rate(step):
        return min(1.0, (step + 1) / 30) * 0.03 ** (step / STEPS)

    def batch(self):
        traj = torch.from_numpy(self.rng.integers(0, len(self.states), BATCH))
        t = torch.from_numpy(self.rng.integers(0, LENGTH - 1, BATCH))
        return self.states[traj, t], self.states[traj, t + 1], self.mass[traj], self.springs[traj]

    def train_step(self):
        self.model.train()
        state, nxt, mass, springs = self.batch()
        noisy = state + NOISE * torch.randn_like(state)
        target = (nxt[..., 2:] - noisy[..., 2:] - self.model.delta_mean) / self.model.delta_std
        loss = (self.model(noisy, mass, springs) - target).square().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        return loss.item()


def main(seed):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train_set = simulate(TRAIN_TRAJ, rng)
    test_set = simulate(TEST_TRAJ, rng)
    model = InteractionNetwork()
    model.fit_normaliser(train_set[0])
    trainer = Trainer(model, train_set, rng)
    for i in range(1, STEPS + 1):
        loss = trainer.train_step()
        if i % 200 == 0:
            print(f"step {i} loss {loss:.4f} rollout rmse {rollout_error(model, *test_set):.4f}")
    states = test_set[0]
    drift = states[:, :1, :, :2] - states[:, 1:ROLLOUT + 1, :, :2]
    print(f"standing still {drift.square().mean().sqrt().item():.4f}")
    print(f"result {rollout_error(model, *test_set):.5f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
