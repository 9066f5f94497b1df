"""diffusers: a small UNet2DModel learns to denoise discs, with DDPMScheduler and an EMA."""

import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "UpBlock2D"),
)
scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ema = EMAModel(model.parameters(), decay=0.99)
ys, xs = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")


def discs(n):
    cx, cy, r = 4 + 8 * torch.rand(n, 1, 1), 4 + 8 * torch.rand(n, 1, 1), 2 + 2 * torch.rand(n, 1, 1)
    return (((xs - cx) ** 2 + (ys - cy) ** 2 < r**2).float() * 2 - 1)[:, None]


def loss_of(clean):
    noise = torch.randn_like(clean)
    steps = torch.randint(0, 100, (len(clean),))
    return F.mse_loss(model(scheduler.add_noise(clean, noise, steps), steps).sample, noise)


for step in range(300):
    loss = loss_of(discs(16))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ema.step(model.parameters())
ema.copy_to(model.parameters())
with torch.no_grad():
    print("result", loss_of(discs(256)).item())
