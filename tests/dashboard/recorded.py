"""Seeded runs written through the storage's public interface: what a monitor would leave behind, without a training."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from mindscope.storage import (
    Block,
    Finding,
    Histogram,
    Layout,
    ModuleInfo,
    Outcome,
    ParameterInfo,
    Run,
    StepRecord,
    Store,
    Structure,
)

STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
DTYPES = (*("float32",) * 5, *("uint64",) * 5)
BAD_STEP = 180
BAD_SITE = "decoder.2.mlp.act"
_SIZE = 4096
_PARTS = ("norm1", "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.o_proj", "norm2", "mlp.up", "mlp.act", "mlp.down")


def module_sites(layers: int = 4) -> tuple[str, ...]:
    """Sites in call order: 40 for four layers."""
    inner = [f"decoder.{layer}.{part}" for layer in range(layers) for part in _PARTS]
    return ("embed", *inner, "norm", "head", "")


def parameter_sites(layers: int = 4) -> tuple[str, ...]:
    return tuple(f"{site}.weight" for site in module_sites(layers) if site and not site.endswith("act"))


@dataclass(frozen=True)
class Plan:
    """What the run is to look like."""

    steps: int = 300
    layers: int = 4
    seed: int = 0
    spike_at: int | None = 90
    goes_bad: bool = True
    start: float = 1_795_000_000.0


def structure_of(plan: Plan) -> Structure:
    sites = module_sites(plan.layers)
    kinds = {site: site.rpartition(".")[2] or "Decoder" for site in sites}
    before = {site: (last,) if last else () for last, site in zip(("", *sites), sites, strict=False)}
    modules = tuple(ModuleInfo(site, kinds[site], order, before[site]) for order, site in enumerate(sites))
    parameters = tuple(ParameterInfo(site, (64, 64), "float32", group=(0, 0)) for site in parameter_sites(plan.layers))
    return Structure(modules, parameters, subjects=("activation", "gradient", "update"))


def records(plan: Plan) -> Iterator[StepRecord]:
    """The records of the whole run, oldest first."""
    random = np.random.default_rng(plan.seed)
    modules, parameters = module_sites(plan.layers), parameter_sites(plan.layers)
    activation = Layout("activation", modules, STATISTICS, DTYPES)
    gradient = Layout("gradient", parameters, STATISTICS, DTYPES)
    update = Layout("update", parameters, ("l2_norm", "ratio_to_weight"), ("float32", "float32"))
    scale = np.exp(random.normal(1.0, 0.7, len(modules)))
    for step in range(plan.steps):
        is_bad = plan.goes_bad and step >= BAD_STEP
        spike = 25.0 if step == plan.spike_at else 1.0
        loss = 0.9 + 3.4 * math.exp(-step / 60) + 0.03 * random.normal() + (1.6 if step == plan.spike_at else 0)
        norms = scale * (1 + step / 400) * np.exp(random.normal(0, 0.04, len(modules)))
        norms[modules.index("decoder.1.mlp.up") :][:4] *= spike
        values = _statistics(norms)
        if is_bad:
            bad = modules.index(BAD_SITE)
            values[bad:, 6] = np.minimum(_SIZE, 3.0 * (step - BAD_STEP + 1) ** 2)
            values[bad:, 0] *= 1.5
        slopes = (
            0.3 * np.exp(-np.arange(len(parameters)) / 30) * np.exp(random.normal(0, 0.15, len(parameters))) * spike
        )
        updates = np.stack([slopes * 0.01, 1e-3 * np.exp(random.normal(0, 0.2, len(parameters)))], axis=1)
        histograms = _histograms(random, step, is_bad) if step % 20 == 0 else ()
        yield StepRecord(
            step,
            plan.start + step * 0.21,
            blocks=(Block(activation, values), Block(gradient, _statistics(slopes)), Block(update, updates)),
            scalars={
                "loss": math.nan if is_bad and step > BAD_STEP + 2 else loss,
                "learning_rate": 3e-4 * min(1.0, (step + 1) / 30),
                "step_seconds": 0.21 + 0.01 * random.random(),
            },
            histograms=histograms,
        )


def _statistics(norms: np.ndarray) -> np.ndarray:
    spread = norms / math.sqrt(_SIZE)
    columns = [norms, 0.05 * spread, spread, -3.4 * spread, 3.6 * spread]
    counts = [np.zeros_like(norms)] * 4 + [np.full_like(norms, _SIZE)]
    return np.stack(columns + counts, axis=1)


def _histograms(random: np.random.Generator, step: int, is_bad: bool) -> tuple[Histogram, ...]:
    edges = np.array([-math.inf, *np.linspace(-3, 3, 49), math.inf])
    found = []
    for site in (BAD_SITE, "decoder.1.mlp.up", "head"):
        sample = random.normal(0.1, 0.8 + step / 500, _SIZE)
        counts, _ = np.histogram(sample, edges)
        found.append(Histogram(site, "activation", edges, counts.astype(np.int64)))
    return tuple(found)


def findings() -> tuple[Finding, ...]:
    """What a diagnosis of the bad run says: one root and what follows from it."""
    root = Finding(
        rule="non-finite-activation",
        cause="non_finite_activation",
        severity="error",
        step=BAD_STEP,
        first_step=BAD_STEP,
        site=BAD_SITE,
        metric="activation/nans",
        evidence={"nans": 3.0, "size": 4096.0, "inputs_non_finite": 0.0},
        explanation="decoder.2.mlp.act turned finite input into 3 NaN of 4,096 values; all before it is finite.",
        advice="Look at what this activation does to large inputs: a square root or logarithm of a negative number, or "
        "an exponential that overflows. Clamp its input or compute it in float32.",
        order=(0, 1, 26),
    )
    after = Finding(
        rule="non-finite-loss",
        cause="non_finite_loss",
        severity="error",
        step=BAD_STEP + 3,
        first_step=BAD_STEP + 3,
        site="",
        metric="scalar/loss",
        evidence={"loss": math.nan},
        explanation="The loss is NaN since step 183.",
        advice="Follow the earlier finding first.",
        order=(0, 2, 0),
    )
    spike = Finding(
        rule="loss-spike",
        cause="loss_spike",
        severity="info",
        step=90,
        first_step=90,
        site="",
        metric="scalar/loss",
        evidence={"loss": 3.27, "usual": 1.64, "deviation": 21.4},
        explanation="The loss rose to 3.27 in one step, 21 robust deviations above its own history, and came back.",
        advice="Look at the batch of step 90.",
        confidence=0.8,
        order=(0, 2, 0),
    )
    return (spike, root, after)


def outcomes() -> tuple[Outcome, ...]:
    """Two attacks at six budgets."""
    budgets = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
    drops = {"fgsm": (0.974, 0.93, 0.85, 0.61, 0.33, 0.12), "pgd": (0.974, 0.91, 0.78, 0.41, 0.09, 0.0)}
    return tuple(
        Outcome(name, "linf", epsilon, accuracy, 512, math.nan if epsilon == 0 else epsilon * 0.8)
        for name, row in drops.items()
        for epsilon, accuracy in zip(budgets, row, strict=True)
    )


def write_run(store: Store, name: str = "gpt-nan", plan: Plan | None = None, *, closes: bool = True) -> Run:
    """Writes a whole run and, when it goes bad, its findings."""
    plan = plan or Plan()
    writer = store.begin_run(name, framework="pytorch", tags={"lr": 3e-4, "layers": plan.layers})
    writer.write_structure(structure_of(plan))
    writer.write(list(records(plan)), findings() if plan.goes_bad else ())
    if closes:
        writer.close("finished")
    return writer.run


def write_evaluation(store: Store, parent: Run) -> Run:
    """Writes what attacks did to the model of a run."""
    writer = store.begin_run(f"{parent.name} under attack", kind="evaluation", parent=parent.id)
    writer.write_outcomes(outcomes())
    writer.close("finished")
    return writer.run
