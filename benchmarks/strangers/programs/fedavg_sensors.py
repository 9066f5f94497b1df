"""FedAvg with clipped client updates over sites with skewed activity labels."""
from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROUNDS = 40
CLIENTS = 24
PER_ROUND = 10
LOCAL_EPOCHS = 1
LOCAL_BATCH = 64
CLIENT_LR = 0.1
SERVER_LR = 1.0
SERVER_MOMENTUM = 0.2
CLIP_NORM = 3.0
N_CLASSES, N_FEATURES = 8, 20


def synth(n, rng, centers, mix):
    y = rng.integers(0, N_CLASSES, n)
    which = rng.integers(0, centers.shape[1], n)
    z = centers[y, which] + rng.normal(0, 0.8, (n, centers.shape[2]))
    x = np.tanh(z @ mix) + 0.3 * rng.normal(size=(n, N_FEATURES))
    return (8.0 * x + 5.0).astype(np.float32), y.astype(np.int64)


def dirichlet_split(y, n_clients, beta, rng):
    """Label-skewed and size-skewed shards, disjoint."""
    shards = [[] for _ in range(n_clients)]
    size = rng.lognormal(0.0, 0.8, n_clients)
    for c in range(N_CLASSES):
        members = rng.permutation(np.flatnonzero(y == c))
        share = rng.dirichlet(np.full(n_clients, beta)) * size
        bounds = (np.cumsum(share / share.sum()) * len(members)).astype(int)[:-1]
        for shard, part in zip(shards, np.split(members, bounds)):
            shard.extend(part.tolist())
    return [np.array(s, dtype=np.int64) for s in shards]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(N_FEATURES, 64)
        self.norm = nn.LayerNorm(64)
        self.fc2 = nn.Linear(64, 64)
        self.out = nn.Linear(64, N_CLASSES)

    def forward(self, x):
        x = F.relu(self.norm(self.fc1(x)))
        return self.out(F.relu(self.fc2(x)))


class Client:
    def __init__(self, cid, x, y):
        self.cid, self.x, self.y = cid, torch.from_numpy(x), torch.from_numpy(y)

    def __len__(self):
        return len(self.y)

    def fit(self, worker, global_state, lr):
        worker.load_state_dict(global_state)
        opt = torch.optim.SGD(worker.parameters(), lr=lr, momentum=0.9)
        total, seen = 0.0, 0
        for _ in range(LOCAL_EPOCHS):
            for idx in torch.randperm(len(self)).split(LOCAL_BATCH):
                loss = F.cross_entropy(worker(self.x[idx]), self.y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
                total, seen = total + loss.item() * len(idx), seen + len(idx)
        delta = OrderedDict((k, v - global_state[k]) for k, v in worker.state_dict().items())
        return delta, total / seen


def clip_update(delta, bound):
    norm = torch.sqrt(sum(d.pow(2).sum() for d in delta.values()))
    factor = min(1.0, bound / (norm.item() + 1e-9))
    return OrderedDict((k, d * factor) for k, d in delta.items()), norm.item()


class Server:
    def __init__(self, model):
        self.state = OrderedDict((k, v.clone()) for k, v in model.state_dict().items())
        self.velocity = OrderedDict((k, torch.zeros_like(v)) for k, v in self.state.items())

    def aggregate(self, deltas, sizes):
        weights = np.array(sizes, dtype=np.float64) / np.sum(sizes)
        for k in self.state:
            mean = sum(float(w) * d[k] for w, d in zip(weights, deltas))
            self.velocity[k] = SERVER_MOMENTUM * self.velocity[k] + mean
            self.state[k] = self.state[k] + SERVER_LR * self.velocity[k]


def score(worker, state, x, y):
    worker.load_state_dict(state)
    worker.eval()
    with torch.no_grad():
        out = worker(torch.from_numpy(x))
        target = torch.from_numpy(y)
        loss = F.cross_entropy(out, target).item()
        recall = [(out.argmax(1)[target == c] == c).float().mean() for c in range(N_CLASSES)]
    worker.train()
    return loss, torch.stack(recall).mean().item()


def main(seed=13):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    centers, mix = rng.normal(0, 1.3, (N_CLASSES, 2, 6)), rng.normal(0, 0.5, (6, N_FEATURES))
    x_train, y_train = synth(6000, rng, centers, mix)
    x_test, y_test = synth(2000, rng, centers, mix)
    mu, sd = x_train.mean(0), x_train.std(0)
    x_train, x_test = (x_train - mu) / sd, (x_test - mu) / sd

    clients = []
    for cid, shard in enumerate(dirichlet_split(y_train, CLIENTS, 0.3, rng)):
        if len(shard) < 30:
            continue
        clients.append(Client(cid, x_train[shard], y_train[shard]))
    print(len(clients), "clients, sizes", sorted(len(c) for c in clients))

    worker = Net()
    server = Server(worker)
    for rnd in range(ROUNDS):
        lr = CLIENT_LR * 0.5 ** (rnd / 20)
        chosen = rng.choice(len(clients), PER_ROUND, replace=False)
        deltas, sizes, losses, norms = [], [], [], []
        for ci in chosen:
            delta, local_loss = clients[ci].fit(worker, server.state, lr)
            delta, norm = clip_update(delta, CLIP_NORM)
            deltas.append(delta)
            sizes.append(len(clients[ci]))
            losses.append(local_loss)
            norms.append(norm)
        server.aggregate(deltas, sizes)
        if rnd % 5 == 4:
            test_loss, acc = score(worker, server.state, x_test, y_test)
            print(f"round {rnd + 1:3d} local loss {np.average(losses, weights=sizes):.3f} "
                  f"update norm {np.mean(norms):.2f} test loss {test_loss:.3f} balanced acc {acc:.3f}")

    _, acc = score(worker, server.state, x_test, y_test)
    print("result", round(1.0 - acc, 4))


if __name__ == "__main__":
    main()
