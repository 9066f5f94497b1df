"""A network learns how sure it may be of three drawn spirals, by dougbrion's evidential losses and training loop."""

import sys

import torch
from losses import edl_mse_loss
from train import train_model

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def spirals(n):
    labels, along = torch.randint(0, 3, (n,)), torch.rand(n)
    angle = 4 * along + labels * 2 * torch.pi / 3
    points = (along + 0.15)[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return torch.utils.data.TensorDataset(points + 0.04 * torch.randn(n, 2), labels)


train, valid, test = spirals(1500), spirals(500), spirals(1000)
loaders = {
    "train": torch.utils.data.DataLoader(train, batch_size=50, shuffle=True),
    "val": torch.utils.data.DataLoader(valid, batch_size=50),
}
layers = [torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=0.005)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=60, gamma=0.1)
device = torch.device("cpu")
model, _ = train_model(model, loaders, 3, edl_mse_loss, optimizer, scheduler, 70, device, uncertainty=True)
points, labels = test.tensors
with torch.no_grad():
    truth = torch.nn.functional.one_hot(labels, 3).float()
    print("result", edl_mse_loss(model.eval()(points), truth, 50, 3, 10, device).item())
