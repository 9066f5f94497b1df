"""Speech-like: bursts of noise patterns to letters with a bidirectional LSTM and CTC."""

import sys

import torch
import torch.nn as nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
patterns = torch.randn(6, 12)


def utterances(n, letters=4, frames=24):
    text = torch.randint(1, 7, (n, letters))
    audio = 0.4 * torch.randn(n, frames, 12)
    for k in range(n):
        for i in range(letters):
            start = 6 * i + int(torch.randint(0, 3, (1,)))
            audio[k, start : start + 3] += patterns[text[k, i] - 1]
    return audio, text


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(12, 48, bidirectional=True, batch_first=True)
        self.head = nn.Linear(96, 7)

    def forward(self, x):
        return self.head(self.rnn(x)[0]).log_softmax(-1).transpose(0, 1)


net = Recogniser()
ctc_loss = nn.CTCLoss(blank=0)
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)


def compute(n):
    audio, text = utterances(n)
    return ctc_loss(net(audio), text, torch.full((n,), 24), torch.full((n,), 4))


for step in range(400):
    loss = compute(32)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())
net.eval()
with torch.no_grad():
    print("result", compute(300).item())
