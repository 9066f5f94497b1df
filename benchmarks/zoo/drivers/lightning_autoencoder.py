"""An autoencoder in a LightningModule, with validation and a plateau schedule."""

import sys

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
mixing = torch.randn(5, 40)


class Autoencoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 5))
        self.decoder = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 40))

    def training_step(self, batch, _):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0])

    def validation_step(self, batch, _):
        self.log("val_loss", nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=2e-3)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"}}


def loader(n, shuffle):
    return DataLoader(TensorDataset(torch.tanh(torch.randn(n, 5) @ mixing)), batch_size=64, shuffle=shuffle)


trainer = L.Trainer(
    max_epochs=12, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
)
held = loader(500, False)
model = Autoencoder()
trainer.fit(model, loader(3000, True), held)
print("result", trainer.validate(model, held, verbose=False)[0]["val_loss"])
