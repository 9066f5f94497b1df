"""Read what was recorded: runs, a series, one metric over all layers, findings. Writes a run first if there is none.

python examples/read_a_store.py [STORE]
"""

import sys
import time

import mindscope as ms
import numpy as np
from mindscope.storage import Block, Layout, StepRecord, Store, display_site


def main(url: str) -> None:
    with ms.open_store(url) as store:
        if not store.runs(limit=1):
            write_a_run(store)
        for run in store.runs(limit=10):
            print(f"{run.name} ({run.id}): {run.state}, {run.last_step + 1} steps, {run.findings} findings")

        run = store.find_run("latest")
        metrics = store.metrics(run.id)
        print("metrics:", ", ".join(metrics[:8]), "..." if len(metrics) > 8 else "")

        if "scalar/loss" in metrics:  # at most 5 points, extremes kept
            loss = store.series(run.id, "", "scalar/loss", limit=5)
            print("loss:", dict(zip(loss.steps.tolist(), loss.values.round(3).tolist(), strict=True)))

        norms = next((metric for metric in metrics if metric.endswith("gradient/l2_norm")), None)
        if norms is not None:  # rows are sites, columns are steps
            matrix = store.matrix(run.id, norms, limit=4)
            for site, row in zip(matrix.sites, matrix.high, strict=True):
                print(f"  {display_site(site):<20}", " ".join(f"{value:9.3g}" for value in row))

        for outcome in store.outcomes(run.id):  # of a run that is an evaluation
            print(f"{outcome.attack} within {outcome.epsilon:g} ({outcome.norm}): accuracy {outcome.accuracy:.3f}")

        for finding in store.findings(run.id):
            print(f"{finding.severity} at {display_site(finding.site)}: {finding.explanation}")


def write_a_run(store: Store) -> None:
    """Records of one's own, from anything that is no model: a layout says which rows and columns every step has."""
    layout = Layout("gradient", ("encoder", "decoder"), ("l2_norm", "mean"), ("float32", "float32"))
    writer = store.begin_run("by-hand")
    for step in range(20):
        values = np.array([[1.0, 0.1], [2.0, 0.2]]) / (step + 1)
        writer.write(
            [StepRecord(step, time.time(), blocks=(Block(layout, values),), scalars={"loss": 3.0 / (step + 1)})]
        )
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
