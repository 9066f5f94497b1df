"""An MLP-Mixer on drawn bars under torch.compile, trained with Nesterov momentum and label smoothing."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def bars(n):
    """Images with one bright bar: its direction is the class."""
    label = torch.randint(0, 3, (n,))
    at = torch.randint(2, 10, (n,))
    images = 0.4 * torch.randn(n, 12, 12)
    for k in range(n):
        if label[k] == 0:
            images[k, at[k]] += 1.0
        elif label[k] == 1:
            images[k, :, at[k]] += 1.0
        else:
            images[k] += torch.diag(torch.ones(12 - abs(int(at[k]) - 6)), int(at[k]) - 6)
    return images, label


class MixerLayer(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches))
        self.channels = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Linear(9, width)
        self.layers = nn.Sequential(MixerLayer(16, width), MixerLayer(16, width))
        self.classify = nn.Linear(width, 3)

    def forward(self, images):
        patches = images.unfold(1, 3, 3).unfold(2, 3, 3).reshape(len(images), 16, 9)
        return self.classify(self.layers(self.embed(patches)).mean(1))


net = Mixer()
fast = torch.compile(net, backend="aot_eager")
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=400)
train_x, train_y = bars(3000)
for epoch in range(8):
    order = torch.randperm(len(train_x))
    for i in range(0, 3000, 60):
        batch = order[i : i + 60]
        opt.zero_grad()
        out = fast(train_x[batch])
        loss = F.cross_entropy(out, train_y[batch], label_smoothing=0.05)
        loss.backward()
        opt.step()
        sched.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))
test_x, test_y = bars(600)
net.eval()
with torch.no_grad():
    print("result", F.cross_entropy(net(test_x), test_y).item())
