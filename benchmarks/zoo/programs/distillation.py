"""Knowledge distillation: a wide teacher, a narrow student, temperature four."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
centres = torch.randn(20, 24)


def draw(n):
    which = torch.randint(0, 20, (n,))
    return centres[which] + 0.9 * torch.randn(n, 24), which % 6


def net(width):
    return nn.Sequential(nn.Linear(24, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 6))


teacher, student = net(192), net(24)
opt = torch.optim.Adam(teacher.parameters(), lr=1e-3)
for step in range(500):
    x, y = draw(128)
    loss = F.cross_entropy(teacher(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
teacher.eval()
T, alpha = 4.0, 0.7
opt = torch.optim.Adam(student.parameters(), lr=2e-3)
for step in range(900):
    x, y = draw(128)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / T, dim=1)
    out = student(x)
    kd = F.kl_div(F.log_softmax(out / T, dim=1), soft, reduction="batchmean") * T * T
    loss = alpha * kd + (1 - alpha) * F.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 200 == 0:
        print(step, loss.item())
student.eval()
with torch.no_grad():
    x, y = draw(4000)
    print("result", F.cross_entropy(student(x), y).item())
