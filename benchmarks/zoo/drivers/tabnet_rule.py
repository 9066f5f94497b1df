"""TabNet learns a rule of three features out of twelve, by dreamquark-ai's own fit with early stopping."""

import sys

import numpy as np
import torch
from pytorch_tabnet.tab_model import TabNetClassifier

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
rows = np.random.default_rng(seed)
x = rows.normal(size=(3000, 12))
y = (np.where(x[:, 0] > 0, x[:, 1], x[:, 2]) > 0).astype(int)
model = TabNetClassifier(seed=seed, device_name="cpu", optimizer_params={"lr": 2e-2},
    scheduler_params={"step_size": 10, "gamma": 0.9}, scheduler_fn=torch.optim.lr_scheduler.StepLR)
model.fit(x[:2000], y[:2000], eval_set=[(x[2000:2500], y[2000:2500])], eval_name=["valid"], eval_metric=["logloss"],
    max_epochs=25, patience=25, batch_size=128, virtual_batch_size=64, num_workers=0, drop_last=False)
chances = model.predict_proba(x[2500:])
print("result", float(-np.log(chances[np.arange(500), y[2500:]]).mean()))
