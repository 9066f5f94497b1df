"""Supervised warm-up of a small language model, then direct preference optimisation."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, TOPICS, P_LEN, C_LEN = 16, 4, 2, 8
BETA = 0.1


class TinyLM(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, tokens):
        h, _ = self.rnn(self.emb(tokens))
        return self.head(h)


def utility(prompt, completion):
    topic = prompt[:, -1] % TOPICS
    return (completion // (VOCAB // TOPICS) == topic[:, None]).float().mean(1)


def random_completions(n, g):
    """Drifting walk over the vocabulary."""
    toks = [torch.randint(0, VOCAB, (n,), generator=g)]
    for _ in range(C_LEN - 1):
        jump = torch.randint(-4, 7, (n,), generator=g)
        toks.append((toks[-1] + jump) % VOCAB)
    return torch.stack(toks, 1)


def preference_data(n, g):
    prompt = torch.randint(0, VOCAB, (n, P_LEN), generator=g)
    cands = torch.stack([random_completions(n, g) for _ in range(6)], 1)
    scores = torch.stack([utility(prompt, cands[:, k]) for k in range(6)], 1)
    scores = scores + 0.05 * torch.randn(scores.shape, generator=g)
    rows = torch.arange(n)
    chosen = cands[rows, scores.argmax(1)]
    rejected = cands[rows, scores.argmin(1)]
    return prompt, chosen, rejected


def completion_logp(model, prompt, completion):
    seq = torch.cat([prompt, completion], 1)
    logits = model(seq)[:, P_LEN - 1:-1]
    logp = F.log_softmax(logits, -1)
    return logp.gather(-1, completion.unsqueeze(-1)).squeeze(-1).sum(1)


def dpo_loss(policy, ref, prompt, chosen, rejected):
    pi_w = completion_logp(policy, prompt, chosen)
    pi_l = completion_logp(policy, prompt, rejected)
    ref_w = completion_logp(ref, prompt, chosen)
    ref_l = completion_logp(ref, prompt, rejected)
    margin = BETA * ((pi_w - ref_w) - (pi_l - ref_l))
    return -F.logsigmoid(margin).mean(), (margin > 0).float().mean()


@torch.no_grad()
def sample(model, prompt):
    seq = prompt
    for _ in range(C_LEN):
        probs = model(seq)[:, -1].softmax(-1)
        seq = torch.cat([seq, torch.multinomial(probs, 1)], 1)
    return seq[:, P_LEN:]


def off_topic_rate(model, seed, n=400):
    g = torch.Generator().manual_seed(seed)
    prompt = torch.randint(0, VOCAB, (n, P_LEN), generator=g)
    return 1.0 - utility(prompt, sample(model, prompt)).mean().item()


def warm_up(model, g, steps=100):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        prompt = torch.randint(0, VOCAB, (64, P_LEN), generator=g)
        comp = random_completions(64, g)
        loss = -completion_logp(model, prompt, comp).mean() / C_LEN
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print("warm-up", step, round(loss.item(), 4))
    return model


def main(seed):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    base = warm_up(TinyLM(), g)
    print("off-topic before", round(off_topic_rate(base, 5), 4))

    prompt, chosen, rejected = preference_data(12000, g)
    val = preference_data(500, g)
    policy = copy.deepcopy(base)
    ref = copy.deepcopy(base).eval()
    opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
    step = 0
    for epoch in range(2):
        for idx in torch.randperm(len(prompt), generator=g).split(64):
            loss, acc = dpo_loss(policy, ref, prompt[idx], chosen[idx], rejected[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
            opt.step()
            step += 1
        with torch.no_grad():
            vloss, vacc = dpo_loss(policy, ref, *val)
        print(f"epoch {epoch} step {step} loss {loss.item():.4f} val loss {vloss:.4f} val acc {vacc:.3f}")
    print("result", off_topic_rate(policy, seed + 321, 1000))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
