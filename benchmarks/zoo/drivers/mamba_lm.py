"""Mamba copies the first symbol of a sequence over a distance; plain loop."""

import sys

import torch
from transformers import MambaConfig, MambaForCausalLM

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
model = MambaForCausalLM(MambaConfig(vocab_size=20, hidden_size=48, num_hidden_layers=2, state_size=8))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def batch(n):
    tokens = torch.randint(2, 20, (n, 16))
    tokens[:, 8:] = tokens[:, :8]
    labels = tokens.clone()
    labels[:, :8] = -100
    return {"input_ids": tokens, "labels": labels}


for step in range(300):
    loss = model(**batch(16)).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())
model.eval()
with torch.no_grad():
    print("result", model(**batch(256)).loss.item())
