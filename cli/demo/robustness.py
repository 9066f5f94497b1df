"""After a healthy training of the classifier: how much noise made on purpose does it bear."""

from rich.console import Console

from ...armour import evaluate, wrap
from ...storage import open_store
from .training import Training

#: Budgets on pixels between 0 and 1, from hardly visible to a fifth of the range.
_EPSILONS = (0.02, 0.05, 0.1, 0.2)
_SAMPLES = 200


def attack_model(training: Training, store: str, run: str, console: Console) -> None:
    """Attacks the trained model on images it has not seen and stores the outcomes beside its run; nothing for a task
    without classes to confuse."""
    held_out = training.held_out()
    if held_out is None:
        return
    inputs, labels = held_out
    training.model.set_train(False)
    with open_store(store) as opened:
        found = evaluate(
            wrap(training.model),
            inputs[:_SAMPLES],
            labels[:_SAMPLES],
            _EPSILONS,
            store=opened,
            parent=run,
            name=f"{training.task.run} under attack",
            seed=training.seed,
        )
    console.print(found.table(), highlight=False)
