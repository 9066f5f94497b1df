"""T5 sorts short lists of digits; Seq2SeqTrainer with Adafactor-free defaults."""

import sys

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration, set_seed

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
set_seed(seed)
config = T5Config(vocab_size=16, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0)


def lists(n):
    source = torch.randint(2, 12, (n, 6))
    target = torch.cat([source.sort(1).values, torch.ones(n, 1, dtype=torch.long)], 1)
    return [{"input_ids": a, "labels": b} for a, b in zip(source, target)]


arguments = Seq2SeqTrainingArguments(
    "out",
    per_device_train_batch_size=32,
    max_steps=500,
    learning_rate=2e-3,
    logging_steps=100,
    save_strategy="no",
    report_to="none",
    seed=seed,
    use_cpu=True,
    disable_tqdm=True,
)
trainer = Seq2SeqTrainer(
    T5ForConditionalGeneration(config), arguments, train_dataset=lists(4000), eval_dataset=lists(300)
)
trainer.train()
print("result", trainer.evaluate()["eval_loss"])
