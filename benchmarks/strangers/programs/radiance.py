"""A radiance field of a flat scene: cameras around a table see lines of pixels, a network learns colour and density."""
import sys
from math import pi

import torch
from torch import nn

PIXELS, SAMPLES = 32, 24
NEAR, FAR = 1.0, 3.0


# --- the scene ----------------------------------------------------------------------------------------------------

def true_field(points, centres, radii, colours):
    """Colour (..., 3) and density (...) of soft-edged discs."""
    away = (points[..., None, :] - centres).norm(dim=-1)
    inside = torch.sigmoid((radii - away) * 40)
    colour = (inside[..., None] * colours).sum(-2) / inside.sum(-1, keepdim=True).clamp(min=1e-3)
    stripes = 0.75 + 0.25 * torch.sin(14 * points[..., :1])
    return (colour * stripes).clamp(0, 1), 18 * inside.amax(-1)


def camera(angle):
    """Origins and unit directions (PIXELS, 2) of a camera on a circle of radius 2 that looks at the middle."""
    eye = 2 * torch.stack([angle.cos(), angle.sin()])
    forward = -eye / 2
    right = torch.stack([-forward[1], forward[0]])
    across = (torch.arange(PIXELS) + 0.5) / PIXELS * 2 - 1
    direction = forward + 0.5 * across[:, None] * right
    return eye.expand(PIXELS, 2), nn.functional.normalize(direction, dim=-1)


# --- rendering ----------------------------------------------------------------------------------------------------

def sample_depths(n, jitter):
    """Depths (n, SAMPLES) in equal bins, at random within them when training."""
    edges = torch.linspace(NEAR, FAR, SAMPLES + 1)
    if jitter:
        return edges[:-1] + torch.rand(n, SAMPLES) * (edges[1:] - edges[:-1])
    return (0.5 * (edges[1:] + edges[:-1])).expand(n, SAMPLES)


def composite(colour, density, depth):
    """Volume rendering: weight = opacity of a sample times what the samples before it let through."""
    step = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], (FAR - NEAR) / SAMPLES)], -1)
    alpha = 1 - torch.exp(-density * step)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-7], -1), -1)[:, :-1]
    weight = alpha * through
    return (weight[..., None] * colour).sum(1) + (1 - weight.sum(1, keepdim=True))   # white behind


def render(field, origin, direction, jitter=False):
    depth = sample_depths(len(origin), jitter)
    points = origin[:, None] + depth[..., None] * direction[:, None]
    colour, density = field(points)
    return composite(colour, density, depth)


# --- the model ----------------------------------------------------------------------------------------------------

class Field(nn.Module):
    def __init__(self, octaves=4, width=40):
        super().__init__()
        self.register_buffer("bands", pi * 2.0 ** torch.arange(octaves))
        n_in = 2 + 4 * octaves
        self.trunk = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.density = nn.Linear(width, 1)
        self.colour = nn.Sequential(nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid())

    def encode(self, p):
        waves = (p[..., None] * self.bands / 2).flatten(-2)
        return torch.cat([p, waves.sin(), waves.cos()], -1)

    def forward(self, p):
        h = self.trunk(self.encode(p))
        return self.colour(h), 10 * nn.functional.softplus(self.density(h).squeeze(-1) - 1)


@torch.no_grad()
def psnr(field, views):
    errors = [(render(field, o, d) - truth).pow(2).mean() for o, d, truth in views]
    return (-10 * torch.log10(torch.stack(errors).mean())).item()


def main(seed=0, steps=240, rays=64):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    scene = (torch.rand(6, 2) * 1.2 - 0.6, 0.1 + 0.15 * torch.rand(6), torch.rand(6, 3))

    def photograph(angles):
        views = []
        for a in angles:
            o, d = camera(a)
            depth = torch.linspace(NEAR, FAR, 257)[None].expand(PIXELS, -1)
            colour, density = true_field(o[:, None] + depth[..., None] * d[:, None], *scene)
            step = (FAR - NEAR) / 256
            alpha = 1 - torch.exp(-density * step)
            left = torch.cumprod(1 - alpha, -1)
            weight = alpha * torch.cat([torch.ones(PIXELS, 1), left[:, :-1]], -1)
            views.append((o, d, (weight[..., None] * colour).sum(1) + 1 - weight.sum(1, keepdim=True)))
        return views

    views = photograph(torch.arange(32) * 2 * pi / 32)
    held_out = photograph(torch.rand(8) * 2 * pi)
    origins, directions, pixels = (torch.cat(part) for part in zip(*views))
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=6e-3)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.1 ** (k / steps))
    print(f"psnr at start {psnr(field, held_out):.2f}")
    for step in range(steps):
        pick = torch.randint(len(pixels), (rays,))
        seen = render(field, origins[pick], directions[pick], jitter=True)
        loss = (seen - pixels[pick]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
        if (step + 1) % 80 == 0:
            print(f"{step + 1:4d} mse {loss.item():.5f} held-out psnr {psnr(field, held_out):.2f}")
    print(f"result {-psnr(field, held_out):.4f}")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word.isdigit()]
    main(int(words[0]) if words else 0)
