"""LSTM forecasting of a seasonal series, normalised by the training part."""

import sys
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
np.random.seed(seed)
torch.manual_seed(seed)

t = np.arange(2400)
series = 20 + 6 * np.sin(2 * np.pi * t / 24) + 3 * np.sin(2 * np.pi * t / 168) + np.random.normal(0, 0.7, len(t))
train_size = int(len(series) * 0.8)
mean, std = series[:train_size].mean(), series[:train_size].std()
scaled = (series - mean) / std


def create_sequences(data, window=36, horizon=4):
    xs, ys = [], []
    for i in range(len(data) - window - horizon):
        xs.append(data[i : i + window])
        ys.append(data[i + window : i + window + horizon])
    return torch.tensor(np.array(xs), dtype=torch.float32).unsqueeze(-1), torch.tensor(
        np.array(ys), dtype=torch.float32
    )


X_train, y_train = create_sequences(scaled[:train_size])
X_test, y_test = create_sequences(scaled[train_size:])


class LSTMForecaster(nn.Module):
    def __init__(self, input_size=1, hidden_size=48, num_layers=2, output_size=4):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=0.1)
        self.fc = nn.Linear(hidden_size, output_size)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1, :])


model = LSTMForecaster()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
loader = DataLoader(TensorDataset(X_train, y_train), batch_size=32, shuffle=True)
num_epochs = 6
for epoch in range(num_epochs):
    model.train()
    epoch_loss = 0
    for X_batch, y_batch in loader:
        optimizer.zero_grad()
        output = model(X_batch)
        loss = criterion(output, y_batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        epoch_loss += loss.item()
    model.eval()
    with torch.no_grad():
        val = criterion(model(X_test), y_test).item()
    print(f"Epoch [{epoch + 1}/{num_epochs}], Loss: {epoch_loss / len(loader):.4f}, Val: {val:.4f}")
print("result", val)
