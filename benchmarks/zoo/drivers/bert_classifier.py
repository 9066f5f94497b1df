"""A small BERT classifies token sequences; plain loop with Hugging Face's schedule."""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
config = BertConfig(
    vocab_size=50,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=32,
    num_labels=3,
)
model = BertForSequenceClassification(config)


def batch(n):
    ids = torch.randint(4, 50, (n, 20))
    labels = torch.randint(0, 3, (n,))
    for row, label in zip(ids, labels):
        row[torch.randperm(20)[:4]] = label + 1
    mask = (torch.arange(20) < torch.randint(14, 21, (n, 1))).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
scheduler = get_linear_schedule_with_warmup(optimizer, 40, 400)
model.train()
for step in range(400):
    loss = model(**batch(32)).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        print(step, loss.item())
model.eval()
with torch.no_grad():
    print("result", sum(model(**batch(100)).loss.item() for _ in range(5)) / 5)
