"""Word vectors by skip-gram with negative sampling; sparse gradients and SparseAdam."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
TOPICS, WORDS = 10, 200


def pairs(n):
    topic = torch.randint(0, TOPICS, (n,))
    own = WORDS // TOPICS
    return topic * own + torch.randint(0, own, (n,)), topic * own + torch.randint(0, own, (n,))


class SkipGram(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.centre = nn.Embedding(WORDS, dim, sparse=True)
        self.context = nn.Embedding(WORDS, dim, sparse=True)
        self.centre.weight.data.uniform_(-0.5 / dim, 0.5 / dim)
        self.context.weight.data.zero_()

    def forward(self, c, o, negatives):
        v = self.centre(c)
        positive = F.logsigmoid((v * self.context(o)).sum(1))
        negative = F.logsigmoid(-torch.bmm(self.context(negatives), v.unsqueeze(2)).squeeze(2)).sum(1)
        return -(positive + negative).mean()


model = SkipGram()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=5e-3)
for step in range(1500):
    c, o = pairs(256)
    loss = model(c, o, torch.randint(0, WORDS, (256, 5)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 300 == 0:
        print(step, loss.item())
with torch.no_grad():
    c, o = pairs(4000)
    print("result", model(c, o, torch.randint(0, WORDS, (4000, 5))).item())
