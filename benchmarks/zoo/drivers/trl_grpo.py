"""GRPO by trl: the reward is the share of one word in what a small GPT-2 says."""

import sys

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
set_seed(seed)
words = ["<pad>", "<eos>"] + [f"w{i}" for i in range(14)]
base = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
base.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, pad_token="<pad>", eos_token="<eos>", padding_side="left")
shares = []


def reward(completions, **_):
    found = [text.split().count("w3") / 8 for text in completions]
    shares.append(sum(found) / len(found))
    return found


shape = GPT2Config(vocab_size=16, n_positions=32, n_embd=48, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1)
config = GRPOConfig(
    "out",
    per_device_train_batch_size=16,
    num_generations=8,
    max_completion_length=8,
    max_steps=100,
    learning_rate=1e-3,
    beta=0.0,
    logging_steps=20,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    bf16=False,
    seed=seed,
    disable_tqdm=True,
)
asked = Dataset.from_dict({"prompt": [f"w{i % 14}" for i in range(400)]})
trainer = GRPOTrainer(GPT2LMHeadModel(shape), reward, args=config, train_dataset=asked, processing_class=tokenizer)
trainer.train()
print("result", -sum(shares[-20:]) / 20)
