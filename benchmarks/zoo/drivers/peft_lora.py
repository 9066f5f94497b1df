"""LoRA by peft on a small BERT whose backbone is frozen: which of two symbols is more frequent."""

import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
config = BertConfig(
    vocab_size=30,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=32,
    num_labels=2,
)
lora = LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["query", "value"])
model = get_peft_model(BertForSequenceClassification(config), lora)
model.print_trainable_parameters()


def batch(n):
    ids = torch.randint(2, 30, (n, 16))
    return ids, ((ids < 12).sum(1) > (ids > 19).sum(1)).long()


optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
model.train()
for step in range(400):
    ids, labels = batch(32)
    loss = model(input_ids=ids, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())
model.eval()
with torch.no_grad():
    ids, labels = batch(1000)
    print("result", model(input_ids=ids, labels=labels).loss.item())
