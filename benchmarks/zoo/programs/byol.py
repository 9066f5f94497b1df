"""BYOL: online and target network, EMA of the weights, stop gradient."""

import copy
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
prototypes = 0.7 * torch.randn(8, 12)
mixing = torch.randn(40, 48) / 6


def draw(n):
    y = torch.randint(0, 8, (n,))
    return prototypes[y] + 0.3 * torch.randn(n, 12), y


def augment(c):
    return torch.cat([c + 0.1 * torch.randn_like(c), 1.6 * torch.randn(len(c), 28)], 1) @ mixing


def MLP(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(inplace=True), nn.Linear(h, o))


class BYOL(nn.Module):
    def __init__(self, m=0.99):
        super().__init__()
        self.m = m
        self.online_encoder = nn.Sequential(MLP(48, 96, 64), nn.ReLU(), MLP(64, 96, 32))
        self.online_predictor = MLP(32, 64, 32)
        self.target_encoder = copy.deepcopy(self.online_encoder)
        for p in self.target_encoder.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update_target(self):
        for o, t in zip(self.online_encoder.parameters(), self.target_encoder.parameters()):
            t.data = self.m * t.data + (1 - self.m) * o.data

    def forward(self, a, b):
        pa, pb = self.online_predictor(self.online_encoder(a)), self.online_predictor(self.online_encoder(b))
        with torch.no_grad():
            ta, tb = self.target_encoder(a), self.target_encoder(b)
        la = 2 - 2 * F.cosine_similarity(pa, tb.detach(), dim=-1)
        lb = 2 - 2 * F.cosine_similarity(pb, ta.detach(), dim=-1)
        return (la + lb).mean()


learner = BYOL()
opt = torch.optim.Adam([p for p in learner.parameters() if p.requires_grad], lr=1e-3)
for i in range(900):
    c, _ = draw(128)
    loss = learner(augment(c), augment(c))
    opt.zero_grad()
    loss.backward()
    opt.step()
    learner.update_target()
    if i % 150 == 0:
        print(i, loss.item())

learner.eval()
with torch.no_grad():
    c, y = draw(1200)
    z = learner.online_encoder[0](augment(c))
    centroid = torch.stack([z[:600][y[:600] == k].mean(0) for k in range(8)])
    error = (torch.cdist(z[600:], centroid).argmin(1) != y[600:]).float().mean().item()
print("result", error)
