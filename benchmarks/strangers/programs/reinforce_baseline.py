# policy gradient with a learned baseline: keep a ball in the middle of a tilting track
import sys
import torch
from torch import nn
from torch.distributions import Categorical

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

N, T, ITERS = 32, 32, 300
GAMMA = 0.95
DT = 0.1
ENTROPY = 0.002


class Track:
    """n balls at once; a ball that leaves the track is over."""

    def __init__(self, n, gen=None):
        self.n, self.gen = n, gen

    def reset(self):
        self.x = (torch.rand(self.n, generator=self.gen) * 2 - 1) * 1.2
        self.v = torch.randn(self.n, generator=self.gen) * 0.4
        self.tilt = torch.zeros(self.n)
        self.alive = torch.ones(self.n)
        return self.obs()

    def obs(self):
        return torch.stack([self.x, self.v, self.tilt], dim=1)

    def step(self, action):
        self.tilt = (self.tilt + 0.5 * (action.float() - 1)).clamp(-1, 1)
        push = 2.5 * self.tilt + 0.9 * self.x
        self.v = self.v + DT * push + 0.03 * torch.randn(self.n, generator=self.gen)
        self.x = self.x + DT * self.v
        inside = (self.x.abs() < 2).float()
        reward = self.alive * (1.0 - self.x.abs() - 0.1 * self.v.abs() - 3 * (1 - inside))
        before = self.alive
        self.alive = self.alive * inside
        return self.obs(), reward, before


policy = nn.Sequential(nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 3))
value = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 1))
opt_pi = torch.optim.Adam(policy.parameters(), lr=4e-3)
opt_v = torch.optim.Adam(value.parameters(), lr=8e-3)


def rollout(env):
    obs_list, act_list, rew_list, mask_list = [], [], [], []
    obs = env.reset()
    for t in range(T):
        with torch.no_grad():
            action = Categorical(logits=policy(obs)).sample()
        nxt, reward, mask = env.step(action)
        obs_list.append(obs)
        act_list.append(action)
        rew_list.append(reward)
        mask_list.append(mask)
        obs = nxt
    return torch.stack(obs_list), torch.stack(act_list), torch.stack(rew_list), torch.stack(mask_list)


def returns_to_go(rewards):
    out = torch.zeros_like(rewards)
    acc = torch.zeros(rewards.shape[1])
    for t in reversed(range(T)):
        acc = rewards[t] + GAMMA * acc
        out[t] = acc
    return out


@torch.no_grad()
def test_cost():
    gen = torch.Generator().manual_seed(999)
    env = Track(400, gen)
    obs, total = env.reset(), 0.0
    for t in range(T):
        probs = torch.softmax(policy(obs), dim=-1)
        action = torch.multinomial(probs, 1, generator=gen).squeeze(1)
        obs, reward, mask = env.step(action)
        total += (mask - reward).sum().item() + 2 * (1 - mask).sum().item()
    return total / 400


env = Track(N)
clock = (torch.arange(T).float() / T).view(T, 1, 1).expand(T, N, 1)
for it in range(1, ITERS + 1):
    obs, act, rew, mask = rollout(env)
    ret = returns_to_go(rew)

    v = value(torch.cat([obs, clock], dim=-1)).squeeze(-1)
    v_loss = (mask * (v - ret) ** 2).sum() / mask.sum()
    opt_v.zero_grad()
    v_loss.backward()
    opt_v.step()

    adv = (ret - v).detach()
    keep = mask > 0
    adv = (adv - adv[keep].mean()) / (adv[keep].std() + 1e-6)
    dist = Categorical(logits=policy(obs))
    logp = dist.log_prob(act)
    pi_loss = -(mask * (adv * logp + ENTROPY * dist.entropy())).sum() / mask.sum()
    opt_pi.zero_grad()
    pi_loss.backward()
    opt_pi.step()

    if it % 50 == 0:
        print(f"iter {it:4d}  value loss {v_loss.item():.3f}  mean return {rew.sum(0).mean().item():.2f}  "
              f"entropy {dist.entropy().mean().item():.3f}")

print(f"result {test_cost():.4f}")
