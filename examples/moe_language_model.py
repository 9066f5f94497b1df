"""Train a language model whose feed-forward parts are mixtures of experts, no token dropped, watched from the inside.

python examples/moe_language_model.py [STORE] [STEPS]
mindscope dashboard STORE
"""

import sys
from collections.abc import Iterator

import mindscope as ms
import numpy as np
from mindscope.framework import Key, Tensor, nn, random
from mindscope.framework.data import GeneratorDataset
from mindscope.framework.optim import CosineDecay
from mindscope.framework.train import TrainStep
from mindscope.framework.train.metrics import Perplexity

NOUNS, VERBS = ["cat", "dog", "bird", "fox", "crow", "hare"], ["sees", "hears", "fears", "likes"]
PLACES = ["wood", "field", "town", "lake"]
POSITIONS = 32


def sentence(generator: np.random.Generator) -> str:
    """The grammar: who, what, whom, and sometimes where; a verb of plural subjects loses its s."""
    many = generator.random() < 0.5
    who, whom = generator.choice(NOUNS, 2)
    verb = generator.choice(VERBS)
    text = f"the {who}{'s' if many else ''} {verb[:-1] if many else verb} a {whom}"
    return f"{text} in the {generator.choice(PLACES)}. " if generator.random() < 0.4 else f"{text}. "


ALPHABET = sorted(set("".join((*NOUNS, *VERBS, *PLACES))) | set("the a in s. "))


def windows(epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Letters and the letters that follow them, without end."""
    generator = np.random.default_rng([3, epoch])
    text: list[int] = []
    while True:
        while len(text) <= POSITIONS:
            text += [ALPHABET.index(letter) for letter in sentence(generator)]
        window = np.array(text[: POSITIONS + 1])
        del text[:POSITIONS]
        yield window[:-1], window[1:]


class Block(nn.Cell):
    """`x += attention(norm(x)); x += experts(norm(x))`, and how unevenly the experts were chosen."""

    def __init__(self, width: int, rope: nn.RotaryEmbedding, key: Key) -> None:
        super().__init__()
        of_attention, of_experts = random.split(key)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = nn.GroupedQueryAttention(width, 4, 2, rope=rope, key=of_attention)
        self.experts = nn.MixtureOfExperts(width, width, experts=8, top_k=2, key=of_experts)

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output, and what its experts add to the loss."""
        x = x + self.attention(self.norm1(x))
        y, balance, of_logits = self.experts(self.norm2(x))
        return x + y, 0.01 * balance + 0.001 * of_logits


class LanguageModel(nn.Cell):
    """The logits of the next letter, or with the letters that followed, the loss."""

    def __init__(self, width: int, depth: int, key: Key) -> None:
        super().__init__()
        of_table, of_head, *of_blocks = random.split(key, 2 + depth)
        self.table = nn.Embedding(len(ALPHABET), width, key=of_table)
        rope = nn.RotaryEmbedding(width // 4, POSITIONS)
        self.blocks = nn.CellList(Block(width, rope, of_block) for of_block in of_blocks)
        self.norm = nn.RMSNorm(width)
        self.head = nn.Dense(width, len(ALPHABET), has_bias=False, key=of_head)
        self.loss = nn.CrossEntropyLoss()

    def construct(self, letters: Tensor, following: Tensor | None = None) -> Tensor:
        """Logits `(batch, positions, letters)`; the loss where the following letters are given."""
        x, extra = self.table(letters), None
        for block in self.blocks:
            x, of_block = block(x)
            extra = of_block if extra is None else extra + of_block
        logits = self.head(self.norm(x))
        return logits if following is None else self.loss(logits, following) + extra


def continued(network: nn.Cell, prompt: str, letters: int) -> str:
    """The prompt and the letters that the model finds most likely after it."""
    text = prompt
    for _ in range(letters):
        seen = [ALPHABET.index(letter) for letter in text[-POSITIONS:]]
        text += ALPHABET[int(network(Tensor(np.array([seen]))).numpy()[0, -1].argmax())]
    return text


def main(store: str, steps: int) -> None:
    data = GeneratorDataset(windows).batch(16).prefetch(2)
    network = LanguageModel(32, 2, Key(0))
    optimizer = nn.AdamW(network.trainable_params(), CosineDecay(1e-2, steps, warmup_steps=10))
    step = TrainStep(network, None, optimizer, clip_norm=1.0)
    with ms.watch(network, optimizer, store=store, run="experts") as monitor:
        losses = [float(step(*batch)) for batch in data.take(steps).epoch(0)]
    first, last = np.mean(losses[:5]), np.mean(losses[-5:])
    network.set_train(False)
    perplexity = Perplexity()
    x, y = next(data.epoch(1))
    perplexity.update(network(Tensor(x)), y)
    print(f"experts: loss {first:.3f} -> {last:.3f}, perplexity {perplexity.eval():.2f}, run {monitor.run.id}")
    print(f"  {continued(network, 'the fox', 40)!r}")
    if not last < 0.6 * first:
        raise SystemExit("the loss did not fall")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/", int(sys.argv[2]) if len(sys.argv) > 2 else 120)
