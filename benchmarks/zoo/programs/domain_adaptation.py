"""Domain-adversarial network: a gradient reversal layer makes features that hide where a sample is from."""

import sys

import numpy as np
import torch
import torch.nn as nn


class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.weight * grad, None


class DANN(nn.Module):
    def __init__(self, features=20, hidden=64, classes=4):
        super().__init__()
        self.feature = nn.Sequential(
            nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, 32), nn.ReLU()
        )
        self.class_classifier = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))
        self.domain_classifier = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x, alpha):
        h = self.feature(x)
        return self.class_classifier(h), self.domain_classifier(ReverseGradient.apply(h, alpha))


def main(seed):
    torch.manual_seed(seed)
    rng = np.random.RandomState(seed)
    means = rng.randn(4, 20) * 1.5
    shift = rng.randn(20) * 0.8

    def sample(n, moved):
        y = rng.randint(0, 4, n)
        x = means[y] + rng.randn(n, 20) + (shift if moved else 0)
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y)

    source, target, target_test = sample(4000, False), sample(4000, True), sample(1000, True)
    net = DANN()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_class, loss_domain = nn.CrossEntropyLoss(), nn.CrossEntropyLoss()
    steps, batch = 900, 64
    for i in range(steps):
        p = i / steps
        alpha = 2.0 / (1.0 + np.exp(-10 * p)) - 1
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (1 + 10 * p) ** 0.75
        a, b = rng.randint(0, 4000, batch), rng.randint(0, 4000, batch)
        optimizer.zero_grad()
        class_out, domain_out = net(source[0][a], alpha)
        err_label = loss_class(class_out, source[1][a])
        err_source = loss_domain(domain_out, torch.zeros(batch, dtype=torch.long))
        _, domain_out = net(target[0][b], alpha)
        err_target = loss_domain(domain_out, torch.ones(batch, dtype=torch.long))
        err = err_label + err_source + err_target
        err.backward()
        optimizer.step()
        if i % 150 == 0:
            print("step %d label %.3f source %.3f target %.3f" % (i, err_label, err_source, err_target))
    net.eval()
    with torch.no_grad():
        print("result", nn.functional.cross_entropy(net(target_test[0], 0.0)[0], target_test[1]).item())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
