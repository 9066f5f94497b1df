"""GPT-2 of two layers on Markov text, Hugging Face Trainer with its defaults."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
set_seed(seed)
moves = torch.softmax(3 * torch.randn(40, 40, generator=torch.Generator().manual_seed(1)), -1)


def walks(n):
    tokens = torch.randint(0, 40, (n, 1))
    for _ in range(31):
        tokens = torch.cat([tokens, torch.multinomial(moves[tokens[:, -1]], 1)], 1)
    return [{"input_ids": row, "labels": row} for row in tokens]


model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=32, n_embd=64, n_layer=2, n_head=4))
arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=16,
    max_steps=400,
    learning_rate=1e-3,
    warmup_steps=40,
    lr_scheduler_type="cosine",
    logging_steps=50,
    eval_strategy="steps",
    eval_steps=200,
    save_strategy="no",
    report_to="none",
    seed=seed,
    use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=walks(3000), eval_dataset=walks(300))
trainer.train()
print("result", trainer.evaluate()["eval_loss"])
