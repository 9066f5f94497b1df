"""sentence-transformers: in-batch negatives on a small BERT made from a configuration."""

import sys
import tempfile

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
    models,
)
from tokenizers import Tokenizer
from tokenizers import models as kinds
from tokenizers import pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, set_seed

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
set_seed(seed)
folder = tempfile.mkdtemp()
base = Tokenizer(
    kinds.WordLevel(
        {word: i for i, word in enumerate(["[PAD]", "[UNK]"] + [f"w{i}" for i in range(60)])}, unk_token="[UNK]"
    )
)
base.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=base, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
BertModel(
    BertConfig(vocab_size=62, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
).save_pretrained(folder)
words = models.Transformer(folder, max_seq_length=16)
model = SentenceTransformer(modules=[words, models.Pooling(64)], device="cpu")


def pairs(n):
    topics = torch.randint(0, 12, (n,))
    say = lambda topic: " ".join(f"w{5 * topic + int(i)}" for i in torch.randint(0, 5, (6,)))
    return Dataset.from_dict(
        {"anchor": [say(t) for t in topics.tolist()], "positive": [say(t) for t in topics.tolist()]}
    )


arguments = SentenceTransformerTrainingArguments(
    "out",
    per_device_train_batch_size=12,
    max_steps=300,
    learning_rate=5e-4,
    seed=seed,
    logging_steps=50,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
)
loss = losses.MultipleNegativesRankingLoss(model)
trainer = SentenceTransformerTrainer(model, arguments, train_dataset=pairs(3600), eval_dataset=pairs(240), loss=loss)
trainer.train()
print("result", trainer.evaluate()["eval_loss"])
