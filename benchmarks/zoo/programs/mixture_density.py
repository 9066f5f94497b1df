"""Mixture density network, a notebook turned script: the inverse of a wavy function has several answers."""

# %%
import sys
import math
import torch
import torch.nn as nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
g = torch.Generator().manual_seed(seed)
torch.manual_seed(seed)

# %%
t = torch.rand(3000, 1, generator=g)
x_all = t + 0.3 * torch.sin(2 * math.pi * t) + 0.05 * torch.randn(3000, 1, generator=g)
x_train, t_train, x_val, t_val = x_all[:2500], t[:2500], x_all[2500:], t[2500:]

# %%
K = 5
trunk = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
pi_head = nn.Linear(48, K)
mu_head = nn.Linear(48, K)
sigma_head = nn.Linear(48, K)
modules = nn.ModuleList([trunk, pi_head, mu_head, sigma_head])


def nll(x, y):
    h = trunk(x)
    log_pi = torch.log_softmax(pi_head(h), dim=1)
    mu = mu_head(h)
    sigma = torch.exp(sigma_head(h)).clamp(min=1e-3)
    log_prob = -0.5 * ((y - mu) / sigma) ** 2 - torch.log(sigma) - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(log_pi + log_prob, dim=1).mean()


# %%
opt = torch.optim.Adam(modules.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 1200)
history = []
for epoch in range(1200):
    idx = torch.randint(0, 2500, (256,), generator=g)
    opt.zero_grad()
    loss = nll(x_train[idx], t_train[idx])
    loss.backward()
    opt.step()
    sched.step()
    history.append(loss.item())
    if epoch % 200 == 0:
        print(f"{epoch:5d} {loss.item():.4f}")

# %%
with torch.no_grad():
    print("result", nll(x_val, t_val).item())
