"""GraphSAGE of torch_geometric on a stochastic block model."""

import sys

import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE
from torch_geometric.seed import seed_everything
from torch_geometric.utils import stochastic_blockmodel_graph

seed_everything(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
sizes = [120] * 5
chances = torch.full((5, 5), 0.004).fill_diagonal_(0.03)
edges = stochastic_blockmodel_graph(sizes, chances)
y = torch.arange(5).repeat_interleave(120)
x = torch.randn(600, 32) + 0.5 * torch.randn(5, 32)[y]
order = torch.randperm(600)
train, test = order[:150], order[300:]
model = GraphSAGE(32, 32, num_layers=2, out_channels=5, dropout=0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(400):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, edges)[train], y[train])
    loss.backward()
    optimizer.step()
    if epoch % 100 == 0:
        print(epoch, loss.item())
model.eval()
with torch.no_grad():
    print("result", F.cross_entropy(model(x, edges)[test], y[test]).item())
