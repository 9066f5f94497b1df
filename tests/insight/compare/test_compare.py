"""Two runs part where they really part: the step, the site, the metric; and noise is no divergence."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.insight.compare import compare, comparison_to_json, render_comparison
from mindscope.insight.compare.noise import distances
from mindscope.insight.compare.pairing import align
from mindscope.storage import (
    Block,
    Event,
    Layout,
    ModuleInfo,
    OptimizerInfo,
    ParameterInfo,
    StepRecord,
    Structure,
    open_store,
)

STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
SITES = ("embed", "block.0", "block.1", "head")


def statistics(x):
    """The ten statistics of an array, the slow way."""
    finite = x[np.isfinite(x)]
    norms = [np.sqrt((finite**2).sum()), finite.mean(), finite.std(), finite.min(), finite.max(), (x == 0).sum()]
    return [*norms, np.isnan(x).sum(), np.isposinf(x).sum(), np.isneginf(x).sum(), x.size]


def training(steps=12, *, noise=0.0, change=None, seed=0, prefix="", skip=()):
    """Records of activations and gradients that hang together; `change(step, subject, site, x)` may alter a tensor."""
    rng, disturb, clock = np.random.default_rng(seed), np.random.default_rng(99), np.random.default_rng()
    for step in range(steps):
        blocks = []
        for subject in ("activation", "gradient"):
            rows = []
            for site in SITES:
                x = rng.standard_normal(64)
                x = x * (1.0 + noise * disturb.standard_normal(64))
                if change is not None:
                    x = change(step, subject, site, x)
                rows.append(statistics(x))
            layout = Layout(subject, tuple(prefix + s for s in SITES), STATISTICS, ("float64",) * 10)
            blocks.append(Block(layout, np.array(rows, float)))
        if step not in skip:
            loss = 2.0 - 0.01 * step
            yield StepRecord(step, step, blocks=tuple(blocks), scalars={"loss": loss, "step_seconds": clock.random()})


def structure(prefix="", kind="Dense"):
    modules = tuple(ModuleInfo(prefix + site, kind, i) for i, site in enumerate(SITES))
    return Structure(modules, tuple(ParameterInfo(f"{prefix}{site}.weight", (8, 8), "float32") for site in SITES))


def compared(first, second, structures=(None, None), **options):
    with open_store("memory:") as store:
        runs = []
        for name, records, shape in zip("ab", (first, second), structures, strict=True):
            writer = store.begin_run(name, **{key: value[len(runs)] for key, value in options.items()})
            writer.write_structure(shape or structure())
            writer.write(list(records))
            writer.close()
            runs.append(store.find_run(name))
        return compare((store, store), (runs[0], runs[1]))


def test_the_same_training_twice_is_identical():
    found = compared(training(), training())
    assert (found.verdict, found.common, found.exact_until, found.first) == ("identical", 12, 11, None)
    assert found.values == 12 * (2 * 4 * 10 + 1)  # the clock is no value


def test_runs_that_differ_in_steps_loss_or_optimizer_are_not_called_identical():
    longer = compared(training(), list(training())[:8])
    assert (longer.verdict, longer.apart) == ("identical", ("4 steps are in the first run alone, 0 in the second",))
    assert "equal to the bit where both have recorded" in render_comparison(longer)
    mute = compared(training(), (replace(one, scalars={}) for one in training()))
    assert mute.apart == ("the second run has recorded no loss",)
    sgd, adam = (replace(structure(), optimizers=(OptimizerInfo(kind, ({"lr": 0.1},)),)) for kind in ("SGD", "Adam"))
    assert compared(training(), training(), (sgd, adam)).apart == ("their optimizers differ",)
    assert compared(training(), training(), (sgd, sgd)).apart == ()


def in_micro_steps(records):
    """Every record as two micro-steps of one step."""
    for record in records:
        yield replace(record, scalars={})
        yield replace(record, micro_step=1)


def test_micro_steps_are_no_steps_of_their_own():
    found = compared(in_micro_steps(training()), in_micro_steps(training(skip=(5, 6))))
    assert (found.verdict, found.common, found.missing, found.exact_until) == ("identical", 10, (2, 0), 11)
    assert found.values == 10 * (2 * 2 * 4 * 10 + 1)


def perturbed(step, subject, site, x):
    return x * 1.0001 if (step, subject, site) >= (7, "activation", "block.1") and site == "block.1" else x


def test_exact_runs_part_at_the_first_step_and_site_that_differ():
    found = compared(training(), training(change=perturbed))
    assert (found.verdict, found.exact_until) == ("diverged", 6)
    assert (found.first.step, found.first.site, found.first.metric) == (7, "block.1", "activation/l2_norm")
    assert found.first.difference == pytest.approx(1e-4, rel=0.01)
    assert [divergence.site for divergence in found.also] == ["block.1"]
    assert "they part at step 7 (equal to the bit up to step 6" in render_comparison(found)


def test_rounding_noise_is_none_and_a_jump_above_it_is_found():
    quiet = compared(training(), training(noise=1e-7))
    assert (quiet.verdict, quiet.first) == ("within_noise", None)
    loud = compared(training(), training(noise=1e-7, change=perturbed))
    assert (loud.verdict, loud.first.step, loud.first.site) == ("diverged", 7, "block.1")
    assert 0.0 < loud.first.floor < 1e-6


def test_another_seed_differs_from_the_start():
    found = compared(training(), training(seed=1))
    assert (found.verdict, found.first.step, found.first.site) == ("different_start", 0, "embed")


def test_a_value_that_is_not_finite_on_one_side_only_is_a_divergence():
    def poison(step, subject, site, x):
        return np.where(np.arange(64) == 3, np.nan, x) if (step, subject, site) == (5, "gradient", "head") else x

    found = compared(training(noise=1e-7), training(change=poison))
    assert (found.first.step, found.first.site) == (5, "head")
    assert comparison_to_json(found)["first_divergence"]["metric"].startswith("gradient/")


def test_what_only_one_run_has_is_tolerated_and_said():
    found = compared(training(), training(skip=(3, 4)))
    assert (found.verdict, found.common, found.missing) == ("identical", 10, (2, 0))


def test_wrapped_and_renamed_sites_are_the_same_sites():
    found = compared(training(), training(prefix="module."), (structure(), structure("module.")))
    assert found.verdict == "identical"
    assert found.alignment.renamed["embed"] == "module.embed"
    other = replace(structure(), modules=tuple(ModuleInfo(f"layer{i}", "Dense", i) for i in range(4)))
    assert align(structure(), other).pairs == dict(zip(SITES, (f"layer{i}" for i in range(4)), strict=True)) | {
        f"{site}.weight": f"{site}.weight" for site in SITES
    }


def test_nothing_in_common_is_no_agreement():
    found = compared(training(skip=range(6, 12)), training(skip=range(6)))
    assert found.verdict == "incomparable"


def test_settings_and_structure_that_differ_are_listed():
    changed = structure(kind="Linear")
    found = compared(
        training(), training(), (structure(), changed), tags=({"lr": 1e-3}, {"lr": 1e-2}), config=({"every": 1}, {})
    )
    listed = {
        (difference.area, difference.name): (difference.first, difference.second) for difference in found.differences
    }
    assert listed["tags", "lr"] == (1e-3, 1e-2)
    assert listed["configuration", "every"] == (1, None)
    assert listed["module", "head"] == ("Dense", "Linear")


@given(st.lists(st.floats(width=32), min_size=10, max_size=10), st.lists(st.floats(width=32), min_size=10, max_size=10))
def test_distance_is_symmetric_and_zero_for_equal_bits_alone(a, b):
    first, second = np.array([a]), np.array([b])
    there, back = distances(first, second, STATISTICS), distances(second, first, STATISTICS)
    np.testing.assert_array_equal(there, back)
    assert (there >= 0.0).all()
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    assert not there[same].any()


def fed(*, value=1.0, checksum=5.0, at=3):
    """A training whose batch has this norm and checksum from one step on; what comes of it is left out."""
    layout = Layout("batch", ("",), STATISTICS, ("float64",) * 10)
    for step, record in enumerate(training(6, change=lambda s, _, __, x: x * (value if s >= at else 1.0))):
        changed = step >= at
        row = np.full((1, 10), 2.0 * (value if changed else 1.0))
        scalars = {**record.scalars, "batch/checksum": checksum if changed else 1.0}
        yield replace(record, blocks=(*record.blocks, Block(layout, row)), scalars=scalars)


def test_a_batch_that_differs_is_named_before_what_the_model_makes_of_it():
    found = compared(fed(), fed(value=3.0, checksum=6.0))
    assert (found.first.step, found.first.site, found.first.metric) == (3, "", "batch/l2_norm")
    (difference,) = found.differences
    assert (difference.area, difference.name, difference.first, difference.second) == (
        "data",
        "the batch of step 3",
        "5",
        "6",
    )
    assert difference.note == "3 of the 6 steps that both recorded differ"
    assert comparison_to_json(found)["differences"][0]["note"] == difference.note


def test_checksums_of_the_data_name_contents_and_have_no_distance():
    found = compared(fed(checksum=5.0), fed(checksum=6.0))
    assert found.verdict == "identical"
    assert "the batch of step 3: checksums 5 and 6; 3 of the 6 steps that both recorded differ" in render_comparison(
        found
    )


def test_the_weights_and_generators_that_two_runs_began_with_are_compared():
    def begun(weights, numpy):
        first, *rest = training(3)
        generators = {"python": "same", "numpy": numpy}
        events = (
            Event("initial_checksum", 0, data={"checksum": weights}),
            Event("random_state", 0, data={"generators": generators}),
        )
        return [replace(first, events=events), *rest]

    found = compared(begun("aa", "xx"), begun("ac", "xy"))
    assert {(difference.name, difference.first, difference.second) for difference in found.differences} == {
        ("initial weights", "aa", "ac"),
        ("random state of numpy", "xx", "xy"),
    }
    text = render_comparison(found)
    assert "initial weights: checksums aa and ac\n" in text
    assert "random generators start from different states: numpy; seed the ones" in text
    assert text.endswith("as numpy.random.seed(0)")
    assert "xx" not in text  # which says nothing by itself; the document has it
    assert compared(begun("aa", "xx"), training(3)).differences == ()


def test_runs_that_recorded_different_parameters_are_compared_by_those_in_common():
    def begun(sites, norm, first="a"):
        blocks = [Block(Layout("gradient", sites, ("l2_norm",), ("float64",)), np.ones((len(sites), 1)))]
        each = {site: first if site == "embed" else site for site in sites}
        data = {"checksum": "".join(each.values()), "parameters": each}
        scalars = {"gradient_norm": norm, "loss": 1.0}
        return [StepRecord(0, 0.0, blocks=blocks, scalars=scalars, events=(Event("initial_checksum", 0, data=data),))]

    found = compared(begun(("embed",), 1.0), begun(("embed", "head"), 1.4))
    assert (found.verdict, found.differences) == ("identical", ())
    found = compared(begun(("embed", "head"), 1.0), begun(("embed", "head"), 1.4))
    assert found.first.metric == "scalar/gradient_norm"
    found = compared(begun(("embed",), 1.0), begun(("embed", "head"), 1.0, first="b"))
    assert found.differences[0].note == "1 of the 1 parameters that both recorded differ"


def test_values_that_depend_on_earlier_ones_are_compared_only_if_both_runs_have_these():
    def looked(steps, last):
        layout = Layout("activation/units", ("embed",), ("dead_share",), ("float64",))
        blocks = {step: [Block(layout, np.full((1, 1), last if step == 4 else 0.0))] for step in steps}
        return [StepRecord(step, step, blocks=tuple(blocks.get(step, ())), scalars={"loss": 1.0}) for step in range(5)]

    assert compared(looked((0, 2, 4), 0.0), looked((0, 3, 4), 0.5)).verdict == "identical"
    assert compared(looked((0, 2, 4), 0.0), looked((0, 2, 4), 0.5)).first.metric == "activation/units/dead_share"


def test_generators_that_nobody_seeded_share_a_line():
    def begun(start):
        first, *rest = training(3)
        generators = {name: f"{start}{name}" for name in ("python", "numpy", "torch", "cuda:0", "cuda:1", "odd")}
        return [replace(first, events=(Event("random_state", 0, data={"generators": generators}),)), *rest]

    text = render_comparison(compared(begun("a"), begun("b")))
    (line,) = (line for line in text.splitlines() if "generators" in line)
    assert "start from different states: python, numpy, torch, cuda:0, cuda:1, odd;" in line
    assert line.endswith("as random.seed(0), numpy.random.seed(0), torch.manual_seed(0)")


def test_what_two_scripts_were_called_with_is_compared_by_name():
    hosts = [{"arguments": words} for words in (["--lr", "3", "data"], ["data", "--quick", "--lr=3"])]
    found = compared(training(), training(), host=hosts)
    assert [
        (difference.area, difference.name, difference.first, difference.second) for difference in found.differences
    ] == [("argument", "quick", None, True)]
    assert "argument quick: nothing and True" in render_comparison(found)
