"""DDPG for a torque-limited servo arm that must move to a commanded angle and hold it."""
import copy
import math
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ServoEnv:
    """n independent servo arms; obs = (cos, sin, velocity, cos target, sin target), reward = -cost."""
    obs_dim, act_dim, max_torque, horizon, dt = 5, 1, 2.0, 60, 0.08

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.theta = self.rng.uniform(-math.pi, math.pi, self.n)
        self.target = self.rng.uniform(-1.0, 1.0, self.n)
        self.omega = self.rng.uniform(-1, 1, self.n)
        self.t = 0
        return self.observe()

    def observe(self):
        obs = np.stack([np.cos(self.theta), np.sin(self.theta), self.omega / 3.0,
                        np.cos(self.target), np.sin(self.target)], axis=1)
        return obs.astype(np.float32)

    def step(self, action):
        torque = np.clip(action[:, 0], -self.max_torque, self.max_torque)
        err = (self.theta - self.target + math.pi) % (2 * math.pi) - math.pi
        cost = err ** 2 + 0.05 * self.omega ** 2 + 0.01 * torque ** 2
        accel = 2.5 * torque - 1.5 * np.sin(self.theta) - 0.3 * self.omega
        self.omega = np.clip(self.omega + self.dt * accel, -6, 6)
        self.theta = self.theta + self.dt * self.omega
        self.t += 1
        return self.observe(), (-cost).astype(np.float32), self.t >= self.horizon


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, act_dim):
        self.obs = torch.zeros(capacity, obs_dim)
        self.next_obs = torch.zeros(capacity, obs_dim)
        self.act = torch.zeros(capacity, act_dim)
        self.rew = torch.zeros(capacity, 1)
        self.capacity, self.ptr, self.size = capacity, 0, 0

    def add(self, obs, act, rew, next_obs):
        n = len(obs)
        idx = (self.ptr + torch.arange(n)) % self.capacity
        self.obs[idx] = torch.as_tensor(obs)
        self.act[idx] = torch.as_tensor(act)
        self.rew[idx] = torch.as_tensor(rew).unsqueeze(1)
        self.next_obs[idx] = torch.as_tensor(next_obs)
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch_size):
        idx = torch.randint(0, self.size, (batch_size,))
        return self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx]


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, max_action, hidden=64):
        super().__init__()
        self.max_action = max_action
        self.net = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, act_dim))

    def forward(self, obs):
        return self.max_action * torch.tanh(self.net(obs))


class Critic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 1))

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], dim=1))


class DDPG:
    def __init__(self, env, gamma=0.95, tau=0.02, actor_lr=1e-3, critic_lr=2e-3):
        self.actor = Actor(env.obs_dim, env.act_dim, env.max_torque)
        self.critic = Critic(env.obs_dim, env.act_dim)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=actor_lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=critic_lr)
        self.gamma, self.tau = gamma, tau

    @torch.no_grad()
    def act(self, obs, noise=0.0):
        action = self.actor(torch.as_tensor(obs))
        action = action + noise * self.actor.max_action * torch.randn_like(action)
        return action.clamp(-self.actor.max_action, self.actor.max_action).numpy()

    def update(self, batch):
        obs, act, rew, next_obs = batch
        with torch.no_grad():
            next_q = self.critic_target(next_obs, self.actor_target(next_obs))
            target_q = rew + self.gamma * next_q
        critic_loss = F.mse_loss(self.critic(obs, act), target_q)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        actor_loss = -self.critic(obs, self.actor(obs)).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()

        self.soft_update(self.actor, self.actor_target)
        self.soft_update(self.critic, self.critic_target)
        return critic_loss.item(), actor_loss.item()

    @torch.no_grad()
    def soft_update(self, net, target):
        for p, tp in zip(net.parameters(), target.parameters()):
            tp.lerp_(p, self.tau)


def evaluate(agent, seed, n=200):
    env = ServoEnv(n, seed)
    obs, done, total = env.reset(), False, np.zeros(n)
    while not done:
        obs, rew, done = env.step(agent.act(obs))
        total += rew
    return -total.mean() / env.horizon


def main(seed, total_steps=1000, warmup=60, batch_size=128):
    torch.manual_seed(seed)
    env = ServoEnv(8, seed)
    agent = DDPG(env)
    buffer = ReplayBuffer(20000, env.obs_dim, env.act_dim)
    act_rng = np.random.default_rng(seed + 7)
    obs = env.reset()
    for step in range(total_steps):
        if step < warmup:
            action = act_rng.uniform(-env.max_torque, env.max_torque, (env.n, env.act_dim)).astype(np.float32)
        else:
            action = agent.act(obs, noise=0.2)
        next_obs, rew, done = env.step(action)
        buffer.add(obs, action, rew, next_obs)
        obs = env.reset() if done else next_obs
        if step >= warmup:
            critic_loss, actor_loss = agent.update(buffer.sample(batch_size))
            if step % 200 == 0:
                print(f"step {step} critic {critic_loss:.3f} actor {actor_loss:.3f} eval {evaluate(agent, 999):.3f}")
    print(f"result {evaluate(agent, 10000 + seed):.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
