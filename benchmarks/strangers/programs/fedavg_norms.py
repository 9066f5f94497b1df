# federated averaging over clients with skewed labels
import copy
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLIENTS, PER_ROUND, ROUNDS = 12, 5, 40
LOCAL_EPOCHS, BATCH = 2, 20
LR, LR_DECAY = 0.12, 0.97
CLASSES, DIM = 6, 16


def make_population(seed):
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 1.0, (CLASSES, 3, DIM))
    warp = rng.normal(0, 0.35, (DIM, DIM))

    def draw(labels):
        mode = rng.integers(0, 3, len(labels))
        x = centers[labels, mode] + rng.normal(0, 0.7, (len(labels), DIM))
        x = x + np.tanh(x @ warp)
        return torch.tensor(x, dtype=torch.float32), torch.tensor(labels)

    clients = []
    for k in range(CLIENTS):
        mix = rng.dirichlet(np.full(CLASSES, 0.4))
        n = int(rng.integers(80, 260))
        clients.append(draw(rng.choice(CLASSES, n, p=mix)))
    val = draw(rng.integers(0, CLASSES, 400))
    test = draw(rng.integers(0, CLASSES, 1500))
    return clients, val, test


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.f1 = nn.Linear(DIM, 64)
        self.f2 = nn.Linear(64, 64)
        self.out = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = F.relu(self.f1(x))
        x = F.dropout(F.relu(self.f2(x)), p=0.2, training=self.training)
        return self.out(x)


class Client:
    def __init__(self, data):
        self.x, self.y = data
        self.size = len(self.y)
        self.model = Classifier()

    def local_train(self, global_state, lr):
        self.model.load_state_dict(global_state)
        opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.5)
        losses = []
        for _ in range(LOCAL_EPOCHS):
            for idx in torch.randperm(self.size).split(BATCH):
                loss = F.cross_entropy(self.model(self.x[idx]), self.y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
        return copy.deepcopy(self.model.state_dict()), sum(losses) / len(losses)


class Server:
    def __init__(self, clients):
        self.model = Classifier()
        self.clients = clients
        self.lr = LR

    def aggregate(self, states, sizes):
        total = sum(sizes)
        new = {}
        for key in states[0]:
            new[key] = sum(s[key] * (n / total) for s, n in zip(states, sizes))
        self.model.load_state_dict(new)

    def round(self):
        chosen = np.random.choice(len(self.clients), PER_ROUND, replace=False)
        states, sizes, losses = [], [], []
        for k in chosen:
            state, loss = self.clients[k].local_train(self.model.state_dict(), self.lr)
            states.append(state)
            sizes.append(self.clients[k].size)
            losses.append(loss)
        self.aggregate(states, sizes)
        self.lr *= LR_DECAY
        return sum(losses) / len(losses)

    @torch.no_grad()
    def evaluate(self, x, y):
        self.model.eval()
        logits = self.model(x)
        return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main(seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    clients, val, test = make_population(seed)
    server = Server([Client(c) for c in clients])
    for r in range(1, ROUNDS + 1):
        local = server.round()
        if r % 8 == 0:
            loss, acc = server.evaluate(*val)
            print(f"round {r:3d} | local loss {local:.4f} | val loss {loss:.4f} acc {acc:.3f} | lr {server.lr:.4f}")
    loss, acc = server.evaluate(*test)
    print(f"test acc {acc:.3f}")
    print(f"result {loss:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
