"""PPO (clipped surrogate, GAE) on a vectorised cart-pole that lives on the device: no host round trips inside a rollout."""
import time

import torch
from torch import nn
from torch.distributions import Categorical

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(21)

NUM_ENVS, HORIZON, ITERATIONS = 64, 64, 30
EPOCHS, MINIBATCHES = 4, 4
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2
LR, ENT_COEF, VF_COEF, MAX_GRAD = 2.5e-3, 0.01, 0.5, 0.5
MAX_EPISODE = 400
REWARD = 0.05  # keeps the returns near 1..5, so that the value loss does not drown the policy gradient in the clipping


class CartPole:
    """Barto, Sutton & Anderson's cart-pole; every env resets itself in place. `state` is one persistent (N, 4) buffer."""

    def __init__(self, n):
        self.n = n
        self.state = torch.empty(n, 4, device=DEVICE).uniform_(-0.05, 0.05)
        self.age = torch.zeros(n, device=DEVICE)

    def observe(self):
        return self.state

    def step(self, action):
        x, x_dot, th, th_dot = self.state.unbind(1)
        force = action.float() * 20.0 - 10.0
        cos, sin = th.cos(), th.sin()
        tmp = (force + 0.05 * th_dot.square() * sin) / 1.1
        th_acc = (9.8 * sin - cos * tmp) / (0.5 * (4.0 / 3.0 - 0.1 * cos.square() / 1.1))
        x_acc = tmp - 0.05 * th_acc * cos / 1.1
        new = torch.stack([x + 0.02 * x_dot, x_dot + 0.02 * x_acc, th + 0.02 * th_dot, th_dot + 0.02 * th_acc], 1)
        self.age += 1
        fell = (new[:, 0].abs() > 2.4) | (new[:, 2].abs() > 0.2095)
        timeout = (self.age >= MAX_EPISODE) & ~fell
        done = fell | timeout
        fresh = torch.empty_like(new).uniform_(-0.05, 0.05)
        self.state.copy_(torch.where(done.unsqueeze(1), fresh, new))
        self.age *= (~done).float()
        return torch.full((self.n,), REWARD, device=DEVICE), fell, timeout, new


class ActorCritic(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0, 1.0, 5.0, 1.0]))
        self.actor = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        self.critic = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        for net, gain in ((self.actor, 0.01), (self.critic, 1.0)):
            for layer in net:
                if isinstance(layer, nn.Linear):
                    nn.init.orthogonal_(layer.weight, 2**0.5 if layer is not net[-1] else gain)
                    nn.init.zeros_(layer.bias)

    def policy(self, obs):
        return Categorical(logits=self.actor(obs * self.scale))

    def value(self, obs):
        return self.critic(obs * self.scale).squeeze(-1)


agent = ActorCritic().to(DEVICE)
opt = torch.optim.Adam(agent.parameters(), lr=LR, eps=1e-5)
anneal = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: 1.0 - it / ITERATIONS)
env = CartPole(NUM_ENVS)

# rollout storage, allocated once on the device
buf = {k: torch.zeros(HORIZON, NUM_ENVS, device=DEVICE) for k in ("logp", "value", "reward", "nextv", "done")}
buf["action"] = torch.zeros(HORIZON, NUM_ENVS, dtype=torch.long, device=DEVICE)
buf["obs"] = torch.zeros(HORIZON, NUM_ENVS, 4, device=DEVICE)


@torch.no_grad()
def rollout():
    for t in range(HORIZON):
        obs = env.observe().clone()
        dist = agent.policy(obs)
        action = dist.sample()
        reward, fell, timeout, final_obs = env.step(action)
        buf["obs"][t], buf["action"][t] = obs, action
        buf["logp"][t], buf["value"][t] = dist.log_prob(action), agent.value(obs)
        buf["reward"][t] = reward
        # a fallen pole has no future; a time limit has one, and it is the value of the state before the reset
        buf["nextv"][t] = agent.value(final_obs) * (~fell).float()
        buf["done"][t] = (fell | timeout).float()


@torch.no_grad()
def gae():
    adv, last = torch.zeros_like(buf["reward"]), torch.zeros(NUM_ENVS, device=DEVICE)
    for t in reversed(range(HORIZON)):
        delta = buf["reward"][t] + GAMMA * buf["nextv"][t] - buf["value"][t]
        last = delta + GAMMA * LAMBDA * (1.0 - buf["done"][t]) * last
        adv[t] = last
    return adv, adv + buf["value"]


@torch.no_grad()
def evaluate(n=128):
    """Mean length of the first episode of n fresh envs under the greedy policy."""
    world, alive, length = CartPole(n), torch.ones(n, dtype=torch.bool, device=DEVICE), torch.zeros(n, device=DEVICE)
    for _ in range(MAX_EPISODE):
        _, fell, timeout, _ = world.step(agent.policy(world.observe()).probs.argmax(-1))
        length += alive.float()
        alive &= ~(fell | timeout)
    return length.mean().item()


began = time.time()
print(f"untrained: {evaluate():.1f} steps")
for it in range(ITERATIONS):
    rollout()
    adv, ret = gae()
    obs, action, logp_old = buf["obs"].flatten(0, 1), buf["action"].flatten(), buf["logp"].flatten()
    adv, ret = adv.flatten(), ret.flatten()
    for _ in range(EPOCHS):
        for mb in torch.randperm(len(adv), device=DEVICE).chunk(MINIBATCHES):
            dist = agent.policy(obs[mb])
            ratio = (dist.log_prob(action[mb]) - logp_old[mb]).exp()
            a = adv[mb]
            a = (a - a.mean()) / (a.std() + 1e-8)
            pg = -torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
            vf = (agent.value(obs[mb]) - ret[mb]).square().mean()
            loss = pg + VF_COEF * vf - ENT_COEF * dist.entropy().mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRAD)
            opt.step()
    anneal.step()
    if it % 5 == 4:
        print(f"iter {it + 1:3d} loss {loss.item():8.4f} value loss {vf.item():8.4f} "
              f"episode ends per rollout {buf['done'].sum().item():.0f} ({time.time() - began:.1f}s)")

print(f"final: greedy episode length {evaluate():.1f} (limit {MAX_EPISODE})")
