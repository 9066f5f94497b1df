# dueling double DQN + prioritised replay on an 8x8 grid with walls, all at top level
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N, G, LR, EPS_ADAM = 8, 0.97, 5e-4, 1.5e-4
BS, CAP, WARM, SYNC, STEPS = 64, 20000, 1000, 250, 20000
ALPHA, BETA0 = 0.6, 0.4
random.seed(5); np.random.seed(5); torch.manual_seed(5)
rs = np.random.RandomState(5)


class Grid:
    moves = [(-1, 0), (1, 0), (0, -1), (0, 1)]

    def __init__(self):
        self.walls = np.zeros((N, N), dtype=np.uint8)
        self.walls[2, 1:6] = 1
        self.walls[5, 2:7] = 1

    def free(self):
        while True:
            c = rs.randint(N), rs.randint(N)
            if not self.walls[c]:
                return c

    def reset(self):
        self.a, self.g, self.t = self.free(), self.free(), 0
        return self.obs()

    def obs(self):
        o = np.zeros((N, N, 3), dtype=np.uint8)   # height, width, channel as a camera gives it
        o[:, :, 0] = self.walls * 255
        o[self.a[0], self.a[1], 1] = 255
        o[self.g[0], self.g[1], 2] = 255
        return o

    def step(self, k):
        self.t += 1
        y, x = self.a[0] + self.moves[k][0], self.a[1] + self.moves[k][1]
        if 0 <= y < N and 0 <= x < N and not self.walls[y, x]:
            self.a = (y, x)
        win = self.a == self.g
        return self.obs(), (1.0 if win else -0.02), win, win or self.t >= 50


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 16, 3, padding=1)
        self.fc = nn.Linear(16 * N * N, 128)
        self.v = nn.Linear(128, 1)
        self.a = nn.Linear(128, 4)

    def forward(self, x):
        h = F.relu(self.c1(x))
        h = F.relu(self.c2(h))
        h = F.relu(self.fc(h.flatten(1)))
        v, a = self.v(h), self.a(h)
        return v + a - a.mean(dim=1, keepdim=True)


def to_t(o):
    return torch.from_numpy(np.asarray(o)).permute(0, 3, 1, 2).float() / 255


buf, prio, pos = [], np.zeros(CAP), 0


def push(tr):
    global pos
    if len(buf) < CAP:
        buf.append(tr)
    else:
        buf[pos] = tr
    prio[pos] = prio.max() if prio.max() > 0 else 1.0
    pos = (pos + 1) % CAP


def draw(beta):
    p = prio[:len(buf)] ** ALPHA
    p = p / p.sum()
    ix = np.random.choice(len(buf), BS, p=p)
    w = (len(buf) * p[ix]) ** -beta
    s, a, r, s2, d = zip(*[buf[i] for i in ix])
    return (ix, to_t(s), torch.tensor(a), torch.tensor(r), to_t(s2), torch.tensor(d).float(),
            torch.tensor(w / w.max()).float())


net, tgt = Net(), Net()
tgt.load_state_dict(net.state_dict())
opt = torch.optim.Adam(net.parameters(), lr=LR, eps=EPS_ADAM)
env, ret, rets = Grid(), 0.0, []
s = env.reset()

for t in range(STEPS):
    eps = max(0.05, 1.0 - t / 8000)
    if random.random() < eps:
        a = random.randrange(4)
    else:
        with torch.no_grad():
            a = net(to_t(s[None])).argmax(1).item()
    s2, r, d, stop = env.step(a)
    push((s, a, r, s2, d))
    ret += r
    s = s2
    if stop:
        rets.append(ret)
        ret, s = 0.0, env.reset()
    if t < WARM:
        continue
    ix, bs, ba, br, bs2, bd, w = draw(min(1.0, BETA0 + 0.6 * t / STEPS))
    q = net(bs).gather(1, ba[:, None]).squeeze(1)
    with torch.no_grad():
        best = net(bs2).argmax(1, keepdim=True)
        y = br + G * (1 - bd) * tgt(bs2).gather(1, best).squeeze(1)
    td = q - y
    loss = (w * F.smooth_l1_loss(q, y, reduction="none")).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 10.0)
    opt.step()
    prio[ix] = td.detach().abs().numpy() + 1e-3
    if t % SYNC == 0:
        tgt.load_state_dict(net.state_dict())
    if t % 1000 == 0:
        print(t, "loss", round(loss.item(), 5), "return", np.mean(rets[-50:]).round(3), "eps", round(eps, 2))
