"""GRPO on a token-generation task with a verifiable reward: write the prompt's digits in ascending order."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

DIGITS, N_DIGITS = 8, 4
BOS, SEP = DIGITS, DIGITS + 1
VOCAB = DIGITS + 2
PROMPT_LEN, ANSWER_LEN = N_DIGITS + 2, N_DIGITS


def make_prompts(n, gen):
    digits = torch.randint(0, DIGITS, (n, N_DIGITS), generator=gen)
    bos, sep = torch.full((n, 1), BOS), torch.full((n, 1), SEP)
    return torch.cat([bos, digits, sep], dim=1)


def reward_fn(prompts, answers):
    """Fraction of correct places, plus a bonus for a completely correct answer."""
    target = prompts[:, 1:-1].sort(dim=1).values
    hits = (answers == target).float()
    return hits.mean(1) + hits.prod(1)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(att.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class TinyLM(nn.Module):
    def __init__(self, dim=40, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(PROMPT_LEN + ANSWER_LEN, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, DIGITS)

    def forward(self, tokens):
        x = self.tok(tokens) + self.pos(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


@torch.no_grad()
def generate(model, prompts, greedy=False):
    tokens = prompts
    for _ in range(ANSWER_LEN):
        logits = model(tokens)[:, -1]
        nxt = logits.argmax(-1, keepdim=True) if greedy else torch.multinomial(logits.softmax(-1), 1)
        tokens = torch.cat([tokens, nxt], dim=1)
    return tokens


def answer_logps(model, tokens):
    logits = model(tokens[:, :-1])[:, PROMPT_LEN - 1:]
    logps = logits.log_softmax(-1)
    return logps.gather(-1, tokens[:, PROMPT_LEN:, None]).squeeze(-1)


def warm_up(model, gen, steps=40, batch=64):
    """Short supervised stage on noisy demonstrations, so that exploration has somewhere to start."""
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        prompts = make_prompts(batch, gen)
        answer = prompts[:, 1:-1].sort(dim=1).values
        noise = torch.randint(0, DIGITS, answer.shape, generator=gen)
        answer = torch.where(torch.rand(answer.shape, generator=gen) < 0.5, noise, answer)
        loss = -answer_logps(model, torch.cat([prompts, answer], dim=1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class GRPOTrainer:
    def __init__(self, model, group=8, clip=0.2, beta=0.01, lr=1e-3, epochs=2, iterations=80):
        self.policy = model
        self.reference = copy.deepcopy(model).requires_grad_(False)
        self.group, self.clip, self.beta, self.epochs = group, clip, beta, epochs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
        total = iterations * epochs
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / 10) * max(0.1, 1 - step / total))

    def advantages(self, rewards):
        grouped = rewards.view(-1, self.group)
        centred = grouped - grouped.mean(dim=1, keepdim=True)
        return (centred / (grouped.std(dim=1, keepdim=True) + 1e-4)).view(-1)

    def loss(self, tokens, old_logps, ref_logps, adv):
        logps = answer_logps(self.policy, tokens)
        ratio = (logps - old_logps).exp()
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        surrogate = torch.minimum(ratio * adv[:, None], clipped * adv[:, None])
        log_ref = ref_logps - logps
        kl = log_ref.exp() - log_ref - 1
        return -(surrogate - self.beta * kl).mean(), kl.mean().item()

    def step(self, prompts):
        repeated = prompts.repeat_interleave(self.group, dim=0)
        tokens = generate(self.policy, repeated)
        rewards = reward_fn(repeated, tokens[:, PROMPT_LEN:])
        adv = self.advantages(rewards)
        with torch.no_grad():
            old_logps = answer_logps(self.policy, tokens)
            ref_logps = answer_logps(self.reference, tokens)
        for _ in range(self.epochs):
            loss, kl = self.loss(tokens, old_logps, ref_logps, adv)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
        return rewards.mean().item(), kl


def error_rate(model, prompts):
    """Share of held-out prompts whose greedy answer is not completely right."""
    answers = generate(model, prompts, greedy=True)[:, PROMPT_LEN:]
    target = prompts[:, 1:-1].sort(dim=1).values
    return 1.0 - (answers == target).all(dim=1).float().mean().item()


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed)
    held_out = make_prompts(500, torch.Generator().manual_seed(10_000 + seed))
    model = TinyLM()
    warm_up(model, gen)
    print(f"after warm-up: error {error_rate(model, held_out):.4f}")
    trainer = GRPOTrainer(model)
    for it in range(80):
        reward, kl = trainer.step(make_prompts(16, gen))
        if it % 15 == 0:
            print(f"iteration {it} reward {reward:.3f} kl {kl:.4f}")
    print(f"result {error_rate(model, held_out):.5f}")
