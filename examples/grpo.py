"""Teach a small policy by reward alone to answer with the digits of its prompt in order: a GRPO loop, watched.

python examples/grpo.py [STORE] [STEPS]
mindscope dashboard STORE

Every prompt is answered by a group of samples; whether an answer is right can be verified, and its advantage is how
much better it is than its group. No critic is needed.

Reference:
    Shao et al. 2024, arXiv:2402.03300, eq. 3 and 4; no division by the length, as in Liu et al. 2025, arXiv:2503.20783.
"""

import copy
import sys

import mindscope as ms
import numpy as np
from mindscope.framework import Key, Tensor, nn, no_grad, ops, random, stop_gradient
from mindscope.framework.optim import clip_by_global_norm

DIGITS, LENGTH, SEPARATOR = 6, 3, 6
PROMPTS, GROUP = 16, 8
CLIP_LOW, CLIP_HIGH, KL_WEIGHT, ROUNDS = 0.2, 0.28, 0.01, 2


class Policy(nn.Cell):
    """Logits of the next digit after every token."""

    def __init__(self, width: int, key: Key) -> None:
        super().__init__()
        of_tokens, of_places, of_block, of_head = random.split(key, 4)
        self.tokens = nn.Embedding(DIGITS + 1, width, nn.Normal(0.2), key=of_tokens)
        self.places = nn.Embedding(2 * LENGTH, width, nn.Normal(0.2), key=of_places)
        self.block = nn.TransformerBlock(width, 4, norm="rms", key=of_block)
        self.head = nn.Dense(width, DIGITS, key=of_head)

    def construct(self, tokens: Tensor) -> Tensor:
        """Logits `(batch, positions, DIGITS)` of tokens `(batch, positions)`."""
        x = self.tokens(tokens) + self.places(Tensor(np.arange(tokens.shape[1])))
        return self.head(self.block(x))


def prompts(generator: np.random.Generator) -> np.ndarray:
    """Digits and a separator, each prompt `GROUP` times: `(PROMPTS * GROUP, LENGTH + 1)`."""
    digits = generator.integers(0, DIGITS, (PROMPTS, LENGTH))
    ended = np.concatenate([digits, np.full((PROMPTS, 1), SEPARATOR)], 1)
    return np.repeat(ended, GROUP, 0)


def sampled(policy: Policy, asked: np.ndarray, key: Key) -> np.ndarray:
    """Prompts with answers drawn from the policy: `(rows, 2 * LENGTH + 1)`."""
    text = asked
    with no_grad():
        for of_place in random.split(key, LENGTH):
            drawn = ops.categorical(of_place, policy(Tensor(text))[:, -1])
            text = np.concatenate([text, drawn.numpy()[:, None]], 1)
    return text


def rewards_of(text: np.ndarray) -> np.ndarray:
    """Share of places with the right digit: the prompt's digits, the smallest first."""
    right = np.sort(text[:, :LENGTH], 1)
    return (text[:, LENGTH + 1 :] == right).mean(1)


def log_probabilities(policy: Policy, text: np.ndarray) -> Tensor:
    """Of every digit of the answers: `(rows, LENGTH)`."""
    logits = policy(Tensor(text[:, :-1]))[:, LENGTH:]
    answers = Tensor(text[:, LENGTH + 1 :, None])
    return ops.take_along_axis(ops.log_softmax(logits), answers, -1).reshape(-1, LENGTH)


def grpo_loss(now: Tensor, before: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
    """The clipped gain of the answers that were better than their group, and how far the policy has gone."""
    ratio = ops.exp(now - before)
    gain = ops.minimum(ratio * advantages, ops.clip(ratio, 1.0 - CLIP_LOW, 1.0 + CLIP_HIGH) * advantages)
    away = reference - now
    divergence = ops.exp(away) - away - 1.0  # of the reference, without bias and never negative
    return ops.mean(KL_WEIGHT * divergence - gain)


def main(store: str, steps: int) -> None:
    policy = Policy(32, Key(0)).set_train()
    reference = copy.deepcopy(policy).set_train(False)
    optimizer = nn.AdamW(policy.trainable_params(), 3e-3, weight_decay=0.0)
    generator, failures = np.random.default_rng(0), []
    with ms.watch(policy, optimizer, store=store, run="grpo") as monitor:
        for number in range(steps):
            text = sampled(policy, prompts(generator), random.fold_in(Key(1), number))
            reward = rewards_of(text)
            by_group = reward.reshape(PROMPTS, GROUP)
            better = (by_group - by_group.mean(1, keepdims=True)) / (by_group.std(1, keepdims=True) + 1e-4)
            advantages = Tensor(better.reshape(-1, 1).astype(np.float32))
            with no_grad():
                before, original = log_probabilities(policy, text), log_probabilities(reference, text)
            for _ in range(ROUNDS):
                optimizer.zero_grad()
                loss = grpo_loss(log_probabilities(policy, text), stop_gradient(before), original, advantages)
                loss.backward()
                clip_by_global_norm(optimizer.parameters, 0.5)
                optimizer.step()
                monitor.log(reward=float(reward.mean()))
            failures.append(1.0 - float(reward.mean()))
    first, last = np.mean(failures[:5]), np.mean(failures[-5:])
    print(f"grpo: wrong digits {first:.3f} -> {last:.3f}, run {monitor.run.id}")
    if not last < 0.5 * first:
        raise SystemExit("the policy did not learn")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/", int(sys.argv[2]) if len(sys.argv) > 2 else 60)
