# Physics-informed network for u_t = D u_xx + f on (0,1)x(0,1), Dirichlet walls.
import sys, math, time
import torch
from torch import nn

D = 0.1


def exact(xt):
    x, t = xt[:, 0:1], xt[:, 1:2]
    return torch.exp(-t) * torch.sin(math.pi * x) + 0.5 * t * torch.sin(2 * math.pi * x)


def forcing(xt):
    x, t = xt[:, 0:1], xt[:, 1:2]
    a, b = torch.sin(math.pi * x), torch.sin(2 * math.pi * x)
    u_t = -torch.exp(-t) * a + 0.5 * b
    u_xx = -math.pi ** 2 * torch.exp(-t) * a - 4 * math.pi ** 2 * 0.5 * t * b
    return u_t - D * u_xx


class Field(nn.Module):
    def __init__(self, width=40, depth=3):
        super().__init__()
        sizes = [2] + [width] * depth
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.Tanh()]
        self.body = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, xt):
        return self.body(2 * xt - 1)


def residual(net, xt):
    xt = xt.requires_grad_(True)
    u = net(xt)
    ones = torch.ones_like(u)
    du = torch.autograd.grad(u, xt, ones, create_graph=True)[0]
    u_x, u_t = du[:, 0:1], du[:, 1:2]
    u_xx = torch.autograd.grad(u_x, xt, ones, create_graph=True)[0][:, 0:1]
    return u_t - D * u_xx - forcing(xt)


class Solver:
    def __init__(self, seed, steps=1300, n_in=256, n_bc=64):
        torch.manual_seed(seed)
        self.net = Field()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=4e-3)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=steps)
        self.steps, self.n_in, self.n_bc = steps, n_in, n_bc

    def losses(self):
        inside = torch.rand(self.n_in, 2)
        pde = residual(self.net, inside).pow(2).mean()
        x0 = torch.rand(self.n_bc)
        start = torch.stack([x0, torch.zeros_like(x0)], 1)
        u0 = torch.sin(math.pi * x0).unsqueeze(1)
        ic = (self.net(start) - u0).pow(2).mean()
        tb = torch.rand(self.n_bc)
        side = torch.randint(0, 2, (self.n_bc,)).float()
        bc = self.net(torch.stack([side, tb], 1)).pow(2).mean()
        return pde, ic, bc

    def error(self):
        g = torch.linspace(0, 1, 41)
        xt = torch.cartesian_prod(g, g)
        with torch.no_grad():
            u, v = self.net(xt), exact(xt)
        return ((u - v).norm() / v.norm()).item()

    def fit(self):
        for i in range(self.steps):
            pde, ic, bc = self.losses()
            loss = pde + 10 * ic + 10 * bc
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            if i % 200 == 0 or i == self.steps - 1:
                print("%5d  pde %.5f  ic %.6f  bc %.6f  rel err %.4f" % (i, pde.item(), ic.item(), bc.item(), self.error()))


if __name__ == "__main__":
    s = Solver(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    s.fit()
    print("result", s.error())
