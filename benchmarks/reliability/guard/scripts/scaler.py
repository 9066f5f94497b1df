"""Mixed precision with a loss scaler, which skips a step that overflows."""

import torch
from torch.nn import functional

from benchmarks.reliability.guard.stage import stage

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
stage.watch(model, optimizer)
for number in range(10):
    stage.step(number)
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = functional.mse_loss(model(x).float(), x.sum(1, keepdim=True))
    scaled = scaler.scale(loss * (float("inf") if number == 6 else 1.0))
    scaled.backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    stage.loss(loss)
stage.end([*model.parameters()])
