"""TD3 on a point mass that has to be brought to the origin."""
import copy
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HYPER = dict(total_steps=8000, warm_steps=500, batch=128, gamma=0.98, tau=0.005, lr=1e-3,
             policy_noise=0.2, noise_clip=0.5, explore=0.1, delay=2, seed=3)
OBS_DIM, ACT_DIM = 4, 2

class PointMass:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.position, self.velocity, self.clock = self.rng.uniform(-1, 1, 2), np.zeros(2), 0
        return self.observe()

    def observe(self):
        return np.concatenate([self.position, self.velocity])

    def step(self, action):
        self.velocity = 0.9 * self.velocity + 0.1 * np.clip(action, -1, 1)
        self.position = self.position + 0.2 * self.velocity
        self.clock += 1
        distance = np.linalg.norm(self.position)
        reached, lost = distance < 0.05, distance > 3.0
        reward = -distance - 0.01 * float(np.square(action).sum()) + 5.0 * reached - 5.0 * lost
        return self.observe(), reward, bool(reached or lost), self.clock >= 80

class ReplayMemory:
    def __init__(self, capacity):
        self.obs = np.zeros((capacity, OBS_DIM), dtype=np.float32)
        self.act = np.zeros((capacity, ACT_DIM), dtype=np.float32)
        self.rew = np.zeros(capacity, dtype=np.float32)
        self.nxt = np.zeros((capacity, OBS_DIM), dtype=np.float32)
        self.end = np.zeros(capacity, dtype=np.float32)
        self.capacity, self.size = capacity, 0

    def store(self, obs, act, rew, nxt, end):
        i = self.size % self.capacity
        self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.end[i] = obs, act, rew, nxt, end
        self.size += 1

    def sample(self, rng, n):
        i = rng.integers(0, min(self.size, self.capacity), n)
        obs, act, nxt = (torch.from_numpy(a[i]) for a in (self.obs, self.act, self.nxt))
        rew, end = (torch.from_numpy(a[i]).unsqueeze(1) for a in (self.rew, self.end))
        return obs, act, rew, nxt, end

def mlp(n_in, n_out, n_hidden=128):
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.ReLU(),
                         nn.Linear(n_hidden, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_out))

class TwinCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = mlp(OBS_DIM + ACT_DIM, 1), mlp(OBS_DIM + ACT_DIM, 1)

    def forward(self, obs, act):
        joint = torch.cat([obs, act], dim=1)
        return self.first(joint), self.second(joint)

class Agent:
    def __init__(self, hp):
        self.hp, self.updates = hp, 0
        self.actor = nn.Sequential(mlp(OBS_DIM, ACT_DIM), nn.Tanh())
        self.critic = TwinCritic()
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=hp["lr"])
        self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), lr=hp["lr"])

    @torch.no_grad()
    def policy(self, obs):
        return self.actor(torch.as_tensor(obs, dtype=torch.float32))

    @torch.no_grad()
    def bellman_target(self, rew, nxt, end):
        act = self.actor_target(nxt)
        noise = (torch.randn_like(act) * self.hp["policy_noise"]).clamp(-self.hp["noise_clip"], self.hp["noise_clip"])
        q1, q2 = self.critic_target(nxt, (act + noise).clamp(-1, 1))
        return rew + self.hp["gamma"] * (1 - end) * torch.min(q1, q2)

    def follow(self, target, online):
        with torch.no_grad():
            for tp, p in zip(target.parameters(), online.parameters()):
                tp.lerp_(p, self.hp["tau"])

    def update(self, obs, act, rew, nxt, end):
        goal = self.bellman_target(rew, nxt, end)
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, goal) + F.mse_loss(q2, goal)
        self.critic_optimiser.zero_grad()
        critic_loss.backward()
        self.critic_optimiser.step()
        self.updates += 1
        if self.updates % self.hp["delay"] == 0:
            actor_loss = -self.critic(obs, self.actor(obs))[0].mean()
            self.actor_optimiser.zero_grad()
            actor_loss.backward()
            self.actor_optimiser.step()
            self.follow(self.actor_target, self.actor)
            self.follow(self.critic_target, self.critic)
        return critic_loss.item()

def run(hp):
    torch.manual_seed(hp["seed"])
    rng = np.random.default_rng(hp["seed"])
    env, agent, memory = PointMass(rng), Agent(hp), ReplayMemory(20000)
    obs, episode_return, returns, loss = env.reset(), 0.0, [], 0.0
    for step in range(hp["total_steps"]):
        if step < hp["warm_steps"]:
            action = rng.uniform(-1, 1, ACT_DIM)
        else:
            action = (agent.policy(obs).numpy() + hp["explore"] * rng.normal(size=ACT_DIM)).clip(-1, 1)
        new_obs, reward, terminal, timeout = env.step(action)
        memory.store(obs, action, reward, new_obs, terminal)
        episode_return += reward
        obs = new_obs
        if terminal or timeout:
            returns.append(episode_return)
            obs, episode_return = env.reset(), 0.0
        if step >= hp["warm_steps"]:
            loss = agent.update(*memory.sample(rng, hp["batch"]))
        if step % 500 == 499:
            print(f"step {step + 1} critic loss {loss:.4f} return {np.mean(returns[-10:]):.2f}")

if __name__ == "__main__":
    run(HYPER)
