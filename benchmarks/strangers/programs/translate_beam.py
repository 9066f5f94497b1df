import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

PAD, BOS, EOS, OFFSET = 0, 1, 2, 3
HIDDEN, EMB, BATCH, STEPS, BEAM, MAXLEN = 96, 48, 48, 300, 4, 16

random.seed(7)
torch.manual_seed(7)

nouns = [f"n{i}" for i in range(14)]
adjs = [f"a{i}" for i in range(10)]
verbs = [f"v{i}" for i in range(8)]
advs = [f"r{i}" for i in range(5)]
src_words = ["the", "some"] + nouns + adjs + verbs + advs
src_id = {w: i + OFFSET for i, w in enumerate(src_words)}
trg_words = ["el", "la", "los", "las"] + [w.upper() for w in nouns + adjs + verbs + advs]
trg_id = {w: i + OFFSET for i, w in enumerate(trg_words)}


def noun_phrase():
    det, noun = random.choice(["the", "some"]), random.choice(nouns)
    mods = random.sample(adjs, random.choice([0, 0, 1, 2]))
    feminine = int(noun[1:]) % 2
    article = [["el", "la"], ["los", "las"]][det == "some"][feminine]
    return [det] + mods + [noun], [article, noun.upper()] + [m.upper() for m in mods]


def make_pair():
    s1, t1 = noun_phrase()
    s2, t2 = noun_phrase()
    verb = random.choice(verbs)
    src, trg = s1 + [verb] + s2, t1 + [verb.upper()] + t2
    if random.random() < 0.5:
        adv = random.choice(advs)
        src, trg = [adv] + src, trg + [adv.upper()]
    return torch.tensor([src_id[w] for w in src]), torch.tensor([BOS] + [trg_id[w] for w in trg] + [EOS])


train_pairs = [make_pair() for _ in range(6000)]
test_pairs = [make_pair() for _ in range(80)]


def collate(pairs):
    src, trg = zip(*pairs)
    lengths = torch.tensor([len(s) for s in src])
    src, trg = pad_sequence(src, True, PAD), pad_sequence(trg, True, PAD)
    order = lengths.argsort(descending=True)
    return src[order], lengths[order], trg[order]


class Encoder(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.emb = nn.Embedding(vocab, EMB, padding_idx=PAD)
        self.rnn = nn.GRU(EMB, HIDDEN // 2, batch_first=True, bidirectional=True)

    def forward(self, src, lengths):
        packed = pack_padded_sequence(self.emb(src), lengths, batch_first=True)
        out, h = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return out, torch.cat([h[0], h[1]], -1)


class Decoder(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.emb = nn.Embedding(vocab, EMB, padding_idx=PAD)
        self.cell = nn.GRUCell(EMB + HIDDEN, HIDDEN)
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(2 * HIDDEN, vocab)

    def step(self, token, h, ctx, memory, mask):
        h = self.cell(torch.cat([self.emb(token), ctx], -1), h)
        scores = (memory @ self.query(h).unsqueeze(-1)).squeeze(-1)
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        ctx = (weights.unsqueeze(1) @ memory).squeeze(1)
        return self.out(torch.cat([h, ctx], -1)), h, ctx

    def forward(self, trg_in, h, memory, mask):
        ctx, logits = torch.zeros_like(h), []
        for t in range(trg_in.size(1)):
            y, h, ctx = self.step(trg_in[:, t], h, ctx, memory, mask)
            logits.append(y)
        return torch.stack(logits, 1)


@torch.no_grad()
def beam_search(encoder, decoder, src):
    memory, h = encoder(src[None], torch.tensor([len(src)]))
    memory = memory.expand(BEAM, -1, -1)
    mask = torch.ones(memory.shape[:2], dtype=torch.bool)
    h, ctx = h.expand(BEAM, -1), torch.zeros(BEAM, HIDDEN)
    seqs = torch.full((BEAM, 1), BOS)
    scores = torch.tensor([0.0] + [-1e9] * (BEAM - 1))
    finished = []
    for _ in range(MAXLEN):
        logits, h, ctx = decoder.step(seqs[:, -1], h, ctx, memory, mask)
        total = scores[:, None] + logits.log_softmax(-1)
        scores, flat = total.flatten().topk(BEAM)
        parent, token = flat // logits.size(1), flat % logits.size(1)
        seqs = torch.cat([seqs[parent], token[:, None]], 1)
        h, ctx = h[parent], ctx[parent]
        for b in range(BEAM):
            if token[b] == EOS and scores[b] > -1e8:
                finished.append((scores[b].item() / (seqs.size(1) - 1), seqs[b, 1:-1].tolist()))
                scores[b] = -1e9
        if len(finished) >= BEAM:
            break
    if not finished:
        return seqs[0, 1:].tolist()
    return max(finished)[1]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


encoder = Encoder(len(src_words) + OFFSET)
decoder = Decoder(len(trg_words) + OFFSET)
enc_opt = torch.optim.Adam(encoder.parameters(), lr=4e-3)
dec_opt = torch.optim.Adam(decoder.parameters(), lr=4e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)

for it in range(1, STEPS + 1):
    src, lengths, trg = collate(random.sample(train_pairs, BATCH))
    memory, h = encoder(src, lengths)
    logits = decoder(trg[:, :-1], h, memory, src != PAD)
    loss = criterion(logits.transpose(1, 2), trg[:, 1:])
    enc_opt.zero_grad()
    dec_opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([*encoder.parameters(), *decoder.parameters()], 1.0)
    enc_opt.step()
    dec_opt.step()
    if it % 50 == 0:
        print(f"{it:4d}  train loss {loss.item():.4f}")

errors = tokens = exact = 0
for src, trg in test_pairs:
    hyp, ref = beam_search(encoder, decoder, src), trg[1:-1].tolist()
    errors += edit_distance(hyp, ref)
    tokens += len(ref)
    exact += hyp == ref
print(f"exact match {exact / len(test_pairs):.3f}")
print(f"result {errors / tokens:.4f}")
