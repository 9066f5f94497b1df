import argparse
import math

import torch
from torch import nn
from torch.distributions import Normal

parser = argparse.ArgumentParser()
parser.add_argument("run", type=int, nargs="?", default=0, help="number of the run")
parser.add_argument("--seed", type=int, default=11)
parser.add_argument("--n-envs", type=int, default=32)
parser.add_argument("--start-steps", type=int, default=30)
parser.add_argument("--train-steps", type=int, default=400)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--gamma", type=float, default=0.95)
parser.add_argument("--tau", type=float, default=0.02)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--alpha-lr", type=float, default=5e-3)
parser.add_argument("--capacity", type=int, default=20000)
args = parser.parse_args()
torch.manual_seed(args.seed)

ACT_DIM, OBS_DIM, HORIZON = 2, 6, 40
ACT_LIMIT = 0.3
OBS_SCALE = torch.tensor([2.0, 2.0, 0.5, 0.5, 2.0, 2.0])


class ReachEnv:
    """Batched 2-D point mass with velocity; it has to come to rest on a goal. Ends by time limit or by leaving the field."""

    def __init__(self, n):
        self.n = n
        self.pos, self.vel, self.goal = torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n, 2)
        self.t = torch.zeros(n, dtype=torch.long)

    def reset(self, which=None):
        which = torch.ones(self.n, dtype=torch.bool) if which is None else which
        k = int(which.sum())
        self.pos[which] = torch.rand(k, 2) * 4 - 2
        self.goal[which] = torch.rand(k, 2) * 3 - 1.5
        self.vel[which] = 0.0
        # envs start at different ages so that not all of them run out together
        self.t[which] = torch.randint(0, HORIZON // 2, (k,))
        return self.observe()

    def observe(self):
        return torch.cat([self.pos, self.vel, self.goal], dim=1) / OBS_SCALE

    def step(self, action):
        self.vel = 0.8 * self.vel + action.clamp(-ACT_LIMIT, ACT_LIMIT)
        self.pos = self.pos + 0.5 * self.vel
        self.t += 1
        dist = (self.pos - self.goal).norm(dim=1)
        out = (self.pos.abs() > 3.0).any(dim=1)
        reward = -dist - 0.2 * self.vel.norm(dim=1) - 10.0 * out.float()
        return self.observe(), reward, out, self.t >= HORIZON


class Buffer:
    def __init__(self, cap):
        self.cap, self.ptr, self.full = cap, 0, False
        self.o, self.a = torch.zeros(cap, OBS_DIM), torch.zeros(cap, ACT_DIM)
        self.r, self.d, self.o2 = torch.zeros(cap), torch.zeros(cap), torch.zeros(cap, OBS_DIM)

    def put(self, o, a, r, d, o2):
        ix = (self.ptr + torch.arange(len(o))) % self.cap
        self.o[ix], self.a[ix], self.r[ix], self.d[ix], self.o2[ix] = o, a, r, d.float(), o2
        self.full = self.full or self.ptr + len(o) >= self.cap
        self.ptr = (self.ptr + len(o)) % self.cap

    def draw(self, n):
        ix = torch.randint(0, self.cap if self.full else self.ptr, (n,))
        return self.o[ix], self.a[ix], self.r[ix], self.d[ix], self.o2[ix]


def mlp(i, o, h=96):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS_DIM, 2 * ACT_DIM)

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        return mu, log_std.clamp(-5, 1)

    def sample(self, obs):
        mu, log_std = self(obs)
        dist = Normal(mu, log_std.exp())
        u = dist.rsample()
        a = torch.tanh(u)
        logp = dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)
        return a, logp.sum(-1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS_DIM + ACT_DIM, 1), mlp(OBS_DIM + ACT_DIM, 1)

    def forward(self, o, a):
        x = torch.cat([o, a], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


@torch.no_grad()
def final_distance(actor, n=128):
    env = ReachEnv(n)
    obs = env.reset()
    for _ in range(HORIZON):
        mu, _ = actor(obs)
        obs, _, _, _ = env.step(torch.tanh(mu) * ACT_LIMIT)
    return (env.pos - env.goal).norm(dim=1).clamp(max=10.0).mean().item()


actor, critic, critic_targ = Actor(), Critic(), Critic()
critic_targ.load_state_dict(critic.state_dict())
log_alpha = torch.tensor(math.log(0.2), requires_grad=True)
target_entropy = -float(ACT_DIM)
actor_opt = torch.optim.Adam(actor.parameters(), lr=args.lr)
critic_opt = torch.optim.Adam(critic.parameters(), lr=args.lr)
alpha_opt = torch.optim.Adam([log_alpha], lr=args.alpha_lr)

env, buffer = ReachEnv(args.n_envs), Buffer(args.capacity)
obs = env.reset()
for step in range(-args.start_steps, args.train_steps):
    with torch.no_grad():
        act = torch.rand(args.n_envs, ACT_DIM) * 2 - 1 if step < 0 else actor.sample(obs)[0]
    nxt, rew, dead, timeout = env.step(act * ACT_LIMIT)
    buffer.put(obs, act, rew, dead, nxt)
    over = dead | timeout
    obs = env.reset(over) if over.any() else nxt
    if step < 0:
        continue

    o, a, r, d, o2 = buffer.draw(args.batch)
    alpha = log_alpha.exp().detach()
    with torch.no_grad():
        a2, logp2 = actor.sample(o2)
        qn = torch.min(*critic_targ(o2, a2))
        backup = r + args.gamma * (1 - d) * (qn - alpha * logp2)
    q1, q2 = critic(o, a)
    critic_loss = (q1 - backup).pow(2).mean() + (q2 - backup).pow(2).mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()

    pi, logp = actor.sample(o)
    actor_loss = (alpha * logp - torch.min(*critic(o, pi))).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()

    alpha_loss = -(log_alpha * (logp.detach() + target_entropy)).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()

    with torch.no_grad():
        for p, pt in zip(critic.parameters(), critic_targ.parameters()):
            pt.mul_(1 - args.tau).add_(args.tau * p)
    if step % 50 == 0:
        print(f"step {step:3d}  q_loss {critic_loss.item():8.3f}  pi_loss {actor_loss.item():7.3f}  "
              f"alpha {log_alpha.exp().item():.3f}  entropy {-logp.mean().item():+.2f}")

print("result", round(final_distance(actor), 4))
