"""Pretrains a small token model, then tunes it with PPO towards a preference while staying near the pretrained model."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
VOCAB, EOS, BOS, MAXLEN = 14, 0, 14, 14
LIKED = torch.tensor([3, 5, 8])
KL_COEF, CLIP, GAMMA, LAMBDA, VF_COEF = 0.5, 0.2, 1.0, 0.95, 0.5

# the "language": every token may be followed by only four others, and sentences end now and then
chain = torch.full((VOCAB + 1, VOCAB), 1e-4)
for a in range(1, VOCAB + 1):
    chain[a, 1 + torch.randperm(VOCAB - 1)[:4]] += torch.rand(4) + 0.2
    chain[a, EOS] = 0.02 if a == BOS else 0.15
chain = chain / chain.sum(1, keepdim=True)


def corpus(n):
    seqs = torch.full((n, MAXLEN + 1), BOS)
    for t in range(MAXLEN):
        seqs[:, t + 1] = torch.multinomial(chain[seqs[:, t].clamp(min=1)], 1).squeeze(1)
    return seqs[:, 1:] * keep_mask(seqs[:, 1:]).long()


def keep_mask(tokens):
    """1 up to and including the first EOS, 0 behind it."""
    ended = (tokens == EOS).long().cumsum(1)
    return ((ended == 0) | ((ended == 1) & (tokens == EOS))).float()


class TokenPolicy(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + 1, 32)
        self.rnn = nn.GRU(32, width, batch_first=True)
        self.lm_head = nn.Linear(width, VOCAB)
        self.value_head = nn.Linear(width, 1)

    def forward(self, tokens, state=None):
        h, state = self.rnn(self.emb(tokens), state)
        return self.lm_head(h), self.value_head(h).squeeze(-1), state


def score_tokens(model, tokens):
    """Log-probability and value estimate of every sampled token."""
    start = torch.full((len(tokens), 1), BOS)
    inputs = torch.cat([start, tokens[:, :-1]], 1)
    logits, values, _ = model(inputs)
    logp = logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return logp, values


@torch.no_grad()
def rollout(model, n):
    token, state, out = torch.full((n, 1), BOS), None, []
    for _ in range(MAXLEN):
        logits, _, state = model(token, state)
        token = torch.multinomial(logits[:, -1].softmax(-1), 1)
        out.append(token)
    tokens = torch.cat(out, 1)
    mask = keep_mask(tokens)
    return tokens * mask.long(), mask


def preference(tokens):
    """How many liked tokens a sentence holds."""
    return torch.isin(tokens, LIKED).float().sum(1)


def gae(rewards, values, mask):
    adv, last = torch.zeros_like(rewards), torch.zeros(len(rewards))
    for t in reversed(range(MAXLEN)):
        nxt = values[:, t + 1] * mask[:, t + 1] if t + 1 < MAXLEN else torch.zeros(len(rewards))
        delta = rewards[:, t] + GAMMA * nxt - values[:, t]
        last = (delta + GAMMA * LAMBDA * last) * mask[:, t]
        adv[:, t] = last
    return adv, adv + values


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum()


def pretrain(model, steps=120):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        tokens = corpus(64)
        logp, _ = score_tokens(model, tokens)
        loss = -masked_mean(logp, keep_mask(tokens))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"pretrain {step} nll {loss.item():.3f}")


def ppo(policy, ref, iterations=70, epochs=3):
    opt = torch.optim.Adam(policy.parameters(), lr=2e-3)
    for it in range(iterations):
        tokens, mask = rollout(policy, 96)
        with torch.no_grad():
            old_logp, values = score_tokens(policy, tokens)
            ref_logp, _ = score_tokens(ref, tokens)
            reward = preference(tokens)
            rewards = -KL_COEF * (old_logp - ref_logp) * mask
            last = mask.sum(1).long() - 1
            rewards[torch.arange(len(tokens)), last] += reward
            adv, returns = gae(rewards, values, mask)
            mean = masked_mean(adv, mask)
            std = masked_mean((adv - mean) ** 2, mask).sqrt()
            adv = (adv - mean) / (std + 1e-8)
        for _ in range(epochs):
            logp, v = score_tokens(policy, tokens)
            ratio = (logp - old_logp).exp()
            surrogate = torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv)
            pg_loss = -masked_mean(surrogate, mask)
            v_loss = masked_mean((v - returns) ** 2, mask)
            loss = pg_loss + VF_COEF * v_loss
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            opt.step()
        if it % 10 == 0:
            kl = masked_mean(old_logp - ref_logp, mask)
            print(f"ppo {it} loss {loss.item():.3f} reward {reward.mean():.3f} kl {kl:.3f}")


@torch.no_grad()
def report(policy, n=512):
    """Regularised objective against the true language, which the tuned model never sees."""
    tokens, mask = rollout(policy, n)
    previous = torch.cat([torch.full((n, 1), BOS), tokens[:, :-1]], 1).clamp(min=1)
    logp, _ = score_tokens(policy, tokens)
    drift = ((logp - chain[previous, tokens].log()) * mask).sum(1).mean().item()
    liked = preference(tokens).mean().item()
    print(f"reward {liked:.3f}  drift {drift:.3f}  length {mask.sum(1).mean():.2f}")
    return KL_COEF * drift - liked


policy = TokenPolicy()
pretrain(policy)
report(policy)
reference = copy.deepcopy(policy).requires_grad_(False)
ppo(policy, reference)
print(f"result {report(policy):.4f}")
