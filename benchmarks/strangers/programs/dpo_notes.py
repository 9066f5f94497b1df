"""Preference tuning of a tiny melody model: maximum likelihood, reward model, then DPO."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

EOS, BOS, NOTES = 0, 1, 14  # notes are the ids 2..15
VOCAB, PROMPT, MAX_NEW = 2 + NOTES, 3, 12


def corpus(n, gen):
    """Melodies that walk around the prompt's last note, of random length, padded with EOS."""
    x = torch.full((n, 1 + PROMPT + MAX_NEW), EOS)
    x[:, 0] = BOS
    note = torch.randint(0, NOTES, (n,), generator=gen)
    stop = torch.randint(5, MAX_NEW + 1, (n,), generator=gen)
    for t in range(PROMPT + MAX_NEW):
        alive = t < PROMPT + stop
        x[:, t + 1] = torch.where(alive, note + 2, torch.full_like(note, EOS))
        step = torch.randint(-2, 3, (n,), generator=gen)
        jump = torch.rand(n, generator=gen) < 0.15
        note = torch.where(jump, torch.randint(0, NOTES, (n,), generator=gen), (note + step) % NOTES)
    return x


def taste(x):
    """The listener's hidden utility: likes rising steps, dislikes repeats and far jumps; per melody."""
    body = x[:, PROMPT:]
    a, b = body[:, :-1], body[:, 1:]
    real = (a > 1) & (b > 1)
    d = b - a
    value = 1.0 * ((d >= 1) & (d <= 2)) - 0.7 * (d == 0) - 0.5 * (d.abs() > 4) - 0.2 * (d < 0)
    return (value * real).sum(1) / 3.0


def regret(model, prompts):
    """Distance of fresh samples to the largest utility, a melody that rises at all its steps."""
    return MAX_NEW / 3.0 - taste(model.generate(prompts)).mean().item()


def response_mask(x):
    """Marks the positions of x[:, 1:] that the model generated, up to and with the first EOS."""
    tgt = x[:, 1:]
    ended_before = ((tgt == EOS).long().cumsum(1) - (tgt == EOS).long()) > 0
    mask = ~ended_before
    mask[:, :PROMPT] = False
    return mask.float()


class MelodyLM(nn.Module):
    def __init__(self, dim=32, hidden=64):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, VOCAB)

    def forward(self, x, h=None):
        y, h = self.rnn(self.embed(x), h)
        return self.out(y), h

    @torch.no_grad()
    def generate(self, prompt):
        x, (logits, h) = prompt, self(prompt)
        done = torch.zeros(len(prompt), dtype=torch.bool)
        for _ in range(MAX_NEW):
            p = logits[:, -1].clone()
            p[:, BOS] = -1e9
            nxt = torch.multinomial(p.softmax(-1), 1)
            nxt[done] = EOS
            done = done | (nxt[:, 0] == EOS)
            x = torch.cat([x, nxt], 1)
            logits, h = self(nxt, h)
        return x


class RewardModel(nn.Module):
    def __init__(self, dim=32, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.score = nn.Linear(hidden, 1)

    def forward(self, x):
        y, _ = self.rnn(self.embed(x))
        last = ((x != EOS).sum(1)).clamp(max=x.shape[1] - 1)
        pooled = y[torch.arange(len(x)), last]
        return self.score(pooled).squeeze(-1)


def sequence_logp(model, x):
    logits, _ = model(x[:, :-1])
    logp = logits.log_softmax(-1).gather(-1, x[:, 1:].unsqueeze(-1)).squeeze(-1)
    return (logp * response_mask(x)).sum(1)


def fit_lm(model, data, steps, batch, lr):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for i in range(steps):
        x = data[torch.randint(0, len(data), (batch,))]
        logits, _ = model(x[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad(); loss.backward(); opt.step()
        if i % 100 == 0 or i == steps - 1:
            print(f"lm {i} loss {loss.item():.4f}")


def fit_reward(rm, policy, prompts, steps, batch, lr):
    """Bradley-Terry on pairs of policy samples that the listener compared with some noise."""
    n = len(prompts)
    a, b = policy.generate(prompts), policy.generate(prompts)
    prefer_a = torch.rand(n) < torch.sigmoid(4.0 * (taste(a) - taste(b)))
    win = torch.where(prefer_a[:, None], a, b)
    lose = torch.where(prefer_a[:, None], b, a)
    opt = torch.optim.Adam(rm.parameters(), lr=lr)
    for i in range(steps):
        j = torch.randint(0, n, (batch,))
        margin = rm(win[j]) - rm(lose[j])
        loss = -F.logsigmoid(margin).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if i % 100 == 0 or i == steps - 1:
            print(f"reward {i} loss {loss.item():.4f}")


def run_dpo(policy, rm, prompts, steps, batch, lr, beta):
    reference = copy.deepcopy(policy)
    reference.requires_grad_(False)
    with torch.no_grad():
        cand = torch.stack([reference.generate(prompts) for _ in range(4)])
        scores = torch.stack([rm(c) for c in cand])
    best, worst = scores.argmax(0), scores.argmin(0)
    rows = torch.arange(len(prompts))
    chosen, rejected = cand[best, rows], cand[worst, rows]
    opt = torch.optim.Adam(policy.parameters(), lr=lr)
    for i in range(steps):
        j = torch.randint(0, len(prompts), (batch,))
        c, r = chosen[j], rejected[j]
        with torch.no_grad():
            ref_c, ref_r = sequence_logp(reference, c), sequence_logp(reference, r)
        gain_c = sequence_logp(policy, c) - ref_c
        gain_r = sequence_logp(policy, r) - ref_r
        loss = -F.logsigmoid(beta * (gain_c - gain_r)).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if i % 100 == 0 or i == steps - 1:
            print(f"dpo {i} loss {loss.item():.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", nargs="?", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(100 + args.seed)
    data, fresh = corpus(6000, gen), corpus(1000, gen)
    policy, rm = MelodyLM(), RewardModel()
    prompts, test_prompts = data[:4000, : 1 + PROMPT], fresh[:, : 1 + PROMPT]
    print(f"untrained regret {regret(policy, test_prompts):.4f}")
    fit_lm(policy, data, steps=400, batch=64, lr=3e-3)
    print(f"after lm regret {regret(policy, test_prompts):.4f}")
    fit_reward(rm, policy, prompts, steps=400, batch=64, lr=3e-3)
    run_dpo(policy, rm, prompts, steps=300, batch=64, lr=1e-3, beta=0.3)
    print(f"result {regret(policy, test_prompts):.5f}")


if __name__ == "__main__":
    main()
