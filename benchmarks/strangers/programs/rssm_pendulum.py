"""Recurrent state-space world model of a driven pendulum seen through a coarse camera."""
import sys
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

hp = SimpleNamespace(pixels=10, stoch=6, deter=48, hidden=64, seq=20, batch=32, steps=520, lr=2e-3,
                     free_nats=1.0, kl_scale=0.02, kl_balance=0.8, context=6, episodes=600, length=30)


def simulate(n, rng):
    """Images o[t] and the torque a[t] applied between o[t] and o[t+1]."""
    theta = rng.uniform(-2.5, 2.5, n)
    omega = rng.normal(0, 1.0, n)
    torque = np.zeros(n)
    grid = np.stack(np.meshgrid(np.linspace(-1.4, 1.4, hp.pixels), np.linspace(-1.4, 1.4, hp.pixels)), -1)
    images, actions = [], []
    for t in range(hp.length):
        tip = np.stack([np.sin(theta), -np.cos(theta)], -1)
        d2 = ((grid[None] - tip[:, None, None]) ** 2).sum(-1)
        images.append(np.exp(-d2 / 0.25).reshape(n, -1) + 0.02 * rng.normal(size=(n, hp.pixels ** 2)))
        flip = rng.random(n) < 0.3
        torque = np.where(flip, rng.uniform(-1, 1, n), torque)
        actions.append(torque[:, None].copy())
        for _ in range(4):
            omega = omega + 0.06 * (-2.0 * np.sin(theta) - 0.6 * omega + 2.5 * torque)
            theta = theta + 0.06 * omega
    to_tensor = lambda z: torch.tensor(np.stack(z, 1), dtype=torch.float32)
    return to_tensor(images), to_tensor(actions)


class GaussianHead(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hp.hidden), nn.ELU(), nn.Linear(hp.hidden, 2 * n_out))

    def forward(self, x):
        mean, raw = self.net(x).chunk(2, -1)
        return mean, nn.functional.softplus(raw) + 0.05


class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        n_obs = hp.pixels ** 2
        self.encoder = nn.Sequential(nn.Linear(n_obs, hp.hidden), nn.ELU(), nn.Linear(hp.hidden, hp.hidden), nn.ELU())
        self.inp = nn.Sequential(nn.Linear(hp.stoch + 1, hp.hidden), nn.ELU())
        self.cell = nn.GRUCell(hp.hidden, hp.deter)
        self.prior = GaussianHead(hp.deter, hp.stoch)
        self.posterior = GaussianHead(hp.deter + hp.hidden, hp.stoch)
        self.decoder = nn.Sequential(nn.Linear(hp.deter + hp.stoch, hp.hidden), nn.ELU(), nn.Linear(hp.hidden, n_obs))

    def start(self, n):
        return torch.zeros(n, hp.deter), torch.zeros(n, hp.stoch)

    def advance(self, h, z, a):
        return self.cell(self.inp(torch.cat([z, a], -1)), h)

    def observe(self, obs, act):
        """Filter a sequence; act[t] is the action that led to obs[t]."""
        h, z = self.start(len(obs))
        emb = self.encoder(obs)
        hs, zs, priors, posts = [], [], [], []
        for t in range(obs.shape[1]):
            h = self.advance(h, z, act[:, t])
            prior = self.prior(h)
            post = self.posterior(torch.cat([h, emb[:, t]], -1))
            z = post[0] + post[1] * torch.randn_like(post[0])
            hs.append(h); zs.append(z); priors.append(prior); posts.append(post)
        join = lambda pairs: tuple(torch.stack(p, 1) for p in zip(*pairs))
        return torch.stack(hs, 1), torch.stack(zs, 1), join(priors), join(posts)

    def imagine(self, h, z, act):
        frames = []
        for t in range(act.shape[1]):
            h = self.advance(h, z, act[:, t])
            z = self.prior(h)[0]
            frames.append(self.decoder(torch.cat([h, z], -1)))
        return torch.stack(frames, 1)


def kl_term(prior, post):
    """Balanced KL: the prior is trained towards the posterior faster than the other way."""
    sg = lambda d: tuple(x.detach() for x in d)
    to_prior = kl_divergence(Normal(*sg(post)), Normal(*prior)).sum(-1)
    to_post = kl_divergence(Normal(*post), Normal(*sg(prior))).sum(-1)
    kl = hp.kl_balance * to_prior + (1 - hp.kl_balance) * to_post
    return kl.mean().clamp(min=hp.free_nats)


def shifted_actions(act):
    return torch.cat([torch.zeros_like(act[:, :1]), act[:, :-1]], 1)


@torch.no_grad()
def open_loop_error(model, obs, act):
    """Filter a few frames, then predict the rest from actions alone; error over variance."""
    c = hp.context
    lead = shifted_actions(act)
    h, z, _, post = model.observe(obs[:, :c], lead[:, :c])
    frames = model.imagine(h[:, -1], post[0][:, -1], lead[:, c:])
    target = obs[:, c:]
    return ((frames - target) ** 2).mean().item() / target.var(dim=(0, 1)).mean().item()


def main(seed):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    obs, act = simulate(hp.episodes, rng)
    test_obs, test_act = simulate(150, rng)
    model = WorldModel()
    opt = torch.optim.Adam(model.parameters(), lr=hp.lr, eps=1e-5)
    print(f"untrained error {open_loop_error(model, test_obs, test_act):.4f}")
    for step in range(hp.steps):
        rows = torch.from_numpy(rng.integers(0, hp.episodes, hp.batch))
        at = int(rng.integers(0, hp.length - hp.seq + 1))
        o = obs[rows, at : at + hp.seq]
        a = shifted_actions(act)[rows, at : at + hp.seq]
        h, z, prior, post = model.observe(o, a)
        recon = model.decoder(torch.cat([h, z], -1))
        rec = 0.5 * ((recon - o) ** 2).sum(-1).mean()
        kl = kl_term(prior, post)
        loss = rec + hp.kl_scale * kl
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        opt.step()
        if step % 60 == 0 or step == hp.steps - 1:
            print(f"step {step} loss {loss.item():.4f} recon {rec.item():.4f} kl {kl.item():.4f}")
    print(f"result {open_loop_error(model, test_obs, test_act):.5f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
