"""The records of a training: a step, its blocks of statistics, its events, and findings and outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .attachments import Attachment
from .errors import StoreError
from .metric_series import Severity

#: Rule, site, rank and first step of a finding.
FindingKey = tuple[str, str, int, int]
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The fixed shape of a stream: which rows and columns every block of it has.

    Args:
        subject: The measured subject, e.g. `activation` or `optimizer/exp_avg`.
        sites: One site a row, at most 1024, in call order (activations) or model order (parameters).
        statistics: One statistic a column, e.g. `("l2_norm", "mean", ...)`.
        dtypes: What each column is stored as: `float32`, `float64` or `uint64`.
        calls: Which call of the site in the step each row is, 0 for the first; empty means all 0.
        part: Numbers the streams of one subject, when it has more sites than one stream holds.
    """

    subject: str
    sites: tuple[str, ...]
    statistics: tuple[str, ...]
    dtypes: tuple[str, ...]
    calls: tuple[int, ...] = ()
    part: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The statistics of all sites of one stream at one step.

    Args:
        values: `(sites, statistics)` float64. NaN here means that the statistic is NaN.
        present: `(sites,)` bool, False where the site was not observed in this step; None means all were.
    """

    layout: Layout
    values: NDArray[np.float64]
    present: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of one tensor's values between edges.

    Args:
        edges: `(bins + 1,)` float64, ascending; the first and last may be infinite.
        counts: `(bins,)` int64.
    """

    site: str
    subject: str
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    call: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: a fact, not a measurement.

    Kinds, with the fields of `data`:

        `accumulation`: micro_batches, factor (value of the backward pass over that of the loss), reduction, declared,
            terms (places that call backward); recorded when it changes
        `causality`: is_causal, is_declared (it must be causal), changed, first_output, difference, noise, positions; or
            is_causal None and reason
        `check`: check, outcome (held, broken or open), claim, counterexample, numbers, subject (the input concerned),
            occasion (1 to 4); an executable check of this run, see docs/scalars.md
        `exchange`: loss, exchanged, spread, samples, or reason; see docs/scalars.md
        `clipping`: by (norm or value), limit; recorded when it changes
        `collective`: file, line; recorded once for each calling line
        `compiled`: modules, the number of modules inside of one graph, which are not visible
        `configuration_changed`: the fields
        `configuration_refused`: error
        `configuration_shadowed`: keys that were edited in the file without effect, since they are set; remedy
        `exception`: type, message, unlisted (networks in plain lists, where an optimizer was made without parameters)
        `explanation`: sample, target, method, x, importance, region, scores
        `first_bad_operation`: operation, phase, file, line, code, inputs, output, source (an earlier cause, if known);
            recorded once, and again after the weights were finite
        `flight_recorder`: first, records, tensors: what a finding stored of the steps from `first` on
        `forward_modes`: forwards (training, gradients, count), others (modules with another training flag),
            sensitive_others (those of them that compute something else then), sensitive (all such modules); recorded
            when they change
        `gradient_before_forward`: parameters, l2_norm
        `gradient_of_another`: other (the learner whose pass the site's own one was added to)
        `initial_checksum`: checksum, parameters (checksum by site)
        `initial_weight`: mean, std, min, max, fan_in, shape of a weight before the first step
        `landscape`: the fields of a surface of `insight.landscape`
        `learners`: see docs/scalars.md
        `loss_input`: loss, domain, columns, values, min, max, row_sum_min, row_sum_max, shapes, options, target_min and
            target_max (where the loss cannot mean such targets); recorded when it changes
        `media`: name, type, index, digest, caption, note, see docs/scalars.md; with an attachment
        `modules_changed`: sites with another module than before, or none any more; count
        `monitor_fault`: collector, error, touched (where the training was)
        `no_step`: passes, reason: so many backward passes were seen and no step
        `observations_lost`: count, first and last step, sites (how many), error (if the store refused or lost them)
        `operators`: the operators of one step, see `OperatorLog.data` of the probe
        `optimizer_changed`: optimizer_kind, before (the kinds of the optimizers that it replaces)
        `optimizer_state_lost`: optimizer, count, count_before, is_another (whether another counts in its place)
        `optimizer_step_count`: optimizer (its number), optimizer_kind, count (steps before the first recorded one)
        `random_state`: generators (checksum by name)
        `product_is_wrong`, `rank_checksums`, `rank_outlier`, `rank_passes`, `rank_place`, `rank_records_late`,
            `rank_reduction`, `rank_still`, `rank_times`, `rank_topology`, `resume_point`, `resume_seam`,
            `weights_stale`: see docs/scalars.md
        `resumed`: as `optimizer_step_count`, and slots, if count is not 0
        `schedule_thinned`: factor, share, budget, subjects, since
        `scripted`: modules (how many of a module of `torch.jit` are not seen; no activations are recorded of these)
        `shared_parameter`: sites that share memory at the start
        `step_skipped`: loss_scale
        `tensor`: subject, call, digest, shape, dtype of a stored whole tensor
        `tensors_left_out`: count, reason, first and last step; recorded at once for a new reason, and at the end for
            the rest; of a flight recorder also the number of steps, and the memory that would have been enough
        `tie_broken`: sites that no longer share memory
        `training_kind`: see docs/scalars.md
        `update_refused`: a reaction to a finding has prevented the optimizer's step

    Args:
        attachment: The file of the digest in `data`, on its way to the store; `Store.attachment` reads it back.
    """

    kind: str
    step: int
    site: str = ""
    micro_step: int = 0
    data: Mapping[str, Json] = field(default_factory=dict)
    attachment: Attachment | None = field(default=None, compare=False, repr=False)

    def fields(self) -> dict[str, Json]:
        """Return its fields without the attachment, as JSON has them."""
        names: dict[str, Json] = {
            "kind": self.kind,
            "step": self.step,
            "site": self.site,
            "micro_step": self.micro_step,
        }
        return {**names, "data": dict(self.data)}


@dataclass(frozen=True, slots=True, eq=False)
class StepRecord:
    """Everything that was observed in one micro-step; the unit that goes from the training thread to the store.

    Args:
        step: Number of the optimizer step, from 0; a skipped step keeps its own number.
        time: Unix seconds at the end of the step.
        micro_step: Number of the backward pass in the step, from 0. The last record of a step has also the gradients,
            updates, weights and learning rates of the step.
        skipped: True when the optimizer did not apply the step (overflow under loss scaling).
        scalars: Loss, learning rate, loss scale, throughput, whatever the user logs.
        beside: Blocks and scalars outside the schedule. Listeners see them, and they are stored, only as far as a
            `FlightBuffer` decides.
    """

    step: int
    time: float
    micro_step: int = 0
    skipped: bool = False
    blocks: tuple[Block, ...] = ()
    scalars: Mapping[str, float] = field(default_factory=dict)
    histograms: tuple[Histogram, ...] = ()
    events: tuple[Event, ...] = ()
    beside: "StepRecord | None" = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem that a rule has found, with its evidence; `cause` names the kind of problem.

    Args:
        step: The step whose record made the rule fire.
        first_step: The first step with the problem.
        evidence: Numbers only: the value, what was expected, the history it was compared with.
        confidence: 1.0 for facts.
        order: Position in the data flow within `first_step`, as the rule knows it: (micro_step, phase, call order).
            Phases: 0 configuration, 1 forward, 2 loss, 3 backward, 4 optimizer. Smaller is earlier.
    """

    rule: str
    cause: str
    severity: Severity
    step: int
    first_step: int
    site: str
    metric: str
    evidence: Mapping[str, float]
    explanation: str
    advice: str
    confidence: float = 1.0
    rank: int = 0
    order: tuple[int, int, int] = (0, 0, 0)

    @property
    def key(self) -> FindingKey:
        """The identity of the finding: a later finding with the same key replaces it."""
        return self.rule, self.site, self.rank, self.first_step


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one attack on one model at one budget.

    Args:
        epsilon: Budget in the norm's own unit, on inputs scaled to `bounds`; 0 is the clean accuracy.
        accuracy: Share of samples still classified correctly, 0 to 1.
        samples: How many inputs were attacked.
        median_distance: Median distance of the successful adversarial examples; NaN when there is none.
        details: Queries, gradient calls, steps, seed, versions: what is needed to repeat the measurement.
    """

    attack: str
    norm: str
    epsilon: float
    accuracy: float
    samples: int
    median_distance: float = float("nan")
    details: Mapping[str, Json] = field(default_factory=dict)


def report_order(finding: Finding) -> tuple[int, tuple[int, int, int], int, str, str]:
    """Return the key by which a store sorts findings: since when, then the position in the data flow."""
    return finding.first_step, finding.order, finding.rank, finding.rule, finding.site


def check_order(run: str, last: tuple[int, int], records: Sequence[StepRecord]) -> tuple[int, int]:
    """Return (step, micro-step) of the newest record.

    Raises:
        StoreError: A record does not come after the one before it.
    """
    for record in records:
        now = (int(record.step), int(record.micro_step))
        if now <= last:
            raise StoreError(
                f"run {run!r} expects a record after step {last[0]} (micro-step {last[1]}), got step {now[0]} "
                f"(micro-step {now[1]}); begin a new run to go back in time"
            )
        last = now
    return last


Key = tuple[int, int]


def joined(record: StepRecord, more: StepRecord | None) -> StepRecord:
    """Return the record joined with the blocks and scalars of another record of the same step."""
    if more is None:
        return record
    blocks, scalars = (*record.blocks, *more.blocks), {**more.scalars, **record.scalars}
    return replace(record, blocks=blocks, scalars=scalars, beside=None)


def check_earlier(run: str, joined_last: Key, last: Key, earlier: Sequence[StepRecord]) -> Key:
    """Return (step, micro-step) of the last of these observations, which are to join stored records.

    Args:
        joined_last: (step, micro-step) of the last observations that were joined before.
        last: (step, micro-step) of the newest stored record.

    Raises:
        StoreError: The observations are not in order, or the record of their step is not stored yet.
    """
    newest = check_order(run, joined_last, earlier)
    if earlier and newest > last:
        raise StoreError(
            f"run {run!r} cannot join observations to step {newest[0]} (micro-step {newest[1]}): its newest record is "
            f"of step {last[0]} (micro-step {last[1]}); write the record first"
        )
    return newest
