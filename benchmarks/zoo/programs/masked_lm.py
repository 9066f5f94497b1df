"""Masked language model on a synthetic grammar; most positions are ignored, tied output weights."""

import math
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
random.seed(seed)
VOCAB, MASK, LENGTH = 34, 33, 24
table = torch.randint(0, 33, (33, 2))


def sentences(n):
    rows = torch.empty(n, LENGTH, dtype=torch.long)
    rows[:, 0] = torch.randint(0, 33, (n,))
    for i in range(1, LENGTH):
        pick = (torch.rand(n) < 0.15).long()
        rows[:, i] = table[rows[:, i - 1], pick]
    return rows


def mask_tokens(ids):
    labels = ids.clone()
    chosen = torch.rand(ids.shape) < 0.2
    labels[~chosen] = -100
    inputs = ids.clone()
    inputs[chosen & (torch.rand(ids.shape) < 0.8)] = MASK
    swap = chosen & (inputs != MASK) & (torch.rand(ids.shape) < 0.5)
    inputs[swap] = torch.randint(0, 33, ids.shape)[swap]
    return inputs, labels


class Bert(nn.Module):
    def __init__(self, width=64, depth=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.positions = nn.Parameter(torch.zeros(1, LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 128, 0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        nn.init.normal_(self.tokens.weight, std=0.05)

    def forward(self, ids):
        hidden = self.encoder(self.tokens(ids) * math.sqrt(64) + self.positions)
        return self.head(hidden) @ self.tokens.weight.T + self.bias


train, test = sentences(4096), sentences(512)
model = Bert()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 50) * max(0.02, 1 - s / 450))
step = 0
while step < 450:
    for rows in train[torch.randperm(len(train))].split(64):
        inputs, labels = mask_tokens(rows)
        logits = model(inputs)
        loss = F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=-100)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        step += 1
        if step % 75 == 0:
            print(f"step {step} loss {loss.item():.3f}")
        if step == 450:
            break
model.eval()
with torch.no_grad():
    torch.manual_seed(1)
    inputs, labels = mask_tokens(test)
    print("result", F.cross_entropy(model(inputs).view(-1, VOCAB), labels.view(-1), ignore_index=-100).item())
