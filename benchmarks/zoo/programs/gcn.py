"""Two-layer GCN on a stochastic block model, semi-supervised, full batch (Kipf & Welling)."""

import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
rng = np.random.default_rng(seed)
torch.manual_seed(seed)
N, C, D = 900, 5, 60

labels = rng.integers(0, C, N)
same = labels[:, None] == labels[None, :]
adj = np.triu(rng.random((N, N)) < np.where(same, 0.02, 0.003), 1)
adj = (adj | adj.T).astype(np.float32)
topics = rng.random((C, D)) * 0.12
features = (rng.random((N, D)) < 0.05 + topics[labels]).astype(np.float32)
features /= np.maximum(features.sum(1, keepdims=True), 1)

a_hat = adj + np.eye(N, dtype=np.float32)
d = a_hat.sum(1) ** -0.5
adj = torch.tensor(a_hat * d[:, None] * d[None, :])
features, labels = torch.tensor(features), torch.tensor(labels)
perm = rng.permutation(N)
idx_train, idx_val, idx_test = (torch.tensor(p) for p in np.split(perm, [150, 350]))


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return adj @ (x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


model = GCN(D, 32, C, 0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(500):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    if epoch % 25 == 0:
        model.eval()
        with torch.no_grad():
            output = model(features, adj)
            loss_val = F.nll_loss(output[idx_val], labels[idx_val])
        print(f"Epoch: {epoch:04d} loss_train: {loss_train.item():.4f} loss_val: {loss_val.item():.4f}")

model.eval()
with torch.no_grad():
    output = model(features, adj)
print("result", F.nll_loss(output[idx_test], labels[idx_test]).item())
