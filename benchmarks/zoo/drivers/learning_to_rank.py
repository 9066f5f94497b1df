"""A transformer learns to put the best documents of a query first, by allegro's allRank losses and fit."""

import sys
import tempfile
import types
from unittest import mock

import numpy as np
import torch
from scipy.sparse import csr_matrix

mocked = ("tensorboardX", "torchvision", "torchvision.transforms", "gcsfs", "pkg_resources")
sys.modules.update({name: mock.MagicMock() for name in mocked})  # for boards, pictures and clouds only
from allrank.config import TransformerConfig  # noqa: E402
from allrank.data.dataset_loading import FixLength, LibSVMDataset, ToTensor, create_data_loaders  # noqa: E402
from allrank.models.losses import approxNDCGLoss  # noqa: E402
from allrank.models.model import make_model  # noqa: E402
from allrank.training.train_utils import fit  # noqa: E402

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
np.random.seed(seed)
torch.manual_seed(seed)
taste = np.random.randn(12)


def queries(n, length=20):  # how good a document is depends on its features and on the other documents
    x = np.random.randn(n, length, 12).astype(np.float32)
    order = (np.tanh(x) @ taste + x[..., 0] * x[..., 1] + np.random.randn(n, length) / 2).argsort(1).argsort(1)
    data = LibSVMDataset(csr_matrix(x.reshape(-1, 12)), (order // 4).reshape(-1), np.repeat(np.arange(n), length))
    data.transform = lambda sample: ToTensor()(FixLength(length)(sample))
    return data


loaders = create_data_loaders(queries(400), queries(200), num_workers=0, batch_size=32)
first, last = {"sizes": [32], "input_norm": False, "activation": None, "dropout": 0.0}, {"d_output": 1}
model = make_model(first, TransformerConfig(N=1, d_ff=64, h=2, positional_encoding=None, dropout=0.1), last, 12)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
config = types.SimpleNamespace(metrics={"ndcg": [5]}, val_metric="ndcg_5")
outcome = fit(25, model, approxNDCGLoss, optimizer, None, *loaders, config, None, 100, "cpu", tempfile.mkdtemp(), "")
print("result", 1 - float(outcome["val_metrics"]["ndcg_5"]))
