"""Compare what two checkouts record of the same trainings, bit for bit.

Each training runs once with the package of this checkout and once with that of another, in processes of their own. The
records that reach a listener are compared: blocks with their layouts and values, scalars, histograms and events in
their order. Times, memory and throughput differ from run to run and are left out.

    python benchmarks/same_records.py --against ../checkout-of-another-commit [--json]

Give a folder that holds the other version of the package, as `git worktree add ../before HEAD~10` makes one.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_STEPS: Final = 24
#: Scalars and events whose values are times, bytes or places in memory.
_OF_THE_MACHINE: Final = ("time/", "throughput/", "memory/", "step_seconds", "rank_times")


def _mlp(**config: Any) -> Iterator[None]:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    yield from _watched(model, optimizer, config, lambda: torch.randn(8, 16), classes=4)


def _watched(
    model: Any, optimizer: Any, config: Mapping[str, Any], inputs: Callable[[], Any], *, classes: int, passes: int = 1
) -> Iterator[None]:
    """Train the model for some steps, watched."""
    import torch
    from torch.nn import functional

    with _watch(model, optimizer, config):
        for _ in range(_STEPS):
            optimizer.zero_grad()
            for _ in range(passes):
                output = model(inputs())
                labels = torch.randint(0, classes, output.shape[:-1])
                loss = functional.cross_entropy(output.reshape(-1, classes), labels.reshape(-1))
                (loss / passes).backward()
            optimizer.step()
            yield


def _watch(model: Any, optimizer: Any, config: Mapping[str, Any]) -> Any:
    import mindscope
    from mindscope.storage import open_store

    folder = tempfile.mkdtemp(prefix="records-")
    return mindscope.watch(model, optimizer, store=open_store(folder), config=dict(config), listeners=[_LISTENER])


def all_on_request() -> Iterator[None]:
    """Train a perceptron with every quantity and statistic on."""
    from mindscope.probe.collectors.collector import COLLECTORS

    subjects = {name: {"every": 1} for name, entry in COLLECTORS.items() if entry.is_optional and name != "operator"}
    return _mlp(statistics=["sum", "kurtosis", "checksum", "quantiles"], subjects=subjects)


def convolutions() -> Iterator[None]:
    """Train a network with convolutions, batch normalisation and dropout by SGD with momentum."""
    import torch
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(4 * 36, 5)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    yield from _watched(model, optimizer, {}, lambda: torch.randn(6, 1, 8, 8), classes=5)


def attention() -> Iterator[None]:
    """Train a transformer's encoder on tokens."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.Sequential(nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 20))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    yield from _watched(model, optimizer, {}, lambda: torch.randint(0, 20, (3, 7)), classes=20)


def accumulation() -> Iterator[None]:
    """Add up three micro-batches a step."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters())
    config = {"subjects": {"gradient_noise_scale": {"every": 1}, "gradient/unreduced": {"every": 1}}}
    yield from _watched(model, optimizer, config, lambda: torch.randn(4, 16), classes=3, passes=3)


def two_optimizers() -> Iterator[None]:
    """Train generator and critic in turns, gradients clipped, with an evaluation now and then."""
    import torch
    from torch import nn

    model = nn.ModuleDict(
        {"maker": nn.Linear(4, 6), "critic": nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 1))}
    )
    maker = torch.optim.Adam(model["maker"].parameters(), lr=1e-2)
    critic = torch.optim.RMSprop(model["critic"].parameters(), lr=1e-2)
    with _watch(model, [maker, critic], {}):
        for step in range(_STEPS):
            critic.zero_grad()
            made = model["maker"](torch.randn(5, 4))
            (model["critic"](made.detach()).mean() - model["critic"](torch.randn(5, 6)).mean()).backward()
            nn.utils.clip_grad_norm_(model["critic"].parameters(), 0.5)
            critic.step()
            maker.zero_grad()
            (-model["critic"](model["maker"](torch.randn(5, 4))).mean()).backward()
            maker.step()
            if step % 5 == 0:
                with torch.no_grad():
                    model["maker"](torch.randn(2, 4))
            yield


def closures() -> Iterator[None]:
    """Fit a linear layer with L-BFGS."""
    import torch
    from torch import nn

    model = nn.Linear(5, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    inputs, targets = torch.randn(9, 5), torch.randn(9, 2)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    with _watch(model, optimizer, {}):
        for _ in range(_STEPS):
            optimizer.step(closure)
            yield


def not_finite() -> Iterator[None]:
    """Skip updates whose gradient is not finite, and log scalars behind the steps."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = {"on_finding": [{"causes": ["non_finite_gradient"], "do": "skip_step"}]}
    with _watch(model, optimizer, config) as monitor:
        for step in range(_STEPS):
            optimizer.zero_grad()
            inputs = torch.randn(4, 6) * (float("nan") if step % 7 == 3 else 1.0)
            loss = nn.functional.mse_loss(model(inputs), torch.zeros(4, 2))
            loss.backward()
            optimizer.step()
            monitor.log(validation=float(step))
            yield


def half_precision() -> Iterator[None]:
    """Train bfloat16 layers beside float64 ones, with parameters frozen, and a scheduler."""
    import torch
    from torch import nn

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrow, self.wide = nn.Linear(8, 8).bfloat16(), nn.Linear(8, 3).double()
            self.narrow.bias.requires_grad = False

        def forward(self, inputs: Any) -> Any:
            return self.wide(torch.relu(self.narrow(inputs.bfloat16())).double())

    model = Mixed()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    yield from _watched(model, optimizer, {"every": 2}, lambda: torch.randn(4, 8), classes=3)


def _engine(*, compiled: bool) -> Iterator[None]:
    import numpy as np
    from mindscope.framework import Key, Tensor, jit, nn, ops, value_and_grad

    model = nn.SequentialCell(nn.Dense(8, 16, key=Key(1)), nn.ReLU(), nn.Dense(16, 3, key=Key(2)))
    optimizer = nn.Adam(model.trainable_params(), 1e-2)
    rng = np.random.default_rng(0)

    def loss_of(inputs: Any, labels: Any) -> Any:
        return ops.cross_entropy(model(inputs), labels)

    step = value_and_grad(loss_of, None, optimizer.parameters)
    step = jit(step) if compiled else step
    with _watch(model, optimizer, {}):
        for _ in range(_STEPS):
            _, gradients = step(Tensor(rng.normal(size=(6, 8)).astype(np.float32)), Tensor(rng.integers(0, 3, 6)))
            optimizer(gradients)
            yield


TRAININGS: Final[Mapping[str, Callable[[], Iterator[None]]]] = {
    "perceptron": _mlp,
    "perceptron, all on request": all_on_request,
    "perceptron, histograms": lambda: _mlp(histograms={"every": 3, "subjects": ["activation", "gradient", "weight"]}),
    "perceptron, every 5th": lambda: _mlp(every=5),
    "perceptron, a flight recorder": lambda: _mlp(every=4, flight_recorder={"steps": 6}),
    "convolutions": convolutions,
    "attention": attention,
    "accumulation": accumulation,
    "two optimizers": two_optimizers,
    "closures": closures,
    "gradients not finite": not_finite,
    "half and double precision": half_precision,
    "engine": lambda: _engine(compiled=False),
    "engine, compiled": lambda: _engine(compiled=True),
}


class _Listener:
    """Keeps what is recorded, as text that can be compared."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, _run: Any, structure: Any) -> None:
        """Write down the names of the parameters."""
        self.lines.append(f"structure {[parameter.site for parameter in structure.parameters]}")

    def end(self) -> tuple[()]:
        """Write down nothing more."""
        return ()

    def observe(self, record: Any) -> tuple[()]:
        """Write the record down."""
        here = f"{record.step}.{record.micro_step}"
        self.lines.append(f"{here} skipped {record.skipped}")
        for block in record.blocks:
            layout = block.layout
            present = None if block.present is None else block.present.tobytes()
            digest = hashlib.sha256(repr(layout).encode() + block.values.tobytes() + repr(present).encode()).hexdigest()
            self.lines.append(f"{here} block {layout.subject} {layout.sites} {layout.calls} {digest[:16]}")
        for name, value in record.scalars.items():
            if not name.startswith(_OF_THE_MACHINE):
                self.lines.append(f"{here} scalar {name} {float(value).hex()}")
        for histogram in record.histograms:
            digest = hashlib.sha256(histogram.edges.tobytes() + histogram.counts.tobytes()).hexdigest()
            self.lines.append(f"{here} histogram {histogram.site} {histogram.subject} {histogram.call} {digest[:16]}")
        for event in record.events:
            if not event.kind.startswith(_OF_THE_MACHINE):
                self.lines.append(
                    f"{here} event {event.kind} {event.site} {json.dumps(event.data, sort_keys=True, default=str)}"
                )
        return ()


_LISTENER = _Listener()


def _recorded(name: str) -> list[str]:
    """Return the lines of a training that runs here."""
    import numpy as np
    import torch

    random.seed(0)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  the generator of trainings that use none of their own
    torch.set_num_threads(1)
    for _ in TRAININGS[name]():
        pass
    return _LISTENER.lines


def _recorded_with(package: Path, name: str) -> list[str]:
    """Return the lines of a training that runs in a process of its own, with the package in this folder."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mindscope").symlink_to(package.resolve())
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONHASHSEED": "0"}
        command = [sys.executable, __file__, "--worker", name]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} with {package} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.splitlines()


def _difference(ours: Sequence[str], theirs: Sequence[str]) -> str:
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"line {number}: {one[:300]} | before {other[:300]}"
    return f"{len(ours)} lines, before {len(theirs)}"


def main() -> int:
    """Compare all trainings, print a line or a JSON entry each, and return 1 if any differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="the folder of the other package")
    parser.add_argument("--only", choices=TRAININGS, action="append", help="compare this training; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--worker", choices=TRAININGS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        sys.stdout.write("\n".join(_recorded(options.worker)))
        return 0
    if options.against is None:
        parser.error("--against is needed: the folder of the other package")
    found = {}
    for name in options.only or TRAININGS:
        ours = _recorded_with(Path(__file__).resolve().parents[1], name)
        theirs = _recorded_with(options.against, name)
        found[name] = {"lines": len(ours), "same": ours == theirs}
        if not options.json:
            print(f"{name:32} {len(ours):6} lines  {'same' if ours == theirs else _difference(ours, theirs)}")
    if options.json:
        print(json.dumps(found, indent=2))
    return int(not all(entry["same"] for entry in found.values()))


if __name__ == "__main__":
    sys.exit(main())
