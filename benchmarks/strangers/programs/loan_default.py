"""Default prediction on tabular data: rare positives, negative down-sampling, merchant target encoding."""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(17)
torch.manual_seed(17)

CARDS = {"branch": 40, "product": 7, "job": 25}
N_MERCHANTS = 4000
KEEP_NEG = 0.2
FOLDS, PRIOR_STRENGTH = 5, 3.0


def make_table(n, world):
    cols = {k: rng.integers(0, c, n) for k, c in CARDS.items()}
    cols["merchant"] = np.minimum((rng.pareto(0.8, n) * 150).astype(int), N_MERCHANTS - 1)
    cols["amount"] = rng.lognormal(7, 1.1, n)
    cols["balance"] = rng.normal(500, 2500, n)
    cols["age"] = rng.uniform(20, 75, n)
    logit = -5.0 + world["merchant"][cols["merchant"]]
    for k in CARDS:
        logit = logit + world[k][cols[k]]
    logit = logit + 0.5 * (np.log(cols["amount"]) - 7) - 0.7 * np.arcsinh(cols["balance"] / 1000)
    logit = logit + 0.8 * world["job"][cols["job"]] * (cols["age"] - 45) / 15
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return cols, y


def rate_table(keys, y, prior):
    hits = np.bincount(keys, weights=y, minlength=N_MERCHANTS)
    seen = np.bincount(keys, minlength=N_MERCHANTS)
    return (hits + PRIOR_STRENGTH * prior) / (seen + PRIOR_STRENGTH)


def encode_merchant(train_keys, y, other_keys):
    prior = y.mean()
    fold = rng.integers(0, FOLDS, len(y))
    inside = np.zeros(len(y))
    for f in range(FOLDS):
        rest = fold != f
        inside[fold == f] = rate_table(train_keys[rest], y[rest], prior)[train_keys[fold == f]]
    outside = [rate_table(train_keys, y, prior)[k] for k in other_keys]
    logit = lambda p: np.log(p / (1 - p))
    return logit(inside), [logit(p) for p in outside]


def numeric(cols, merchant):
    return np.column_stack([
        np.log1p(cols["amount"]),
        np.arcsinh(cols["balance"] / 1000),
        cols["age"],
        merchant,
    ]).astype(np.float32)


class TabNet(nn.Module):
    def __init__(self, cards, n_num, width=64):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c, min(4, c // 2 + 1)) for c in cards])
        d = sum(e.embedding_dim for e in self.embeds) + n_num
        self.mlp = nn.Sequential(
            nn.Linear(d, width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, 1),
        )

    def forward(self, cat, num):
        parts = [e(cat[:, i]) for i, e in enumerate(self.embeds)]
        return self.mlp(torch.cat(parts + [num], 1)).squeeze(1)


def log_loss(p, y):
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return float(-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean())


def average_precision(p, y):
    y = y[np.argsort(-p, kind="stable")]
    return float((np.cumsum(y) / np.arange(1, len(y) + 1) * y).sum() / y.sum())


def calibration_error(p, y, bins=10):
    groups = np.array_split(np.argsort(p), bins)
    return float(sum(len(g) * abs(p[g].mean() - y[g].mean()) for g in groups) / len(p))


@torch.no_grad()
def predict(net, cat, num):
    net.eval()
    z = net(cat, num)
    net.train()
    # training saw only KEEP_NEG of the negatives
    return torch.sigmoid(z + np.log(KEEP_NEG)).numpy()


world = {k: 0.8 * rng.normal(size=c) for k, c in CARDS.items()}
world["merchant"] = 0.9 * rng.normal(size=N_MERCHANTS)
train, y_train = make_table(40000, world)
valid, y_valid = make_table(8000, world)
test, y_test = make_table(12000, world)
enc_train, (enc_valid, enc_test) = encode_merchant(train["merchant"], y_train, [valid["merchant"], test["merchant"]])
num_train = numeric(train, enc_train)
mean, std = num_train.mean(0), num_train.std(0)


def tensors(cols, enc):
    cat = torch.from_numpy(np.column_stack([cols[k] for k in CARDS]))
    return cat, torch.from_numpy((numeric(cols, enc) - mean) / std)


cat, num = tensors(train, enc_train)
kept = np.flatnonzero((y_train == 1) | (rng.random(len(y_train)) < KEEP_NEG))
cat, num, target = cat[kept], num[kept], torch.from_numpy(y_train[kept])
print(f"positives {y_train.mean():.4f}, rows kept {len(kept)}, positives there {target.mean().item():.3f}")

net = TabNet(list(CARDS.values()), num.shape[1])
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
criterion = nn.BCEWithLogitsLoss()
step, best, best_state = 0, float("inf"), None
for epoch in range(8):
    for idx in torch.randperm(len(target)).split(256):
        loss = criterion(net(cat[idx], num[idx]), target[idx])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    val = log_loss(predict(net, *tensors(valid, enc_valid)), y_valid)
    print(f"epoch {epoch} valid log loss {val:.4f}")
    if best_state is None or val < best:
        best, best_state = val, {k: v.clone() for k, v in net.state_dict().items()}

net.load_state_dict(best_state)
p = predict(net, *tensors(test, enc_test))
base = log_loss(np.full(len(y_test), y_train.mean()), y_test)
print(f"AP {average_precision(p, y_test):.4f} (chance {y_test.mean():.4f}) ECE {calibration_error(p, y_test):.4f}")
print("result", round(log_loss(p, y_test) / base, 4))
