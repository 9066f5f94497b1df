"""REINFORCE with a moving baseline on a contextual bandit; the loss is not bounded from below."""

import sys

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
best = torch.randn(12, 5)
policy = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 5))
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
baseline, kept = 0.0, []
for step in range(1500):
    context = torch.randn(64, 12)
    choice = Categorical(logits=policy(context))
    action = choice.sample()
    reward = ((context @ best).argmax(1) == action).float() + 0.1 * torch.randn(64)
    loss = -(choice.log_prob(action) * (reward - baseline)).mean() - 0.01 * choice.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    baseline = 0.95 * baseline + 0.05 * reward.mean().item()
    kept.append(reward.mean().item())
    if step % 300 == 0:
        print(step, kept[-1])
print("result", -sum(kept[-200:]) / 200)
