"""GIN of torch_geometric tells rings from trees; mini-batches of graphs."""

import sys

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def graph(label):
    n = int(torch.randint(8, 16, (1,)))
    ends = (torch.rand(n - 1) * torch.arange(1, n)).long()
    edges = torch.stack([torch.arange(1, n), ends])
    if label:
        edges = torch.cat([edges, torch.randint(0, n, (2, 3))], 1)
    return Data(
        x=torch.ones(n, 4) + 0.1 * torch.randn(n, 4),
        edge_index=torch.cat([edges, edges.flip(0)], 1),
        y=torch.tensor([label]),
    )


graphs = [graph(i % 2) for i in range(1200)]
model = GIN(4, 32, num_layers=3, out_channels=32, norm="batch_norm")
head = torch.nn.Linear(32, 2)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=2e-3)
for epoch in range(12):
    for data in DataLoader(graphs[:1000], batch_size=32, shuffle=True):
        loss = F.cross_entropy(head(global_add_pool(model(data.x, data.edge_index), data.batch)), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
model.eval()
with torch.no_grad():
    data = next(iter(DataLoader(graphs[1000:], batch_size=200)))
    print("result", F.cross_entropy(head(global_add_pool(model(data.x, data.edge_index), data.batch)), data.y).item())
