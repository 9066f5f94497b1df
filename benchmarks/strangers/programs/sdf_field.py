"""Neural signed distance field from oriented points (IGR style), 2-D.

The net sees pixel-like world coordinates (metres, +-EXTENT) and normalises them itself; it is fitted to points and normals
of a curve, with an eikonal term on |df/dx| at points drawn by importance from a cell grid that is refreshed from the
field itself. First derivatives are by torch.func (vmap of grad over the stateless module).
"""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(42)

EXTENT = 2.0
STEPS, N_SURF, N_FREE = 600, 192, 192
GRID, REFRESH = 32, 25
LAMBDA_EIK, LAMBDA_NRM, LAMBDA_OFF = 0.15, 0.3, 0.3


def true_radius(a):
    return 1.05 + 0.22 * torch.cos(3 * a) + 0.08 * torch.sin(5 * a)


def curve(n):
    """points on the outline with outward normals, both made on the device"""
    a = 2 * math.pi * torch.rand(n, device=device)
    r = true_radius(a)
    dr = -0.66 * torch.sin(3 * a) + 0.40 * torch.cos(5 * a)
    p = torch.stack([r * a.cos(), r * a.sin()], -1)
    tangent = torch.stack([dr * a.cos() - r * a.sin(), dr * a.sin() + r * a.cos()], -1)
    nrm = F.normalize(torch.stack([tangent[:, 1], -tangent[:, 0]], -1), dim=-1)
    return p + 0.004 * torch.randn_like(p), nrm


class Field(nn.Module):
    def __init__(self, n_freq=5, width=64):
        super().__init__()
        self.register_buffer("bands", math.pi * 2.0 ** torch.arange(-1, n_freq - 1))
        self.lin1 = nn.Linear(2 + 4 * n_freq, width)
        self.lin2 = nn.Linear(width, width)
        self.lin3 = nn.Linear(width, width)
        self.lin4 = nn.Linear(width, 1)
        with torch.no_grad():  # the fine bands enter softly at first
            self.lin1.weight[:, 2:] *= (0.6 ** torch.arange(n_freq)).repeat(4)

    def forward(self, x):
        u = x / EXTENT
        b = u[..., None] * self.bands
        enc = torch.cat([u, b.sin().flatten(-2), b.cos().flatten(-2)], -1)
        h = F.softplus(self.lin1(enc), beta=30)
        h = F.softplus(self.lin2(h), beta=30)
        h = F.softplus(self.lin3(h), beta=30)
        return EXTENT * self.lin4(h).squeeze(-1)


field = Field().to(device)


def value(params, x):
    return functional_call(field, params, (x,))


value_and_slope = vmap(torch.func.grad_and_value(value, argnums=1), in_dims=(None, 0))


class ImportanceGrid:
    """cells with |f| small are drawn more often; every cell keeps a floor so that nothing is forgotten"""

    def __init__(self):
        c = (torch.arange(GRID, device=device) + 0.5) / GRID * 2 - 1
        yy, xx = torch.meshgrid(c, c, indexing="ij")
        self.centre = EXTENT * torch.stack([xx, yy], -1).reshape(-1, 2)
        self.prob = torch.full((GRID * GRID,), 1.0 / GRID ** 2, device=device)

    @torch.no_grad()
    def refresh(self):
        w = torch.exp(-field(self.centre).abs() / 0.2) + 0.1
        self.prob = 0.5 * self.prob + 0.5 * w / w.sum()

    def draw(self, n):
        i = torch.multinomial(self.prob, n, replacement=True)
        x = self.centre[i] + (torch.rand(n, 2, device=device) * 2 - 1) * (EXTENT / GRID)
        weight = 1.0 / (self.prob[i] * GRID ** 2)
        return x, weight.clamp(max=4.0)


opt = torch.optim.AdamW(field.parameters(), lr=4e-3, weight_decay=0.0, betas=(0.9, 0.98), fused=device == "cuda")
sched = torch.optim.lr_scheduler.SequentialLR(
    opt, [torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=20), torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS - 20, 4e-5)], [20])
grid = ImportanceGrid()
shadow = {k: v.detach().clone() for k, v in field.named_parameters()}  # EMA, float32
surf, normal = torch.empty(N_SURF, 2, device=device), torch.empty(N_SURF, 2, device=device)
tic = time.time()
for step in range(STEPS):
    p, n = curve(N_SURF)
    surf.copy_(p)
    normal.copy_(n)
    free, weight = grid.draw(N_FREE)
    params = dict(field.named_parameters())
    params["bands"] = field.bands
    g, f = value_and_slope(params, torch.cat([surf, free]))
    f_s, f_f, g_s = f[:N_SURF], f[N_SURF:], g[:N_SURF]
    loss_surf = f_s.abs().mean()
    loss_nrm = (1 - F.cosine_similarity(g_s, normal, dim=-1)).mean()
    eik = (g.norm(dim=-1) - 1).pow(2)
    loss_eik = eik[:N_SURF].mean() + (weight * eik[N_SURF:]).mean()
    loss_off = (weight * torch.exp(-20 * f_f.abs())).mean()
    loss = 2 * loss_surf + LAMBDA_NRM * loss_nrm + LAMBDA_EIK * loss_eik + LAMBDA_OFF * loss_off
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(field.parameters(), 1.0, foreach=True)
    opt.step()
    sched.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(shadow.values()), [v.detach() for v in field.parameters()], 0.03)
    if step % REFRESH == 0:
        grid.refresh()
    if step % 75 == 0 or step == STEPS - 1:
        print(f"{step:4d} loss {loss.item():.4f} surf {loss_surf.item():.4f} normal {loss_nrm.item():.4f} eikonal {loss_eik.item():.4f}")

# evaluation against the true outline
field.load_state_dict({**shadow, "bands": field.bands})
with torch.no_grad():
    c = torch.linspace(-1.9, 1.9, 96, device=device)
    q = torch.stack(torch.meshgrid(c, c, indexing="xy"), -1).reshape(-1, 2)
    a = torch.linspace(0, 2 * math.pi, 1500, device=device)
    outline = torch.stack([true_radius(a) * a.cos(), true_radius(a) * a.sin()], -1)
    inside = q.norm(dim=-1) < true_radius(torch.atan2(q[:, 1], q[:, 0]))
    sdf = torch.cdist(q, outline).amin(1) * torch.where(inside, -1.0, 1.0)
    pred = field(q)
    near = sdf.abs() < 0.5
    mae = (pred - sdf)[near].abs().mean().item()
    iou = ((pred < 0) & inside).sum().item() / ((pred < 0) | inside).sum().item()
    tp, tn = curve(1000)
    g, _ = value_and_slope({**dict(field.named_parameters()), "bands": field.bands}, tp)
    deg = torch.rad2deg(torch.acos(F.cosine_similarity(g, tn, dim=-1).clamp(-1, 1))).mean().item()
print(f"done in {time.time() - tic:.1f}s")
print(f"FINAL iou {iou:.4f} distance error {mae:.4f} normal error {deg:.2f} deg")
