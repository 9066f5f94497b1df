"""Records like those of a training: walks, counts, holes and non-finite values, from a seed."""

from dataclasses import fields, is_dataclass

import numpy as np
from mindscope.storage import Block, Event, Finding, Histogram, Layout, StepRecord

STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
DTYPES = ("float32",) * 5 + ("uint64",) * 5


def layout(sites: int = 40, subject: str = "activation", part: int = 0) -> Layout:
    return Layout(subject, tuple(f"layer.{at}" for at in range(sites)), STATISTICS, DTYPES, part=part)


def finding(step: int = 5, **changes) -> Finding:
    values = {
        "rule": "dead-relu",
        "cause": "dead_units",
        "severity": "warning",
        "step": step + 3,
        "first_step": step,
        "site": "layer.1",
        "metric": "activation/zeros",
        "evidence": {"share": 0.25, "limit": float("nan"), "top": float("inf")},
        "explanation": "units never fire",
        "advice": "lower the learning rate",
        "order": (0, 1, 4),
    }
    return Finding(**{**values, **changes})


def walk(steps: int, *layouts: Layout, seed: int = 0, first: int = 0, stride: int = 1) -> list[StepRecord]:
    """Records in which values wander, a few are NaN or infinite, a few sites are missing, a few steps skipped."""
    random = np.random.default_rng(seed)
    states = [random.normal(size=(len(one.sites), 5)) for one in layouts]
    records = []
    for at in range(steps):
        blocks = []
        for one, state in zip(layouts, states, strict=True):
            state += random.normal(scale=0.01, size=state.shape)
            blocks.append(_block(one, state, random, at))
        step = first + at * stride
        records.append(
            StepRecord(
                step=step,
                time=1.7e9 + step * 0.037,
                micro_step=0,
                skipped=at % 50 == 17,
                blocks=tuple(blocks),
                scalars=_scalars(at),
                histograms=_histograms(at),
                events=(Event("step_skipped", step, data={"loss_scale": 2.0**15}),) if at % 50 == 17 else (),
            )
        )
    return records


def _block(one: Layout, state: np.ndarray, random: np.random.Generator, at: int) -> Block:
    values = np.zeros((len(one.sites), 10))
    values[:, :5] = state
    values[:, 5] = random.integers(0, 500, len(one.sites))
    values[:, 9] = 4096
    present = None
    if at % 37 == 11:
        values[1 % len(values), :5] = np.nan
        values[2 % len(values), 0] = np.inf
        values[2 % len(values), 1] = -np.inf
        values[2 % len(values), 7] = 1
    if at % 41 == 12:
        values[3 % len(values), 0] = 1e200
    if at % 23 == 7:
        present = random.random(len(one.sites)) > 0.2
    return Block(one, values, present)


def _scalars(at: int) -> dict[str, float]:
    scalars = {"loss": 2.0 / (at + 1), "learning_rate": 0.1}
    if at % 31 == 30:
        scalars["loss"] = float("nan")
    if at >= 20:
        scalars["loss_scale"] = float("inf") if at % 29 == 28 else 2.0**16
    return scalars


def _histograms(at: int) -> tuple[Histogram, ...]:
    if at % 10:
        return ()
    edges = np.array([-np.inf, -1.0, 0.0, 1.0, np.inf])
    return (Histogram("layer.0", "weight", edges, np.array([at, 1, 2, 2**40])),)


def bits(value: object) -> object:
    """A value as what can be compared, NaN among it."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if is_dataclass(value):
        return [bits(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, dict | tuple):
        return [bits(one) for one in (value.items() if isinstance(value, dict) else value)]
    return repr(value)
