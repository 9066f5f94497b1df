"""A Mixtral of two layers with its auxiliary loss, under accelerate with accumulation."""

import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import MixtralConfig, MixtralForCausalLM

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
moves = torch.softmax(3 * torch.randn(32, 32, generator=torch.Generator().manual_seed(1)), -1)


def walks(n):
    tokens = torch.randint(0, 32, (n, 1))
    for _ in range(23):
        tokens = torch.cat([tokens, torch.multinomial(moves[tokens[:, -1]], 1)], 1)
    return tokens


config = MixtralConfig(
    vocab_size=32,
    hidden_size=48,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_local_experts=4,
    output_router_logits=True,
    router_aux_loss_coef=0.01,
)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = MixtralForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(walks(4800), batch_size=8, shuffle=True))
for number, tokens in enumerate(loader):
    with accelerator.accumulate(model):
        loss = model(input_ids=tokens, labels=tokens).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if number % 100 == 0:
        print(number, loss.item())
model.eval()
with torch.no_grad():
    held = walks(200)
    print("result", model(input_ids=held, labels=held, output_router_logits=False).loss.item())
