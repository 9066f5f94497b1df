"""
Surrogate for a small thermal ODE (lumped body: convection + radiation + pulsed heater).

(T0, Ta, h, eps, q, w)  ->  body temperature after 10 time units [K]

The net is so small that launch overhead dominates, hence the whole training step (gather, forward, backward, Adam, EMA)
is captured into one CUDA graph and replayed. Without a GPU the very same function is called eagerly.
"""
import copy
import math
import time

import torch
import torch.nn as nn

DEV = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = DEV.type == "cuda"
STEPS, BATCH, POOL = 1000, 128, 16384
LR_MAX, LR_START, WARM = 6e-3, 2e-5, 50
EMA_DECAY = 0.99
torch.manual_seed(3)

LOW = torch.tensor([291.0, 291.0, 0.02, 0.10, -0.8, 0.3], device=DEV)
HIGH = torch.tensor([297.0, 296.0, 0.25, 0.95, 0.8, 1.1], device=DEV)


# ---------------------------------------------------------------- simulator
def rhs(T, t, p):
    Ta, h, eps, q, w = p.unbind(-1)
    radiation = eps * 0.12 * ((T / 293.0) ** 4 - (Ta / 293.0) ** 4)
    return -h * (T - Ta) - radiation * 20.0 + q * torch.cos(w * t)


def simulate(params, n=80, horizon=10.0):
    z = params.double()
    T, p, dt = z[:, 0], z[:, 1:], horizon / n
    for i in range(n):
        t = i * dt
        k1 = rhs(T, t, p)
        k2 = rhs(T + 0.5 * dt * k1, t + 0.5 * dt, p)
        k3 = rhs(T + 0.5 * dt * k2, t + 0.5 * dt, p)
        k4 = rhs(T + dt * k3, t + dt, p)
        T = T + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return T.float().unsqueeze(1)


def sample(n):
    params = LOW + (HIGH - LOW) * torch.rand(n, 6, device=DEV)
    return params, simulate(params)


pool_x, pool_y = sample(POOL)
test_x, test_y = sample(4096)


# ---------------------------------------------------------------- network
class Surrogate(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.register_buffer("x_mid", (LOW + HIGH) / 2)
        self.register_buffer("x_half", (HIGH - LOW) / 2)
        self.register_buffer("y_mean", pool_y.float().mean(0))
        self.register_buffer("y_std", pool_y.float().std(0))
        self.mlp = nn.Sequential(
            nn.Linear(6, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.mlp((x - self.x_mid) / self.x_half)  # in units of y_std

    def kelvin(self, x):
        return self(x) * self.y_std + self.y_mean


class GraphedTrainer:
    """Owns the static buffers; `run()` is either a graph replay or the eager body."""

    def __init__(self, net):
        self.net = net
        self.ema = copy.deepcopy(net).requires_grad_(False)
        self.lr = torch.tensor(LR_START, device=DEV)
        self.opt = torch.optim.Adam(net.mlp.parameters(), lr=self.lr, capturable=ON_GPU)
        self.index = torch.arange(BATCH, device=DEV)
        self.loss = torch.zeros((), device=DEV)
        self._capture()

    def _body(self, index, ema, live):
        x, y = pool_x[index], pool_y[index]
        err = self.net(x) - (y - self.net.y_mean) / self.net.y_std
        loss = err.square().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        torch._foreach_lerp_(ema, live, 1 - EMA_DECAY)
        self.loss.copy_(loss.detach())

    def _capture(self):
        index, ema, live = self.index, list(self.ema.mlp.parameters()), [p.detach() for p in self.net.mlp.parameters()]
        if not ON_GPU:
            self.run = lambda: self._body(index, ema, live)
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._body(index, ema, live)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._body(index, ema, live)
        self.run = self.graph.replay

    def set_lr(self, value):
        self.lr.fill_(value)

    def feed(self, batch):
        self.index.copy_(batch)


def lr_at(step):
    if step < WARM:
        return LR_START + (LR_MAX - LR_START) * step / WARM
    return LR_START + 0.5 * (LR_MAX - LR_START) * (1 + math.cos(math.pi * (step - WARM) / (STEPS - WARM)))


@torch.no_grad()
def rmse(net):
    return (net.kelvin(test_x) - test_y).square().mean().sqrt().item()


trainer = GraphedTrainer(Surrogate().to(DEV))
print(f"device {DEV}, target mean {pool_y.float().mean():.2f} K, std {test_y.std():.3f} K")
tic, ptr, perm = time.perf_counter(), POOL, None
for step in range(STEPS):
    if ptr + BATCH > POOL:
        perm, ptr = torch.randperm(POOL, device=DEV), 0
    trainer.feed(perm[ptr : ptr + BATCH])
    ptr += BATCH
    trainer.set_lr(lr_at(step))
    trainer.run()
    if step % 200 == 0 or step == STEPS - 1:
        print(f"[{step:4d}] loss {trainer.loss.item():.3e}  rmse live {rmse(trainer.net):.4f} K  ema {rmse(trainer.ema):.4f} K")

print(f"took {time.perf_counter() - tic:.1f}s")
print(f"final: test RMSE of the EMA weights {rmse(trainer.ema):.4f} K (std of the target {test_y.std():.3f} K)")
