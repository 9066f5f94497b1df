"""PPO, one file, vectorised grid world, GAE, entropy bonus, value clipping off."""

import argparse
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("seed", type=int, nargs="?", default=0)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--num-steps", type=int, default=64)
parser.add_argument("--iterations", type=int, default=50)
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--clip-coef", type=float, default=0.2)
parser.add_argument("--ent-coef", type=float, default=0.01)
parser.add_argument("--vf-coef", type=float, default=0.5)
parser.add_argument("--lr", type=float, default=2.5e-3)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Grid:
    """Walk to the goal on a 6 x 6 board; -0.02 a step, +1 at the goal, 30 steps at most."""

    def __init__(self, n):
        self.n = n
        self.agent, self.goal, self.t = torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n)
        self.restart(torch.ones(n, dtype=torch.bool))

    def restart(self, which):
        k = int(which.sum())
        self.agent[which] = torch.randint(0, 6, (k, 2)).float()
        self.goal[which] = torch.randint(0, 6, (k, 2)).float()
        self.t[which] = 0

    def observe(self):
        return torch.cat([self.agent / 2.5 - 1, self.goal / 2.5 - 1], 1)

    def step(self, action):
        move = torch.tensor([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]])[action]
        self.agent = (self.agent + move).clamp(0, 5)
        self.t += 1
        won = (self.agent == self.goal).all(1)
        done = won | (self.t >= 30)
        reward = won.float() - 0.02
        self.restart(done)
        return self.observe(), reward, done.float()


def layer_init(layer, std=2**0.5, bias=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(4, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 1), std=1.0),
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(4, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 4), std=0.01),
        )

    def get_value(self, x):
        return self.critic(x).squeeze(-1)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.get_value(x)


env, agent = Grid(args.num_envs), Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
T, N = args.num_steps, args.num_envs
next_obs, next_done, returns_seen = env.observe(), torch.zeros(N), []
for iteration in range(args.iterations):
    optimizer.param_groups[0]["lr"] = (1.0 - iteration / args.iterations) * args.lr
    obs, actions = torch.zeros(T, N, 4), torch.zeros(T, N, dtype=torch.long)
    logprobs, rewards, dones, values = (torch.zeros(T, N) for _ in range(4))
    for step in range(T):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
        values[step], actions[step], logprobs[step] = value, action, logprob
        next_obs, rewards[step], next_done = env.step(action)
    returns_seen.append(rewards.mean().item())
    with torch.no_grad():
        next_value = agent.get_value(next_obs)
        advantages, lastgaelam = torch.zeros(T, N), 0
        for t in reversed(range(T)):
            nextnonterminal = 1.0 - (next_done if t == T - 1 else dones[t + 1])
            nextvalues = next_value if t == T - 1 else values[t + 1]
            delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
        returns = advantages + values
    b_obs, b_actions = obs.reshape(-1, 4), actions.reshape(-1)
    b_logprobs, b_advantages, b_returns = logprobs.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
    for epoch in range(4):
        for mb in torch.randperm(T * N).split(128):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions[mb])
            ratio = (newlogprob - b_logprobs[mb]).exp()
            adv = b_advantages[mb]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)).mean()
            v_loss = 0.5 * ((newvalue - b_returns[mb]) ** 2).mean()
            loss = pg_loss - args.ent_coef * entropy.mean() + v_loss * args.vf_coef
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    if iteration % 10 == 0:
        print(f"iteration {iteration} mean reward {returns_seen[-1]:.4f} v_loss {v_loss.item():.4f}")
print("result", -sum(returns_seen[-8:]) / 8)
