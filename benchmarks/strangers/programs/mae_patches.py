import sys
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class MAEConfig:
    image: int = 16
    patch: int = 4
    dim: int = 40
    heads: int = 4
    enc_layers: int = 2
    dec_layers: int = 1
    mask_ratio: float = 0.6
    lr: float = 3e-3
    weight_decay: float = 0.02
    epochs: int = 12
    batch_size: int = 64
    warmup: int = 30


cfg = MAEConfig()
N = (cfg.image // cfg.patch) ** 2
P = cfg.patch ** 2


def gratings(n, g):
    yy, xx = torch.meshgrid(torch.arange(cfg.image).float(), torch.arange(cfg.image).float(), indexing="ij")
    th = torch.rand(n, 1, 1, generator=g) * torch.pi
    f = 0.25 + 0.35 * torch.rand(n, 1, 1, generator=g)
    ph = torch.rand(n, 1, 1, generator=g) * 2 * torch.pi
    ramp = torch.randn(n, 2, 1, 1, generator=g) * 0.06
    img = torch.sin(f * (th.cos() * xx + th.sin() * yy) + ph)
    img = img + ramp[:, 0] * (xx - 8) + ramp[:, 1] * (yy - 8)
    return img + 0.05 * torch.randn(n, cfg.image, cfg.image, generator=g)


def patchify(img):
    b, s, p = len(img), cfg.image // cfg.patch, cfg.patch
    return img.reshape(b, s, p, s, p).permute(0, 1, 3, 2, 4).reshape(b, s * s, p * p)


def layer():
    return nn.TransformerEncoderLayer(cfg.dim, cfg.heads, cfg.dim * 2, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)


class MAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(P, cfg.dim)
        self.enc_pos = nn.Parameter(torch.randn(1, N, cfg.dim) * 0.1)
        self.encoder = nn.ModuleList(layer() for _ in range(cfg.enc_layers))
        self.enc_norm = nn.LayerNorm(cfg.dim)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, cfg.dim))
        self.dec_pos = nn.Parameter(torch.randn(1, N, cfg.dim) * 0.1)
        self.decoder = nn.ModuleList(layer() for _ in range(cfg.dec_layers))
        self.dec_norm = nn.LayerNorm(cfg.dim)
        self.out = nn.Linear(cfg.dim, P)

    def forward(self, patches, noise):
        b = len(patches)
        keep = int(N * (1 - cfg.mask_ratio))
        ids_shuffle = noise.argsort(dim=1)
        ids_restore = ids_shuffle.argsort(dim=1)
        ids_keep = ids_shuffle[:, :keep]

        x = self.embed(patches) + self.enc_pos
        x = x.gather(1, ids_keep[:, :, None].expand(-1, -1, cfg.dim))
        for blk in self.encoder:
            x = blk(x)
        x = self.enc_norm(x)

        x = torch.cat([x, self.mask_token.expand(b, N - keep, -1)], dim=1)
        x = x.gather(1, ids_restore[:, :, None].expand(-1, -1, cfg.dim))
        x = x + self.dec_pos
        for blk in self.decoder:
            x = blk(x)
        pred = self.out(self.dec_norm(x))

        mask = torch.ones(b, N)
        mask[:, :keep] = 0
        mask = mask.gather(1, ids_restore)
        return pred, mask


def masked_mse(pred, target, mask):
    per_patch = ((pred - target) ** 2).mean(dim=-1)
    return (per_patch * mask).sum() / mask.sum()


def param_groups(model):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "pos" in name or "token" in name else decay).append(p)
    return [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}]


@torch.no_grad()
def validate(model, patches, noise):
    model.eval()
    pred, _ = model(patches, noise)
    keep = int(N * (1 - cfg.mask_ratio))
    hidden = (noise.argsort(1).argsort(1) >= keep).float()
    return masked_mse(pred, patches, hidden).item()


def main(seed):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(1234 + seed)
    train = patchify(gratings(2048, g))
    val = patchify(gratings(256, g))
    val_noise = torch.rand(256, N, generator=g)

    model = MAE()
    opt = torch.optim.AdamW(param_groups(model), lr=cfg.lr, betas=(0.9, 0.95))
    per_epoch = len(train) // cfg.batch_size
    total = per_epoch * cfg.epochs

    def lr_at(it):
        if it < cfg.warmup:
            return (it + 1) / cfg.warmup
        return 0.5 * (1 + torch.cos(torch.tensor(torch.pi * (it - cfg.warmup) / (total - cfg.warmup)))).item()

    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_at)
    for epoch in range(cfg.epochs):
        model.train()
        order = torch.randperm(len(train))
        tot = 0.0
        for i in range(per_epoch):
            batch = train[order[i * cfg.batch_size:(i + 1) * cfg.batch_size]]
            pred, mask = model(batch, torch.rand(len(batch), N))
            loss = masked_mse(pred, batch, mask)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            tot += loss.item()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1:2d}  train {tot / per_epoch:.4f}  val {validate(model, val, val_noise):.4f}")
    print("result", validate(model, val, val_noise))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
