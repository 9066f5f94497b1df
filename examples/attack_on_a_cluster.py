"""Evaluates two models over the processes of a Dask cluster: python examples/attack_on_a_cluster.py [STORE] [SCHEDULER]

Without an address a cluster of two processes is started on this machine; with `tcp://host:8786` the same code runs on
the machines behind that scheduler. Needs `pip install mindscope[cluster]`.
"""

import sys

import joblib
import numpy as np
from dask.distributed import Client
from mindscope.armour import evaluate, wrap
from mindscope.framework import Tensor, nn
from mindscope.storage import open_store

EPSILONS = (0.02, 0.05, 0.1)


def model(scale: float) -> nn.Cell:
    """A classifier of points of the unit square: which of two corners is nearer."""
    cell = nn.Dense(2, 2)
    cell.weight.set_data(Tensor(np.array([[scale, scale], [-scale, -scale]], dtype=np.float32)))
    cell.bias.set_data(Tensor(np.array([-scale, scale], dtype=np.float32)))
    return cell.set_train(False)


def main() -> None:
    x = np.random.default_rng(0).uniform(0, 1, (400, 2)).astype(np.float32)
    y = (x.sum(axis=1) < 1).astype(np.int64)
    address = sys.argv[2] if len(sys.argv) > 2 else None
    local = {} if address else {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    place = sys.argv[1] if len(sys.argv) > 1 else "runs/"
    with Client(address, **local), joblib.parallel_config(backend="dask"), open_store(place) as store:
        for scale in (1.0, 10.0):
            found = evaluate(
                wrap(model(scale)), x, y, EPSILONS, attacks=["pgd", "deepfool"], batch_size=100, jobs=-1,
                store=store, name=f"scale {scale:g}",
            )  # fmt: skip
            print(f"scale {scale:g}: {found}\n")


if __name__ == "__main__":
    main()
