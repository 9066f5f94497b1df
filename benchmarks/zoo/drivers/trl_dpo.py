"""Preferences by trl's DPOTrainer: answers that repeat the question's word are chosen."""

import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed
from trl import DPOConfig, DPOTrainer

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
set_seed(seed)
words = ["<pad>", "<eos>"] + [f"w{i}" for i in range(14)]
base = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
base.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, pad_token="<pad>", eos_token="<eos>")


def pairs(n):
    rows = []
    for _ in range(n):
        asked, other = torch.randperm(14)[:2].tolist()
        rows.append({"prompt": f"w{asked} ", "chosen": f"w{asked} w{asked}", "rejected": f"w{other} w{asked}"})
    return Dataset.from_list(rows)


shape = GPT2Config(vocab_size=16, n_positions=32, n_embd=48, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1)
model = GPT2LMHeadModel(shape)
reference = GPT2LMHeadModel(shape)
reference.load_state_dict(model.state_dict())
config = DPOConfig(
    "out",
    per_device_train_batch_size=16,
    max_steps=300,
    learning_rate=5e-4,
    beta=0.1,
    seed=seed,
    logging_steps=50,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    bf16=False,
    disable_tqdm=True,
)
trainer = DPOTrainer(
    model, reference, args=config, train_dataset=pairs(1500), eval_dataset=pairs(200), processing_class=tokenizer
)
trainer.train()
print("result", trainer.evaluate()["eval_loss"])
