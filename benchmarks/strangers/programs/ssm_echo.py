"""Diagonal state space model (S4D style) on a lagged copying task: convolution for training, recurrence for testing."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, LAG = 12, 14


def echo_batch(batch_size, length, generator=None):
    """At each position the target is the token seen LAG positions earlier."""
    tokens = torch.randint(0, VOCAB, (batch_size, length), generator=generator)
    targets = torch.roll(tokens, shifts=LAG, dims=1)
    valid = torch.arange(length) >= LAG
    return tokens, targets, valid


class S4DKernel(nn.Module):
    def __init__(self, d_model, n_state, dt_min=0.02, dt_max=0.2):
        super().__init__()
        log_dt = torch.rand(d_model) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)
        self.log_dt = nn.Parameter(log_dt)
        self.log_a_real = nn.Parameter(torch.log(0.5 * torch.ones(d_model, n_state)))
        self.a_imag = nn.Parameter(math.pi * torch.arange(n_state).float().repeat(d_model, 1))
        self.c = nn.Parameter(torch.view_as_real(torch.randn(d_model, n_state, dtype=torch.cfloat)))

    def discretise(self):
        """Zero-order hold with B = 1; returns A-bar, B-bar and C."""
        dt = self.log_dt.exp().unsqueeze(-1)
        a = torch.complex(-self.log_a_real.exp(), self.a_imag)
        a_bar = torch.exp(dt * a)
        b_bar = (a_bar - 1.0) / a
        return a_bar, b_bar, torch.view_as_complex(self.c)

    def forward(self, length):
        a_bar, b_bar, c = self.discretise()
        powers = a_bar.unsqueeze(-1) ** torch.arange(length)
        return 2 * torch.einsum("dn,dnl->dl", c * b_bar, powers).real


class S4DLayer(nn.Module):
    def __init__(self, d_model, n_state):
        super().__init__()
        self.kernel = S4DKernel(d_model, n_state)
        self.skip = nn.Parameter(torch.randn(d_model))
        self.mix = nn.Linear(d_model, 2 * d_model)
        self.norm = nn.LayerNorm(d_model)

    def output(self, y, u):
        return F.glu(self.mix(F.gelu(y + self.skip * u)), dim=-1)

    def forward(self, x):
        u = self.norm(x)
        length = u.size(1)
        k_f = torch.fft.rfft(self.kernel(length), n=2 * length)
        u_f = torch.fft.rfft(u.transpose(1, 2), n=2 * length)
        y = torch.fft.irfft(u_f * k_f, n=2 * length)[..., :length].transpose(1, 2)
        return x + self.output(y, u)

    def initial_state(self, batch_size):
        return torch.zeros(batch_size, *self.kernel.a_imag.shape, dtype=torch.cfloat)

    def step(self, x, state, params):
        a_bar, b_bar, c = params
        u = self.norm(x)
        state = a_bar * state + b_bar * u.unsqueeze(-1)
        y = 2 * (c * state).sum(-1).real
        return x + self.output(y, u), state


class EchoModel(nn.Module):
    def __init__(self, d_model=40, n_state=12, n_layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d_model)
        self.layers = nn.ModuleList([S4DLayer(d_model, n_state) for _ in range(n_layers)])
        self.head = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, VOCAB))

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    @torch.no_grad()
    def stream(self, tokens):
        states = [layer.initial_state(tokens.size(0)) for layer in self.layers]
        params = [layer.kernel.discretise() for layer in self.layers]
        logits = []
        for t in range(tokens.size(1)):
            x = self.embed(tokens[:, t])
            for i, layer in enumerate(self.layers):
                x, states[i] = layer.step(x, states[i], params[i])
            logits.append(self.head(x))
        return torch.stack(logits, dim=1)


def build_optimizer(model, lr, weight_decay=0.01):
    ssm, other = [], []
    for name, p in model.named_parameters():
        (ssm if any(k in name for k in ("log_dt", "log_a_real", "a_imag")) else other).append(p)
    return torch.optim.AdamW([
        {"params": other, "lr": lr, "weight_decay": weight_decay},
        {"params": ssm, "lr": lr * 0.3, "weight_decay": 0.0},
    ])


def evaluate(model, seed, length=80):
    model.eval()
    tokens, targets, valid = echo_batch(64, length, torch.Generator().manual_seed(seed))
    wrong = model.stream(tokens).argmax(-1) != targets
    return wrong[:, valid].float().mean().item()


def train(seed, steps=180, batch_size=24, length=48, peak_lr=6e-3, warmup=20):
    torch.manual_seed(seed)
    model = EchoModel()
    optimizer = build_optimizer(model, peak_lr)

    def lr_factor(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / (steps - warmup)
        return 0.5 * (1 + math.cos(math.pi * progress))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_factor)
    for step in range(steps):
        model.train()
        tokens, targets, valid = echo_batch(batch_size, length)
        logits = model(tokens)
        loss = F.cross_entropy(logits[:, valid].reshape(-1, VOCAB), targets[:, valid].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if (step + 1) % 45 == 0:
            print(f"step {step + 1} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}")
    return model


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    print(f"result {evaluate(train(seed), seed + 5000):.4f}")
