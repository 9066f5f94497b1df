# PPO (single file, cleanrl-ish) on a vectorised hand written cart-pole
import json
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.set_num_threads(1)
SEED = 3
N_ENVS, N_STEPS, ITERS = 16, 64, 70
GAMMA, LAM = 0.98, 0.95
EPOCHS, MINIBATCHES = 4, 4
CLIP, ENT, VF = 0.2, 0.005, 0.5
HORIZON = 250


class CartPoleVec:
    """positions are reported in centimetres and angles in degrees"""

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.s = np.zeros((n, 4))
        self.t = np.zeros(n, dtype=int)

    def _spawn(self, k):
        return self.rng.uniform(-0.08, 0.08, (k, 4))

    def _obs(self):
        return (self.s * np.array([100.0, 100.0, 57.3, 57.3]) + np.array([40.0, 0, 0, 0])).astype(np.float32)

    def reset(self):
        self.s = self._spawn(self.n)
        self.t[:] = 0
        return self._obs()

    def step(self, a):
        x, v, th, w = self.s.T
        f = np.where(a == 1, 10.0, -10.0)
        c, s = np.cos(th), np.sin(th)
        tmp = (f + 0.05 * w ** 2 * s) / 1.1
        thacc = (9.8 * s - c * tmp) / (0.5 * (4 / 3 - 0.1 * c ** 2 / 1.1))
        xacc = tmp - 0.05 * thacc * c / 1.1
        dt = 0.03
        self.s = np.stack([x + dt * v, v + dt * xacc, th + dt * w, w + dt * thacc], 1)
        self.t += 1
        fell = (np.abs(self.s[:, 0]) > 2.0) | (np.abs(self.s[:, 2]) > 0.21)
        done = fell | (self.t >= HORIZON)
        rew = np.ones(self.n, dtype=np.float32) - 0.2 * np.abs(self.s[:, 0]).astype(np.float32)
        if done.any():
            self.s[done] = self._spawn(int(done.sum()))
            self.t[done] = 0
        return self._obs(), rew, done


class RunningNorm:
    def __init__(self, dim):
        self.mean, self.var, self.count = np.zeros(dim), np.ones(dim), 1e-4

    def update(self, x):
        bm, bv, bc = x.mean(0), x.var(0), len(x)
        d, tot = bm - self.mean, self.count + bc
        self.mean = self.mean + d * bc / tot
        self.var = (self.var * self.count + bv * bc + d ** 2 * self.count * bc / tot) / tot
        self.count = tot

    def __call__(self, x):
        return torch.as_tensor(np.clip((x - self.mean) / np.sqrt(self.var + 1e-8), -8, 8), dtype=torch.float32)


def layer(i, o, gain=2 ** 0.5):
    l = nn.Linear(i, o)
    nn.init.orthogonal_(l.weight, gain)
    nn.init.zeros_(l.bias)
    return l


class Agent(nn.Module):
    def __init__(self, obs_dim=4, n_act=2, h=48):
        super().__init__()
        self.actor = nn.Sequential(layer(obs_dim, h), nn.Tanh(), layer(h, h), nn.Tanh(), layer(h, n_act, 0.01))
        self.critic = nn.Sequential(layer(obs_dim, h), nn.Tanh(), layer(h, h), nn.Tanh(), layer(h, 1, 1.0))

    def value(self, x):
        return self.critic(x).squeeze(-1)

    def dist(self, x):
        return Categorical(logits=self.actor(x))


def compute_gae(rew, val, done, last_val):
    adv = torch.zeros_like(rew)
    run = torch.zeros(rew.shape[1])
    for t in reversed(range(rew.shape[0])):
        nxt = last_val if t == rew.shape[0] - 1 else val[t + 1]
        mask = 1.0 - done[t]
        delta = rew[t] + GAMMA * nxt * mask - val[t]
        run = delta + GAMMA * LAM * mask * run
        adv[t] = run
    return adv, adv + val


@torch.no_grad()
def evaluate(agent, norm, n=64):
    env = CartPoleVec(n, seed=1000)
    obs = env.reset()
    alive, length = np.ones(n, bool), np.zeros(n)
    for _ in range(HORIZON):
        a = agent.actor(norm(obs)).argmax(-1).numpy()
        obs, _, done = env.step(a)
        length += alive
        alive &= ~done
    return length.mean()


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    env, norm, agent = CartPoleVec(N_ENVS, SEED), RunningNorm(4), Agent()
    opt = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    obs = env.reset()
    for it in range(ITERS):
        for g in opt.param_groups:
            g["lr"] = 2.5e-3 * (1 - it / ITERS)
        O, A, LP, R, D, V = [], [], [], [], [], []
        for _ in range(N_STEPS):
            norm.update(obs)
            x = norm(obs)
            with torch.no_grad():
                d = agent.dist(x)
                a = d.sample()
                V.append(agent.value(x))
                LP.append(d.log_prob(a))
            obs, r, done = env.step(a.numpy())
            O.append(x)
            A.append(a)
            R.append(torch.as_tensor(r))
            D.append(torch.as_tensor(done, dtype=torch.float32))
        O, A, LP, R, D, V = map(torch.stack, (O, A, LP, R, D, V))
        with torch.no_grad():
            last = agent.value(norm(obs))
        adv, ret = compute_gae(R, V, D, last)
        b_o, b_a, b_lp = O.reshape(-1, 4), A.reshape(-1), LP.reshape(-1)
        b_adv, b_ret = adv.reshape(-1), ret.reshape(-1)
        B = len(b_a)
        for _ in range(EPOCHS):
            for mb in torch.randperm(B).split(B // MINIBATCHES):
                d = agent.dist(b_o[mb])
                ratio = (d.log_prob(b_a[mb]) - b_lp[mb]).exp()
                a_ = b_adv[mb]
                a_ = (a_ - a_.mean()) / (a_.std() + 1e-8)
                pg = -torch.min(ratio * a_, ratio.clamp(1 - CLIP, 1 + CLIP) * a_).mean()
                v_loss = 0.5 * (agent.value(b_o[mb]) - b_ret[mb]).pow(2).mean()
                ent = d.entropy().mean()
                loss = pg + VF * v_loss - ENT * ent
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        if it % 10 == 0 or it == ITERS - 1:
            eps = max(D.sum().item(), 1)
            print(f"iter {it:3d} ep_len~{D.numel() / eps:6.1f} pg {pg.item():+.3f} v {v_loss.item():.3f} ent {ent.item():.3f}")
    print("RESULT", json.dumps({"metric": "eval_episode_length", "value": round(float(evaluate(agent, norm)), 2), "better": "higher"}))


main()
