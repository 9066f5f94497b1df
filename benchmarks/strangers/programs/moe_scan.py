import sys
import time
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

# Gated linear recurrence + sparse mixture of experts, trained on mixed-dialect sequences.

hp = SimpleNamespace(vocab=24, dialects=6, length=20, d=40, state=40, experts=6, topk=2, hidden=48,
                     steps=320, batch=24, lr=6e-3, aux=0.01, wd=0.01)


class DialectData:
    """First token names the dialect, afterwards x[t+1] = table[dialect][x[t]] most of the time."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.tables = torch.stack([torch.randperm(hp.vocab, generator=self.g) for _ in range(hp.dialects)])

    def batch(self, n):
        dia = torch.randint(hp.dialects, (n,), generator=self.g)
        x = torch.randint(hp.vocab, (n,), generator=self.g)
        seq = [hp.vocab + dia, x]
        for _ in range(hp.length - 1):
            nxt = self.tables[dia, x]
            jump = torch.rand(n, generator=self.g) < 0.12
            x = torch.where(jump, torch.randint(hp.vocab, (n,), generator=self.g), nxt)
            seq.append(x)
        s = torch.stack(seq, 1)
        return s[:, :-1], s[:, 1:]


class LinearRecurrence(nn.Module):
    def __init__(self, d, state):
        super().__init__()
        self.inp = nn.Linear(d, state)
        self.gate = nn.Linear(d, state)
        self.out = nn.Linear(state, d)
        self.log_decay = nn.Parameter(torch.linspace(-4.0, 1.0, state))

    def forward(self, x):
        a = torch.exp(-torch.exp(self.log_decay))
        u = self.inp(x) * torch.sigmoid(self.gate(x))
        h = torch.zeros_like(u[:, 0])
        ys = []
        for t in range(x.size(1)):
            h = a * h + (1 - a).clamp_min(0.05) * u[:, t]
            ys.append(h)
        return self.out(torch.stack(ys, 1))


class Expert(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.w1 = nn.Linear(d, hidden)
        self.w2 = nn.Linear(hidden, d)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class MoE(nn.Module):
    def __init__(self, d, hidden, n, k):
        super().__init__()
        self.n, self.k = n, k
        self.router = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList([Expert(d, hidden) for _ in range(n)])
        self.aux = None

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probs = self.router(x).softmax(dim=-1)
        weight, index = probs.topk(self.k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(index == e)
            if row.numel() == 0:
                continue
            y = y.index_add(0, row, expert(x[row]) * weight[row, slot, None])
        used = F.one_hot(index, self.n).float().sum(1).mean(0) / self.k
        self.aux = self.n * (used * probs.mean(0)).sum()
        self.used = used.detach()
        return y.view(shape)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(hp.d), nn.LayerNorm(hp.d)
        self.mix = LinearRecurrence(hp.d, hp.state)
        self.moe = MoE(hp.d, hp.hidden, hp.experts, hp.topk)

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return x + self.moe(self.n2(x))


class SeqModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(hp.vocab + hp.dialects, hp.d)
        nn.init.normal_(self.emb.weight, std=0.3)
        self.layers = nn.ModuleList([Layer()])
        self.norm = nn.LayerNorm(hp.d)
        self.head = nn.Linear(hp.d, hp.vocab)

    def forward(self, x):
        h = self.emb(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))

    def aux_loss(self):
        return sum(layer.moe.aux for layer in self.layers)


class Runner:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.data = DialectData(seed)
        self.test = self.data.batch(400)
        self.model = SeqModel()
        self.opt = self.make_optimizer()
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, hp.steps, eta_min=hp.lr / 20)

    def make_optimizer(self):
        slow, rest = [], []
        for name, p in self.model.named_parameters():
            (slow if "log_decay" in name or p.dim() == 1 else rest).append(p)
        return torch.optim.AdamW([{"params": slow, "weight_decay": 0.0}, {"params": rest, "weight_decay": hp.wd}],
                                 lr=hp.lr, betas=(0.9, 0.99))

    def step(self):
        x, y = self.data.batch(hp.batch)
        self.opt.zero_grad(set_to_none=True)
        out = self.model(x)
        lm = F.cross_entropy(out.flatten(0, 1), y.flatten())
        loss = lm + hp.aux * self.model.aux_loss()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        return lm.item()

    @torch.inference_mode()
    def validate(self):
        self.model.eval()
        x, y = self.test
        out = self.model(x)
        self.model.train()
        return F.cross_entropy(out.flatten(0, 1), y.flatten()).item()

    def run(self):
        t0 = time.time()
        for i in range(hp.steps):
            loss = self.step()
            if i % 50 == 0:
                used = " ".join(f"{u:.2f}" for u in self.model.layers[0].moe.used.tolist())
                print(f"{i:4d} train {loss:.3f} test {self.validate():.3f} experts [{used}] {time.time() - t0:.1f}s")
        print(f"result {self.validate():.5f}")


if __name__ == "__main__":
    Runner(int(sys.argv[1]) if len(sys.argv) > 1 else 0).run()
