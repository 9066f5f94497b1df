"""Seq2seq with GRU and attention: reverse a string of digits. Teacher forcing."""

import random
import sys

import torch
import torch.nn as nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
random.seed(seed)
torch.manual_seed(seed)
SOS, EOS, PAD, N = 10, 11, 12, 13


def batch(size):
    length = random.randint(4, 7)
    source = torch.randint(0, 10, (size, length))
    target = torch.cat([source.flip(1), torch.full((size, 1), EOS)], 1)
    return source, target


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(N, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.Wa = nn.Linear(hidden, hidden)
        self.Ua = nn.Linear(hidden, hidden)
        self.Va = nn.Linear(hidden, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        return torch.bmm(torch.softmax(scores, dim=-1), keys)


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(N, hidden)
        self.attention = Attention(hidden)
        self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, N)

    def forward(self, outputs, hidden, target, teach=True):
        token = torch.full((outputs.size(0), 1), SOS)
        logits = []
        for t in range(target.size(1)):
            context = self.attention(hidden.permute(1, 0, 2), outputs)
            step, hidden = self.gru(torch.cat([self.embedding(token), context], 2), hidden)
            logits.append(self.out(step))
            token = target[:, t : t + 1] if teach else logits[-1].argmax(-1).detach()
        return torch.cat(logits, 1)


encoder, decoder = Encoder(64), Decoder(64)
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
for i in range(500):
    source, target = batch(32)
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    outputs, hidden = encoder(source)
    logits = decoder(outputs, hidden, target)
    loss = criterion(logits.reshape(-1, N), target.reshape(-1))
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    if i % 100 == 0:
        print(i, loss.item())

encoder.eval(), decoder.eval()
with torch.no_grad():
    total = 0.0
    for _ in range(10):
        source, target = batch(64)
        logits = decoder(*encoder(source), target)
        total += criterion(logits.reshape(-1, N), target.reshape(-1)).item()
print("result", total / 10)
