"""Advantage actor-critic, one optimizer, shared body, on a bandit-like corridor task."""

import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


class Corridor:
    """A cue at the start tells at which end the reward lies; nine cells, start in the middle."""

    def reset(self):
        self.cell, self.cue, self.t = 4, int(torch.randint(0, 2, (1,))), 0
        return self.state()

    def state(self):
        s = torch.zeros(11)
        s[self.cell] = 1.0
        s[9 + self.cue] = 1.0
        return s

    def step(self, action):
        self.cell += 1 if action == 1 else -1
        self.t += 1
        if self.cell in (0, 8):
            return self.state(), 1.0 if (self.cell == 8) == (self.cue == 1) else -1.0, True
        return self.state(), -0.03, self.t >= 40


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(11, 64)
        self.action_head = nn.Linear(64, 2)
        self.value_head = nn.Linear(64, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model, env = Policy(), Corridor()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
totals = []
for episode in range(900):
    state, log_probs, values, rewards, done = env.reset(), [], [], [], False
    while not done:
        probs, value = model(state)
        m = Categorical(probs)
        action = m.sample()
        state, reward, done = env.step(action.item())
        log_probs.append(m.log_prob(action))
        values.append(value.squeeze())
        rewards.append(reward)
    R, returns = 0.0, []
    for r in rewards[::-1]:
        R = r + 0.97 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    values = torch.stack(values)
    advantage = returns - values.detach()
    policy_loss = -(torch.stack(log_probs) * advantage).sum()
    value_loss = F.smooth_l1_loss(values, returns, reduction="sum")
    optimizer.zero_grad()
    (policy_loss + value_loss).backward()
    optimizer.step()
    totals.append(sum(rewards))
    if episode % 150 == 0:
        print(f"Episode {episode}\tLast reward: {totals[-1]:.2f}")
print("result", -sum(totals[-200:]) / 200)
