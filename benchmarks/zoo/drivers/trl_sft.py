"""Supervised fine-tuning by trl's SFTTrainer of a small GPT-2 on tokenised walks."""

import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
set_seed(seed)
words = ["<pad>", "<eos>"] + [f"w{i}" for i in range(38)]
base = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
base.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, pad_token="<pad>", eos_token="<eos>")
moves = torch.softmax(3 * torch.randn(38, 38, generator=torch.Generator().manual_seed(1)), -1)


def walks(n):
    tokens = torch.randint(0, 38, (n, 1))
    for _ in range(23):
        tokens = torch.cat([tokens, torch.multinomial(moves[tokens[:, -1]], 1)], 1)
    return Dataset.from_dict({"text": [" ".join(f"w{i}" for i in row) for row in tokens.tolist()]})


model = GPT2LMHeadModel(
    GPT2Config(vocab_size=40, n_positions=32, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1)
)
config = SFTConfig(
    "out",
    per_device_train_batch_size=16,
    max_steps=300,
    learning_rate=2e-3,
    max_length=32,
    seed=seed,
    logging_steps=50,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    bf16=False,
    disable_tqdm=True,
)
trainer = SFTTrainer(model, args=config, train_dataset=walks(2000), eval_dataset=walks(200), processing_class=tokenizer)
trainer.train()
print("result", trainer.evaluate()["eval_loss"])
