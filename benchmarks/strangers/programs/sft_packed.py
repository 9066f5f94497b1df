# Instruction tuning of a tiny GPT on string instructions, packed sequences.
import sys
import math
import random
import torch
from torch import nn
import torch.nn.functional as F

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
random.seed(seed)
torch.manual_seed(seed)

BOS, SEP, EOS, PAD = 0, 1, 2, 3
OPS = {"copy": 4, "next": 5, "rev": 6, "swap": 7}
SYM0, NSYM = 8, 10
VOCAB = SYM0 + NSYM
BLOCK = 48
BATCH = 8
ACCUM = 2
STEPS = 320
IGNORE = -100


def make_example():
    op = random.choice(list(OPS))
    n = random.randint(3, 5)
    s = [random.randrange(NSYM) for _ in range(n)]
    if op == "copy":
        r = s
    elif op == "next":
        r = [(c + 1) % NSYM for c in s]
    elif op == "rev":
        r = s[::-1]
    else:
        r = s[1:] + s[:1]
    prompt = [BOS, OPS[op]] + [SYM0 + c for c in s] + [SEP]
    answer = [SYM0 + c for c in r] + [EOS]
    return prompt, answer


def pack(n_blocks):
    """Greedy packing; returns ids, labels, document ids and positions."""
    ids = torch.full((n_blocks, BLOCK), PAD)
    labels = torch.full((n_blocks, BLOCK), IGNORE)
    docs = torch.full((n_blocks, BLOCK), -1)
    pos = torch.zeros(n_blocks, BLOCK, dtype=torch.long)
    for b in range(n_blocks):
        at, doc = 0, 0
        while True:
            prompt, answer = make_example()
            seq = prompt + answer
            if at + len(seq) > BLOCK:
                break
            end = at + len(seq)
            ids[b, at:end] = torch.tensor(seq)
            labels[b, at + len(prompt):end] = torch.tensor(answer)
            docs[b, at:end] = doc
            pos[b, at:end] = torch.arange(len(seq))
            at, doc = end, doc + 1
    return ids, labels, docs, pos


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.proj = nn.Linear(d, d, bias=False)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x, mask):
        B, T, D = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (z.view(B, T, self.h, D // self.h).transpose(1, 2) for z in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, D))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, d=48, h=4, n=2):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, d)
        self.wpe = nn.Embedding(BLOCK, d)
        self.blocks = nn.ModuleList(Block(d, h) for _ in range(n))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, VOCAB, bias=False)
        self.apply(self._init)
        self.head.weight = self.wte.weight

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.08)

    def forward(self, ids, docs=None, pos=None):
        T = ids.size(1)
        mask = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
        if docs is not None:
            mask = mask & (docs[:, None, :, None] == docs[:, None, None, :])
        if pos is None:
            pos = torch.arange(T).expand_as(ids)
        x = self.wte(ids) + self.wpe(pos)
        for blk in self.blocks:
            x = blk(x, mask)
        return self.head(self.ln(x))


def loss_fn(logits, labels):
    return F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1),
                           ignore_index=IGNORE)


@torch.no_grad()
def generate(model, prompt, max_new):
    ids = torch.tensor([prompt])
    for _ in range(max_new):
        nxt = model(ids)[0, -1].argmax()
        ids = torch.cat([ids, nxt.view(1, 1)], 1)
        if nxt.item() == EOS:
            break
    return ids[0, len(prompt):].tolist()


def token_error(model, examples):
    model.eval()
    wrong = total = 0
    for prompt, answer in examples:
        got = generate(model, prompt, len(answer))
        got = got + [PAD] * (len(answer) - len(got))
        wrong += sum(g != a for g, a in zip(got, answer))
        total += len(answer)
    model.train()
    return wrong / total


eval_set = [make_example() for _ in range(80)]
train = pack(800)
model = GPT()
decay = [p for p in model.parameters() if p.dim() > 1]
other = [p for p in model.parameters() if p.dim() <= 1]
opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                         {"params": other, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.98))
warm = 20
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: (s + 1) / warm if s < warm else
    0.5 * (1 + math.cos(math.pi * min(1.0, (s - warm) / (STEPS - warm)))) + 0.01)

order = []
for step in range(STEPS):
    opt.zero_grad(set_to_none=True)
    running = 0.0
    for _ in range(ACCUM):
        if len(order) < BATCH:
            order = torch.randperm(train[0].size(0)).tolist()
        take, order = order[:BATCH], order[BATCH:]
        ids, labels, docs, pos = (t[take] for t in train)
        loss = loss_fn(model(ids, docs, pos), labels) / ACCUM
        loss.backward()
        running += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 50 == 0:
        print(f"step {step:4d}  loss {running:.4f}  lr {sched.get_last_lr()[0]:.2e}")
    if step in (110, 220):
        print(f"step {step:4d}  token error {token_error(model, eval_set[:30]):.3f}")

err = token_error(model, eval_set)
print("result %.5f" % err)
