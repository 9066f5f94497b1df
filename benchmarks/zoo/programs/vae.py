"""VAE on binary bar images (Kingma & Welling)."""

import sys
import torch
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
SIDE = 12


def bars(n):
    rows = (torch.rand(n, SIDE, 1) < 0.15).float().expand(n, SIDE, SIDE)
    cols = (torch.rand(n, 1, SIDE) < 0.15).float().expand(n, SIDE, SIDE)
    return torch.maximum(rows, cols).reshape(n, -1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(SIDE * SIDE, 200)
        self.fc21 = nn.Linear(200, 24)
        self.fc22 = nn.Linear(200, 24)
        self.fc3 = nn.Linear(24, 200)
        self.fc4 = nn.Linear(200, SIDE * SIDE)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x, reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


train_set, test_set = bars(6400), bars(1000)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(1, 13):
    model.train()
    train_loss = 0
    for data in train_set[torch.randperm(len(train_set))].split(64):
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        recon, mu, logvar = model(test_set)
        test_loss = loss_function(recon, test_set, mu, logvar).item() / len(test_set)
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(train_set):.4f} test {test_loss:.4f}")
print("result", test_loss)
