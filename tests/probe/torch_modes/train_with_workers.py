"""Trains a watched model on batches that worker processes make with it; the program of test_workers."""

import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Dreamed(Dataset):
    """Each worker trains its copy of the model on its way to a sample, which must leave no trace in the run."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        assert os.getpid() != MAIN
        optimizer = torch.optim.SGD(self.model.parameters(), 0.0)
        self.model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        return torch.full((4,), float(index)), os.getpid()


MAIN = int(os.environ.setdefault("MINDSCOPE_TEST_MAIN", str(os.getpid())))


def train(method: str, folder: str) -> str:
    """What the store says of a training whose batches come from a worker that is started in this way."""
    from mindscope.probe import watch
    from mindscope.storage import open_store

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with open_store(f"{folder}/{method}") as store, watch(model, optimizer, store=store) as monitor:
        for batch, _ in DataLoader(Dreamed(model), 4, num_workers=1, multiprocessing_context=method):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
        monitor.close()
        run = store.find_run(monitor.run.id)
        return f"{method}: {run.state} {len(store.runs())} {[record.step for record in store.replay(run.id)]}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for one in sys.argv[2:]:
        sys.stdout.write(train(one, sys.argv[1]) + "\n")
