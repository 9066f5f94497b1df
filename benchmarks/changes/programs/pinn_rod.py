"""Physics-informed network: temperature of a cooling rod, and its diffusivity from a few sensors.

    u_t = nu * u_xx  on 0 <= x <= 10 cm, 0 <= t <= 30 s,  u = 0 at both ends
"""
import math
import sys

import torch
import torch.nn as nn

LENGTH = 10.0
T_END = 30.0
TRUE_NU = 0.97
N_COLLOCATION = 512
N_EDGE = 128
N_SENSOR = 200
ITERATIONS = 6000
LEARNING_RATE = 2e-3
W_EDGE, W_START, W_SENSOR = 5.0, 10.0, 10.0


def start_profile(x):
    return torch.sin(math.pi * x / LENGTH) + 0.5 * torch.sin(3 * math.pi * x / LENGTH)


def exact(x, t):
    k = math.pi / LENGTH
    return (torch.exp(-TRUE_NU * k ** 2 * t) * torch.sin(k * x)
            + 0.5 * torch.exp(-TRUE_NU * 9 * k ** 2 * t) * torch.sin(3 * k * x))


class RodNet(nn.Module):
    def __init__(self, width=48, depth=4):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.body = nn.Sequential(*layers)
        for m in self.body:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x, t):
        scaled_x = 2.0 * x / LENGTH - 1.0
        scaled_t = 2.0 * t / T_END - 1.0
        return self.body(torch.cat([scaled_x, scaled_t], dim=1))


def derivative(y, x):
    return torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)[0]


def residual(net, nu, x, t):
    u = net(x, t)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_t - nu * u_xx


def uniform(n, high, gen):
    return torch.rand(n, 1, generator=gen) * high


def sensor_readings(gen):
    x, t = uniform(N_SENSOR, LENGTH, gen), uniform(N_SENSOR, T_END, gen)
    return x, t, exact(x, t) + 0.01 * torch.randn(N_SENSOR, 1, generator=gen)


def relative_error(net):
    x, t = torch.meshgrid(torch.linspace(0, LENGTH, 41), torch.linspace(0, T_END, 31), indexing="ij")
    x, t = x.reshape(-1, 1), t.reshape(-1, 1)
    with torch.no_grad():
        return ((net(x, t) - exact(x, t)).norm() / exact(x, t).norm()).item()


def train(seed=0):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed)
    net = RodNet()
    log_nu = nn.Parameter(torch.tensor(math.log(0.3)))
    sensor_x, sensor_t, sensor_u = sensor_readings(gen)
    optimiser = torch.optim.Adam([{"params": net.parameters()}, {"params": [log_nu], "lr": 5e-3}],
                                 lr=LEARNING_RATE)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimiser, gamma=0.85)

    for iteration in range(1, ITERATIONS + 1):
        x = uniform(N_COLLOCATION, LENGTH, gen).requires_grad_(True)
        t = uniform(N_COLLOCATION, T_END, gen).requires_grad_(True)
        loss_physics = residual(net, log_nu.exp(), x, t).pow(2).mean()

        edge_t = uniform(N_EDGE, T_END, gen)
        left, right = torch.zeros_like(edge_t), torch.full_like(edge_t, LENGTH)
        loss_edge = net(left, edge_t).pow(2).mean() + net(right, edge_t).pow(2).mean()

        start_x = uniform(N_EDGE, LENGTH, gen)
        start_u = net(start_x, torch.zeros_like(start_x))
        loss_start = (start_u - start_profile(start_x)).pow(2).mean()

        loss_sensor = (net(sensor_x, sensor_t) - sensor_u).pow(2).mean()
        loss = loss_physics + W_EDGE * loss_edge + W_START * loss_start + W_SENSOR * loss_sensor

        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if iteration % 500 == 0:
            decay.step()
            print(f"{iteration:6d} loss {loss.item():.3e} physics {loss_physics.item():.3e} "
                  f"nu {log_nu.exp().item():.4f} error {relative_error(net):.4f}")
    return net


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
