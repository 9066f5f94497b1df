"""Small recurrent state-space model on a stream of 8x8 frames with a pushable ball."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

HP = dict(seed=5, episodes=240, ep_len=20, chunk=12, batch=24, steps=240, lr=3e-3,
          h=64, z=12, free_nats=1.0, kl_scale=0.3, balance=0.8, clip=50.0, context=5)
SIDE = 8


def render(p):
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    d2 = (yy[None] - p[:, :1, None]) ** 2 + (xx[None] - p[:, 1:, None]) ** 2
    return (255 * np.exp(-d2 / 1.6)).astype(np.uint8)


def record_stream(n_episodes, ep_len, rng):
    """act[t] is the push applied between frame t and frame t+1."""
    frames, actions, first = [], [], []
    pos = rng.uniform(0, SIDE - 1, (n_episodes, 2))
    for t in range(ep_len):
        a = rng.uniform(-1, 1, (n_episodes, 2))
        frames.append(render(pos))
        actions.append(a.astype(np.float32))
        first.append(np.full(n_episodes, t == 0))
        pos = np.clip(pos + 2.0 * a, 0, SIDE - 1)
    order = lambda xs: np.stack(xs, 1).reshape(n_episodes * ep_len, *xs[0].shape[1:])
    return order(frames), order(actions), order(first)


class Stream:
    def __init__(self, frames, actions, first, rng):
        self.frames, self.actions, self.first, self.rng = frames, actions, first, rng

    def chunks(self, batch, length):
        starts = self.rng.integers(1, len(self.frames) - length, batch)
        idx = starts[:, None] + np.arange(length)
        obs = torch.from_numpy(self.frames[idx]).float() / 255.0
        prev = torch.from_numpy(self.actions[idx - 1])
        return obs.flatten(2), prev, torch.from_numpy(self.first[idx])


class RSSM(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.hp = hp
        h, z = hp["h"], hp["z"]
        self.enc = nn.Sequential(nn.Linear(SIDE * SIDE, 64), nn.ELU())
        self.inp = nn.Sequential(nn.Linear(z + 2, h), nn.ELU())
        self.cell = nn.GRUCell(h, h)
        self.prior_net = nn.Sequential(nn.Linear(h, h), nn.ELU(), nn.Linear(h, 2 * z))
        self.post_net = nn.Sequential(nn.Linear(h + 64, h), nn.ELU(), nn.Linear(h, 2 * z))
        self.dec = nn.Sequential(nn.Linear(h + z, 96), nn.ELU(), nn.Linear(96, SIDE * SIDE))

    @staticmethod
    def gauss(stats):
        mean, raw = stats.chunk(2, -1)
        return Normal(mean, F.softplus(raw) + 0.1)

    def start(self, n):
        return torch.zeros(n, self.hp["h"]), torch.zeros(n, self.hp["z"])

    def advance(self, h, z, prev_action):
        h = self.cell(self.inp(torch.cat([z, prev_action], -1)), h)
        return h, self.gauss(self.prior_net(h))

    def infer(self, h, emb):
        return self.gauss(self.post_net(torch.cat([h, emb], -1)))

    def decode(self, h, z):
        return self.dec(torch.cat([h, z], -1))

    def observe(self, obs, prev_actions, is_first):
        emb = self.enc(obs)
        h, z = self.start(len(obs))
        hs, zs, priors, posts = [], [], [], []
        for t in range(obs.shape[1]):
            keep = (~is_first[:, t]).float().unsqueeze(1)
            h, z = h * keep, z * keep
            h, prior = self.advance(h, z, prev_actions[:, t] * keep)
            post = self.infer(h, emb[:, t])
            z = post.rsample()
            hs.append(h), zs.append(z), priors.append(prior), posts.append(post)
        return torch.stack(hs, 1), torch.stack(zs, 1), priors, posts

    def kl(self, posts, priors):
        cat = lambda ds: (torch.stack([d.loc for d in ds], 1), torch.stack([d.scale for d in ds], 1))
        (qm, qs), (pm, ps) = cat(posts), cat(priors)
        to_prior = kl_divergence(Normal(qm.detach(), qs.detach()), Normal(pm, ps)).sum(-1).mean()
        to_post = kl_divergence(Normal(qm, qs), Normal(pm.detach(), ps.detach())).sum(-1).mean()
        b, free = self.hp["balance"], self.hp["free_nats"]
        return b * to_prior.clamp(min=free) + (1 - b) * to_post.clamp(min=free), to_prior.detach()


@torch.no_grad()
def open_loop_error(model, stream, hp, rng):
    """Filter a few frames, then predict the rest of the episode from actions only."""
    T, n = hp["ep_len"], len(stream.frames) // hp["ep_len"]
    obs = torch.from_numpy(stream.frames).float().div(255.0).view(n, T, -1)
    act = torch.from_numpy(stream.actions).view(n, T, 2)
    prev = torch.cat([torch.zeros(n, 1, 2), act[:, :-1]], dim=1)
    h, z = model.start(n)
    emb, errors = model.enc(obs), []
    for t in range(T):
        h, prior = model.advance(h, z, prev[:, t])
        if t < hp["context"]:
            z = model.infer(h, emb[:, t]).loc
        else:
            z = prior.loc
            errors.append((model.decode(h, z) - obs[:, t]).pow(2).mean())
    baseline = (obs[:, hp["context"]:] - obs.mean((0, 1))).pow(2).mean()
    return (torch.stack(errors).mean() / baseline).item()


def train(hp):
    torch.manual_seed(hp["seed"])
    rng = np.random.default_rng(hp["seed"])
    stream = Stream(*record_stream(hp["episodes"], hp["ep_len"], rng), rng)
    held_out = Stream(*record_stream(60, hp["ep_len"], rng), rng)
    model = RSSM(hp)
    opt = torch.optim.Adam(model.parameters(), lr=hp["lr"])
    for step in range(1, hp["steps"] + 1):
        obs, prev, first = stream.chunks(hp["batch"], hp["chunk"])
        h, z, priors, posts = model.observe(obs, prev, first)
        recon = (model.decode(h, z) - obs).pow(2).sum(-1).mean()
        kl, raw_kl = model.kl(posts, priors)
        loss = recon + hp["kl_scale"] * kl
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), hp["clip"])
        opt.step()
        if step % 25 == 0:
            print(f"[{step}] loss {loss.item():.3f} recon {recon.item():.3f} kl {raw_kl.item():.3f}")
    return open_loop_error(model, held_out, hp, rng)


if __name__ == "__main__":
    print("result", round(train(HP), 4))
