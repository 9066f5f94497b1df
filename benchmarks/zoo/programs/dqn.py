"""DQN with replay memory and soft target updates on a hand-written cart-pole."""

import math
import random
import sys
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
random.seed(seed)
torch.manual_seed(seed)
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward", "done"))


class CartPole:
    limit = 120

    def reset(self):
        self.s, self.t = [random.uniform(-0.05, 0.05) for _ in range(4)], 0
        return torch.tensor(self.s)

    def step(self, action):
        x, v, a, w = self.s
        force = 10.0 if action == 1 else -10.0
        temp = (force + 0.05 * w * w * math.sin(a)) / 1.1
        acc = (9.8 * math.sin(a) - math.cos(a) * temp) / (0.5 * (4 / 3 - 0.1 * math.cos(a) ** 2 / 1.1))
        lin = temp - 0.05 * acc * math.cos(a) / 1.1
        self.s = [x + 0.02 * v, v + 0.02 * lin, a + 0.02 * w, w + 0.02 * acc]
        self.t += 1
        fallen = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.2095
        return torch.tensor(self.s), 1.0, fallen, self.t >= self.limit


class DQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(4, 96)
        self.layer2 = nn.Linear(96, 96)
        self.layer3 = nn.Linear(96, 2)

    def forward(self, x):
        return self.layer3(F.relu(self.layer2(F.relu(self.layer1(x)))))


GAMMA, BATCH, TAU = 0.99, 64, 0.01
policy_net, target_net = DQN(), DQN()
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
memory = deque([], maxlen=10000)
env, steps_done, lengths = CartPole(), 0, []


def select_action(state):
    global steps_done
    eps = 0.05 + 0.85 * math.exp(-steps_done / 600)
    steps_done += 1
    if random.random() > eps:
        with torch.no_grad():
            return policy_net(state[None]).argmax(1).item()
    return random.randrange(2)


def optimize_model():
    if len(memory) < 200:
        return
    batch = Transition(*zip(*random.sample(memory, BATCH)))
    state, next_state = torch.stack(batch.state), torch.stack(batch.next_state)
    action, reward = torch.tensor(batch.action)[:, None], torch.tensor(batch.reward)
    done = torch.tensor(batch.done, dtype=torch.float32)
    q = policy_net(state).gather(1, action).squeeze(1)
    with torch.no_grad():
        target = reward + GAMMA * target_net(next_state).max(1).values * (1 - done)
    loss = F.smooth_l1_loss(q, target)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
    for key in policy_state:
        target_state[key] = policy_state[key] * TAU + target_state[key] * (1 - TAU)
    target_net.load_state_dict(target_state)


while steps_done < 5000:
    state, length = env.reset(), 0
    while True:
        action = select_action(state)
        next_state, reward, fallen, truncated = env.step(action)
        memory.append(Transition(state, action, next_state, reward, fallen))
        state, length = next_state, length + 1
        optimize_model()
        if fallen or truncated:
            break
    lengths.append(length)
    if len(lengths) % 20 == 0:
        print(len(lengths), steps_done, sum(lengths[-20:]) / 20)

total = 0
for _ in range(10):
    state = env.reset()
    while True:
        with torch.no_grad():
            state, _, fallen, truncated = env.step(policy_net(state[None]).argmax(1).item())
        total += 1
        if fallen or truncated:
            break
print("result", -total / 10)
