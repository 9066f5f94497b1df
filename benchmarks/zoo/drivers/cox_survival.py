"""A Cox proportional-hazards network learns who lives how long, by havakv's pycox with its early stopping."""

import sys
from unittest import mock

import numpy as np
import torch

sys.modules.update({name: mock.MagicMock() for name in ("requests", "h5py")})  # only for downloads
import torchtuples as tt  # noqa: E402
from pycox.evaluation import EvalSurv  # noqa: E402
from pycox.models import CoxPH  # noqa: E402
from pycox.simulations import SimStudyNonLinearPH  # noqa: E402

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
np.random.seed(seed)
torch.manual_seed(seed)
study = SimStudyNonLinearPH()
people = study.simulate(8000)
x = people["covs"].astype("float32")
ends = tuple(people[name].astype("float32") for name in ("durations", "events"))
train, valid, test = slice(0, 6000), slice(6000, 7000), slice(7000, 8000)
network = tt.practical.MLPVanilla(x.shape[1], [32, 32], 1, batch_norm=True, dropout=0.1, output_bias=False)
model = CoxPH(network, tt.optim.Adam(0.001))
log = model.fit(x[train], tuple(end[train] for end in ends), batch_size=128, epochs=40, verbose=True,
    callbacks=[tt.callbacks.EarlyStopping()], val_data=(x[valid], tuple(end[valid] for end in ends)),
    val_batch_size=1000)
model.compute_baseline_hazards()
judge = EvalSurv(model.predict_surv_df(x[test]), *(end[test] for end in ends))
print("result", 1 - float(judge.concordance_td()))
