"""Hyper-parameter search whose trials are runs of the store: Optuna proposes, findings prune, the store remembers.

    def train(attempt):
        lr = attempt.trial.suggest_float("lr", 1e-4, 1.0, log=True)
        with ms.watch(network, optimizer, store=store, run=attempt.name, tags=attempt.tags) as monitor:
            for step in range(200):
                ...
                if step % 20 == 19 and attempt.report(step, loss, monitor.findings):
                    break
        return loss

    found = search(train, store, trials=30, study="width and rate")

Needs the extra `tune`.
"""

from .attempt import Attempt
from .ledger import Ledger, Trial
from .search import Search, search

__all__ = ["Attempt", "Ledger", "Search", "Trial", "search"]
