"""The XLA backend against the same step written by hand for `jax.jit`: `python benchmarks/xla.py [--json] [--quick]`.

Both compute loss and gradients of equal weights; ours takes and returns arrays of NumPy, the peer arrays of JAX.
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from environment import machine

TARGET = 1.1  # issue 3: within 10 % of hand-written jax.jit

SHAPES = {"MLP 784-512-512-10 b128": (128, (784, 512, 512, 10)), "MLP 32 wide b16": (16, (32, 32, 32, 10))}


def ours(batch: int, widths: tuple[int, ...]) -> Callable[[], Any]:
    from mindscope.framework import Tensor, nn, ops, optim, random, value_and_grad
    from mindscope.framework.compiler.jit import jit

    random.set_seed(0)
    cells: list[Any] = []
    for a, b in pairwise(widths):
        cells += [nn.Dense(a, b), nn.ReLU()]
    net = nn.SequentialCell(*cells[:-1])
    optim.SGD(net.trainable_params(), learning_rate=0.1)  # as in training: the weights move into its aligned memory
    x, labels = _data(batch, widths)
    given = Tensor(x), Tensor(labels)
    step = jit(
        value_and_grad(lambda x, labels: ops.cross_entropy(net(x), labels), None, net.trainable_params()),
        capture_mode="trace",
        backend="xla",
    )
    return lambda: step(*given)


def by_hand(batch: int, widths: tuple[int, ...]) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    numbers = np.random.default_rng(0)
    weights = [
        (jnp.asarray(numbers.normal(0, a**-0.5, (b, a)).astype(np.float32)), jnp.zeros(b, jnp.float32))
        for a, b in pairwise(widths)
    ]
    x, labels = (jnp.asarray(array) for array in _data(batch, widths))

    def loss(weights: Any, x: Any, labels: Any) -> Any:
        for i, (w, b) in enumerate(weights):
            x = x @ w.T + b
            x = jax.nn.relu(x) if i < len(weights) - 1 else x
        return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()

    step = jax.jit(jax.value_and_grad(loss))
    return lambda: jax.block_until_ready(step(weights, x, labels))


def _data(batch: int, widths: tuple[int, ...]) -> tuple[Any, Any]:
    numbers = np.random.default_rng(1)
    return numbers.normal(size=(batch, widths[0])).astype(np.float32), numbers.integers(0, widths[-1], batch)


def best(call: Callable[[], Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def measure(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for case, (batch, widths) in SHAPES.items():
        calls = {"ours": ours(batch, widths), "again": ours(batch, widths), "jax.jit": by_hand(batch, widths)}
        times: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            call()
        repeats = 5 if batch > 16 else 100
        for _ in range(20 if quick else 100):  # interleaved blocks
            for name, call in calls.items():
                times[name].append(best(call, repeats))
        low = {name: min(found) for name, found in times.items()}
        for metric, a in (("ratio to hand-written jax.jit", "jax.jit"), ("A/A control", "again")):
            value = low["ours"] / low[a]
            target = TARGET if a == "jax.jit" else None
            rows.append(
                {
                    "case": case,
                    "metric": metric,
                    "value": round(value, 3),
                    "unit": "ratio of wall times",
                    "limit": target,
                    "peers": {name: round(1e6 * seconds, 1) for name, seconds in low.items()},
                    "target": target,
                    "ok": target is None or value <= target,
                }
            )
    return rows


def main() -> None:
    missing: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    versions = {"numpy": np.__version__}
    try:
        import jax
    except ModuleNotFoundError as error:
        missing["jax"] = f"{error}; pip install mindscope[xla]"
    else:
        versions["jax"] = jax.__version__
        rows = measure("--quick" in sys.argv)
    document = {"benchmark": "xla", "machine": machine(), "versions": versions, "results": rows, "missing": missing}
    if "--json" in sys.argv:
        print(json.dumps(document))
        return
    for row in rows:
        print(f"{row['case']}: {row['metric']} {row['value']} ({row['peers']} us)")
    for name, reason in missing.items():
        print(f"missing {name}: {reason}")


if __name__ == "__main__":
    main()
