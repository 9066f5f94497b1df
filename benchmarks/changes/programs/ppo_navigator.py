"""PPO on a vectorised point-to-goal task. The behaviour policy is a diagonal Gaussian."""
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.distributions import Normal

HP = SimpleNamespace(envs=32, horizon=64, updates=150, epochs=6, minibatches=4, gamma=0.98, lam=0.95,
                     clip=0.2, lr=3e-4, value_coef=0.5, entropy_coef=0.003, max_grad=0.5, target_kl=0.03, seed=11)

class PointWorld:
    """Positions in metres within a 20 x 20 field; reach the goal within 60 steps."""

    def __init__(self, count, seed):
        self.count, self.rng = count, torch.Generator().manual_seed(seed)
        self.position, self.goal = torch.zeros(count, 2), torch.zeros(count, 2)
        self.clock = torch.zeros(count)
        self.reset(torch.ones(count, dtype=torch.bool))

    def reset(self, which):
        n = int(which.sum())
        self.position[which] = torch.rand(n, 2, generator=self.rng) * 20
        self.goal[which] = torch.rand(n, 2, generator=self.rng) * 20
        self.clock[which] = 0

    def observe(self):
        return torch.cat([self.position, self.goal, self.clock.unsqueeze(1)], dim=1)

    def step(self, action):
        before = (self.goal - self.position).norm(dim=1)
        self.position = (self.position + action.clamp(-1, 1)).clamp(0, 20)
        after = (self.goal - self.position).norm(dim=1)
        self.clock += 1
        reached = after < 1.0
        progress = before - after
        reward = progress + 5.0 * reached.float() - 0.05
        done = reached | (self.clock >= 60)
        if done.any():
            self.reset(done)
        return self.observe(), reward, done.float(), reached.float()

def scale_observation(obs):
    centre, spread = torch.tensor([10.0] * 4 + [30.0]), torch.tensor([6.0] * 4 + [18.0])
    return (obs - centre) / spread

def layer(n_in, n_out, gain=2 ** 0.5):
    linear = nn.Linear(n_in, n_out)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear

class ActorCritic(nn.Module):
    def __init__(self, obs_dim=5, act_dim=2, hidden=64):
        super().__init__()
        self.actor = nn.Sequential(layer(obs_dim, hidden), nn.Tanh(), layer(hidden, hidden), nn.Tanh(),
                                   layer(hidden, act_dim, gain=0.01))
        self.critic = nn.Sequential(layer(obs_dim, hidden), nn.Tanh(), layer(hidden, hidden), nn.Tanh(),
                                    layer(hidden, 1, gain=1.0))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def forward(self, obs):
        obs = scale_observation(obs)
        return Normal(self.actor(obs), self.log_std.exp()), self.critic(obs).squeeze(-1)

class PPO:
    def __init__(self, hp):
        self.hp, self.net = hp, ActorCritic()
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=hp.lr, eps=1e-5)
        self.world = PointWorld(hp.envs, hp.seed)
        self.obs = self.world.observe()

    @torch.no_grad()
    def collect(self):
        store, wins = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}, 0.0
        for _ in range(self.hp.horizon):
            dist, value = self.net(self.obs)
            action = dist.sample()
            nxt, reward, done, reached = self.world.step(action)
            wins += reached.sum().item()
            for key, item in zip(store, (self.obs, action, dist.log_prob(action).sum(-1), value, reward, done)):
                store[key].append(item)
            self.obs = nxt
        batch = {k: torch.stack(v) for k, v in store.items()}
        last_value = self.net(self.obs)[1]
        batch["adv"] = self.advantages(batch, last_value)
        batch["ret"] = batch["adv"] + batch["val"]
        return {k: v.flatten(0, 1) for k, v in batch.items()}, wins

    def advantages(self, batch, next_value):
        adv, running = torch.zeros_like(batch["rew"]), torch.zeros(self.hp.envs)
        for t in reversed(range(self.hp.horizon)):
            alive = 1.0 - batch["done"][t]
            delta = batch["rew"][t] + self.hp.gamma * next_value * alive - batch["val"][t]
            running = delta + self.hp.gamma * self.hp.lam * alive * running
            adv[t], next_value = running, batch["val"][t]
        return adv

    def improve(self, batch):
        hp, total = self.hp, batch["obs"].size(0)
        for _ in range(hp.epochs):
            for idx in torch.randperm(total).chunk(hp.minibatches):
                dist, value = self.net(batch["obs"][idx])
                logp = dist.log_prob(batch["act"][idx]).sum(-1)
                ratio = (logp - batch["logp"][idx]).exp()
                adv = batch["adv"][idx]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                surrogate = torch.min(ratio * adv, ratio.clamp(1 - hp.clip, 1 + hp.clip) * adv)
                value_loss = 0.5 * (value - batch["ret"][idx]).pow(2).mean()
                entropy = dist.entropy().sum(-1).mean()
                loss = -surrogate.mean() + hp.value_coef * value_loss - hp.entropy_coef * entropy
                self.optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), hp.max_grad)
                self.optimiser.step()
            kl = ((ratio - 1) - ratio.log()).mean().item()
            if kl > hp.target_kl:
                break
        return loss.item(), kl

    def learn(self):
        for update in range(self.hp.updates):
            for group in self.optimiser.param_groups:
                group["lr"] = self.hp.lr * (1 - update / self.hp.updates)
            batch, wins = self.collect()
            loss, kl = self.improve(batch)
            print(f"update {update}: goals {wins:.0f} reward {batch['rew'].mean():.3f} loss {loss:.3f} kl {kl:.4f}")

if __name__ == "__main__":
    torch.manual_seed(HP.seed)
    PPO(HP).learn()
