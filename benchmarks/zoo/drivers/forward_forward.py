"""Two layers learn one after the other without backpropagation, by mohammadpz's forward-forward code, on marks."""

import sys
from unittest import mock

import torch
import torch.nn.functional as F

sys.modules.update({"torchvision." + name: mock.MagicMock() for name in ("datasets", "transforms")})
sys.modules["torchvision"] = mock.MagicMock()  # the code takes MNIST from it
torch.nn.Module.cuda = lambda self: self  # the code asks for a GPU; stay on the CPU
from main import Net, overlay_y_on_x  # noqa: E402

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
marks = F.interpolate(torch.randn(10, 1, 7, 7), size=16, mode="bilinear")


def drawn(n):  # ten smooth random pictures, shifted and with noise
    labels, shifts = torch.randint(0, 10, (n,)), torch.randint(-1, 2, (n, 2)).tolist()
    images = torch.stack([marks[k].roll(shift, (1, 2)) for k, shift in zip(labels, shifts)])
    return (images + 0.5 * torch.randn_like(images)).flatten(1), labels


net = Net([256, 200, 200])
for layer in net.layers:
    layer.num_epochs = 750
x, y = drawn(600)
net.train(overlay_y_on_x(x, y), overlay_y_on_x(x, y[torch.randperm(len(y))]))
x, y = drawn(1000)
print("result", 1 - net.predict(x).eq(y).float().mean().item())
