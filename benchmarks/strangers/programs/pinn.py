import json
import numpy as np
import torch
from torch import nn
from torch.autograd import grad

torch.set_num_threads(1)
torch.manual_seed(42)

# heat equation u_t = K u_xx on x in [0, 2], t in [0, 1.5], u(0,t) = u(2,t) = 0
K, L, T_END = 0.15, 2.0, 1.5
N_F, N_B, N_I = 256, 64, 128
STEPS = 1400


def exact(x, t):
    w = np.pi / L
    return (torch.sin(w * x) * torch.exp(-K * w ** 2 * t)
            + 0.6 * torch.sin(3 * w * x) * torch.exp(-K * 9 * w ** 2 * t))


def u0(x):
    return exact(x, torch.zeros_like(x))


class PINN(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        dims = [2] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.act = nn.Tanh()
        self.last = nn.Linear(width, 1)
        for lin in [*self.hidden, self.last]:
            nn.init.xavier_normal_(lin.weight)
            nn.init.zeros_(lin.bias)

    def forward(self, xt):
        h = xt
        for lin in self.hidden:
            h = self.act(lin(h))
        return self.last(h)


def scale(x, t):
    return torch.cat([2 * x / L - 1, 2 * t / T_END - 1], dim=1)


net = PINN()


def u_net(x, t):
    return net(scale(x, t))


def residual(x, t):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = u_net(x, t)
    one = torch.ones_like(u)
    u_x, u_t = grad(u, (x, t), one, create_graph=True)
    u_xx = grad(u_x, x, one, create_graph=True)[0]
    return u_t - K * u_xx


opt = torch.optim.Adam(net.parameters(), lr=4e-3)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.998)

for step in range(1, STEPS + 1):
    xf, tf = L * torch.rand(N_F, 1), T_END * torch.rand(N_F, 1)
    xb, tb = L * torch.randint(0, 2, (N_B, 1)).float(), T_END * torch.rand(N_B, 1)
    xi = L * torch.rand(N_I, 1)

    opt.zero_grad()
    loss_f = (residual(xf, tf) ** 2).mean()
    loss_b = (u_net(xb, tb) ** 2).mean()
    loss_i = ((u_net(xi, torch.zeros_like(xi)) - u0(xi)) ** 2).mean()
    loss_f.backward()
    (10 * loss_b + 10 * loss_i).backward()
    opt.step()
    sched.step()

    if step % 200 == 0 or step == 1:
        print(f"{step:5d}  f {loss_f.item():.3e}  b {loss_b.item():.3e}  i {loss_i.item():.3e}")

gx, gt = torch.meshgrid(torch.linspace(0, L, 101), torch.linspace(0, T_END, 61), indexing="ij")
gx, gt = gx.reshape(-1, 1), gt.reshape(-1, 1)
with torch.no_grad():
    ref = exact(gx, gt)
    err = ((u_net(gx, gt) - ref).norm() / ref.norm()).item()
print("RESULT " + json.dumps({"metric": "relative_l2", "value": err, "better": "lower"}))
