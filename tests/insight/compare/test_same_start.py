"""A run that started as a good run did: the first value that differs tells what was changed, and the text where."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope.insight.compare import compare, comparison_to_json, diagnose_against, render_comparison
from mindscope.insight.compare.program_changes import program_changes, recorded_program
from mindscope.insight.compare.setting_differences import Difference
from mindscope.insight.indicators.executable_checks import refuting_event
from mindscope.storage import Block, Event, Layout, ModuleInfo, ParameterInfo, StepRecord, Structure, open_store

TEXT = """import torch
# a comment
for x, y in batches:
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
"""
STEPS = 20
STRUCTURE = Structure(
    (ModuleInfo("fc", "Linear", 0),), (ParameterInfo("fc.weight", (8, 8), "float32", requires_grad=True, group=(0, 0)),)
)


def start(weights="a", torch="t", python="p", text=TEXT, script="train.py"):
    """What a run records of its start: checksums of its weights, generators, and its program."""
    yield Event("initial_checksum", 0, "", 0, {"checksum": weights, "parameters": {"fc.weight": weights}})
    yield Event("random_state", 0, "", 0, {"generators": {"torch": torch, "python": python}})
    if text:
        yield Event("program_text", 0, "", 0, {"script": script, "files": {script: text}})


def records(events, *, loss=lambda step: 2.0 / (step + 1), activation=1.0, gradient=1.0, checksum=7.0, since=0):
    """A training whose values leave the good run's from one step on."""
    events = tuple(events)
    for step in range(STEPS):
        is_changed = step >= since
        values = {"activation": activation, "gradient": gradient} if is_changed else {}
        blocks = [
            Block(
                Layout(subject, (site,), ("l2_norm",), ("float64",)),
                np.array([[values.get(subject, 1.0) * (step + 1.0)]]),
            )
            for subject, site in (("activation", "fc"), ("gradient", "fc.weight"))
        ]
        scalars = {"loss": loss(step) if is_changed else 2.0 / (step + 1), "batch/checksum": checksum}
        yield StepRecord(step, float(step), blocks=tuple(blocks), scalars=scalars, events=events if step == 0 else ())


def against(run, good):
    with open_store("memory:") as store:
        for name, each in (("run", run), ("good", good)):
            writer = store.begin_run(name)
            writer.write_structure(STRUCTURE)
            writer.write(list(each))
            writer.close()
        pair = (store, store), (store.find_run("run"), store.find_run("good"))
        found = diagnose_against(*pair)
        return [finding for finding in found.findings if finding.rule == "reference"], compare(*pair)


GOOD = list(records(start()))


def test_a_run_that_is_the_good_one_again_has_nothing_to_report():
    assert against(records(start(python="other")), GOOD)[0] == []


def test_the_line_that_was_changed_is_told_beside_the_value_that_differs():
    changed = TEXT.replace("model(x), y)", "model(x), y.roll(1))")
    (finding,), _ = against(records(start(text=changed), loss=lambda step: 2.5), GOOD)
    assert (finding.severity, finding.metric, finding.first_step) == ("warning", "scalar/loss", 0)
    assert finding.cause == "uninformative_labels"
    assert (
        "train.py:5 is `loss = loss_fn(model(x), y.roll(1))`, there `loss = loss_fn(model(x), y)`"
        in finding.explanation
    )


@pytest.mark.parametrize(
    ("change", "since", "cause", "site"),
    [
        ({"loss": lambda step: -2.0 / (step + 1)}, 0, "wrong_loss_sign", ""),
        ({"gradient": 2.0}, 0, "wrong_backward", "fc.weight"),
        ({"gradient": 2.0}, 3, "wrong_backward", "fc.weight"),
        ({"activation": 3.0}, 0, "unknown", "fc"),
    ],
)
def test_the_first_value_that_differs_tells_what_was_changed(change, since, cause, site):
    (finding,), _ = against(records(start(), since=since, **change), GOOD)
    assert (finding.cause, finding.site, finding.first_step) == (cause, site, since)


@pytest.mark.parametrize("other", [{"weights": "b"}, {"torch": "u"}])
def test_another_seed_is_no_change_of_the_program(other):
    changed = TEXT.replace("zero_grad()", "zero_grad(set_to_none=True)")
    found, compared = against(records(start(text=changed, **other), loss=lambda step: 2.1 / (step + 1)), GOOD)
    assert found == []
    assert [one.name for one in compared.differences if one.area == "program"] == ["train.py:4"]


@pytest.mark.parametrize(("text", "is_chance"), [(f"import random\n{TEXT}", True), (TEXT, False)])
def test_other_data_are_a_change_of_the_program_unless_it_may_have_drawn_them(text, is_chance):
    other = records(start(python="other", text=text), checksum=8.0, loss=lambda step: 2.1 / (step + 1))
    found, _ = against(other, list(records(start(text=text))))
    assert (found == []) == is_chance


def test_other_labels_of_the_same_inputs_are_a_change_though_a_generator_of_python_is_not_seeded():
    def labelled(checksum, **options):
        for record in records(start(**options), loss=lambda step: 2.1 / (step + 1) if checksum else 2.0 / (step + 1)):
            yield replace(record, scalars={**record.scalars, "target/checksum": 3.0 + checksum})

    (finding,), _ = against(labelled(1.0, python="other"), labelled(0.0))
    assert finding.metric == "scalar/loss"


def diagnosed(run, good):
    """The diagnosis of a run beside a good one, each of a structure and its records."""
    with open_store("memory:") as store:
        for name, (structure, each) in (("run", run), ("good", good)):
            writer = store.begin_run(name)
            writer.write_structure(structure)
            writer.write(list(each))
            writer.close()
        return diagnose_against((store, store), (store.find_run("run"), store.find_run("good")))


def test_a_cause_that_a_rule_names_is_told_with_the_changed_line():
    names = ("fc", "body", "neck", "head")
    modules = tuple(ModuleInfo(name, "Linear", at) for at, name in enumerate(names))
    good, frozen = (
        Structure(
            modules,
            tuple(
                ParameterInfo(f"{name}.weight", (8, 8), "float32", requires_grad=name != still, group=(0, 0))
                for name in names
            ),
        )
        for still in ("", "neck")
    )
    changed = TEXT.replace("import torch\n", "import torch\nmodel.neck.requires_grad_(False)\n")
    found = diagnosed((frozen, records(start(text=changed), gradient=2.0)), (good, GOOD))
    (root,) = found.root_causes
    assert (root.rule, root.site) == ("frozen-parameter", "neck")
    assert "train.py:2 is `model.neck.requires_grad_(False)`, there missing" in root.explanation


def test_what_a_rule_only_asks_is_not_named_before_the_changed_line():
    left = refuting_event("values_are_read", "beta, a setting, is read by nothing", values=1, leftovers=1)
    changed = TEXT.replace("model(x), y)", "model(x), y.roll(1))")
    run = list(records(start(text=changed), loss=lambda step: 2.5))
    run[5] = replace(run[5], events=(replace(left, step=5),))
    found = diagnosed((STRUCTURE, run), (STRUCTURE, GOOD))
    first, second = found.root_causes
    assert (first.cause, first.rule) == ("uninformative_labels", "reference")
    assert second.cause == "unused_value"
    assert second.explanation.endswith("is read by nothing; the good run 'good' does not have it")


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("model(x), y)", "model(x), y.roll(1))")], ids=["same", "other"])
def test_another_program_that_starts_otherwise_and_goes_the_same_course_is_asked_about(text):
    found, _ = against(records(start(weights="b", torch="u", text=text), activation=1.1), GOOD)
    if text == TEXT:
        assert found == []
        return
    (finding,) = found
    assert (finding.cause, finding.severity) == ("uninformative_labels", "info")
    assert "train.py:5 is `loss = loss_fn(model(x), y.roll(1))`" in finding.explanation
    assert finding.explanation.endswith("is it meant?")


def test_a_run_of_another_model_is_no_reference():
    other = Structure(
        (ModuleInfo("body", "Conv2d", 0),),
        (ParameterInfo("body.weight", (3, 3, 5, 5), "float32", requires_grad=True, group=(0, 0)),),
    )
    found = diagnosed((STRUCTURE, records((), loss=lambda step: 9.0)), (other, records(())))
    assert "another model" in found.reasons["reference"]
    assert not [finding for finding in found.findings if finding.rule == "reference"]


def test_what_rounding_explains_is_no_change():
    assert against(records(start(), loss=lambda step: (2.0 + 1e-6) / (step + 1)), GOOD)[0] == []


def test_runs_that_recorded_no_start_are_judged_by_their_course_alone():
    assert against(records((), loss=lambda step: 2.1 / (step + 1)), list(records(())))[0] == []


def test_comments_and_empty_lines_are_no_difference_of_programs():
    changed = TEXT.replace("# a comment\n", "\n# another\n\n")
    _, compared = against(records(start(text=changed, script="other_name.py")), GOOD)
    assert [one for one in compared.differences if one.area == "program"] == []


def test_a_file_that_one_run_alone_imports_is_a_difference():
    with open_store("memory:") as store:
        for name, files in (("run", {"train.py": TEXT, "model.py": "x = 1"}), ("good", {"train.py": TEXT})):
            writer = store.begin_run(name)
            event = Event("program_text", 0, "", 0, {"script": "train.py", "files": files})
            writer.write([StepRecord(0, 0.0, events=(event,))])
            writer.close()
        changed, good = (recorded_program(store, store.find_run(name), 0) for name in ("run", "good"))
        assert program_changes(changed, good) == (Difference("program", "model.py", "imported", None),)


def test_a_small_difference_counts_where_the_program_was_changed_and_says_what():
    changed = TEXT.replace("model(x), y)", "model(x), y.roll(1))")
    (finding,), _ = against(records(start(text=changed), loss=lambda step: 2.0004 / (step + 1)), GOOD)
    assert finding.cause == "uninformative_labels"
    assert against(records(start(), loss=lambda step: 2.0004 / (step + 1)), GOOD)[0] == []


EVALUATED = f"""{TEXT}
def evaluate(model, batches):
    model.eval()
    return [model(x) for x, _ in batches]
"""


def test_rounding_is_no_change_whatever_was_done_to_the_program():
    changed = TEXT.replace("model(x), y)", "model(x), y.roll(1))")
    other = records(start(text=changed), loss=lambda step: (2.0 + 1e-6) / (step + 1), since=3)
    assert against(other, GOOD)[0] == []


def test_a_run_that_trains_alike_and_evaluates_otherwise_is_told():
    changed = EVALUATED.replace("    model.eval()\n", "")
    (finding,), compared = against(records(start(text=changed)), list(records(start(text=EVALUATED))))
    assert compared.verdict == "identical"
    assert (finding.cause, finding.severity) == ("wrong_train_eval_mode", "warning")
    assert "there is `model.eval()`" in finding.explanation.replace("there `model.eval()`", "there is `model.eval()`")


@pytest.mark.parametrize(
    "changed",
    [
        EVALUATED.replace("model.eval()", "model.eval()\n    print(len(batches))"),
        EVALUATED.replace("import torch", "import torch\nmodel.train()"),
        EVALUATED.replace("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=True)"),
    ],
)
def test_a_run_that_trains_alike_is_not_accused_of_any_other_change(changed):
    assert against(records(start(text=changed)), list(records(start(text=EVALUATED))))[0] == []


def test_weights_that_were_made_otherwise_are_a_change_only_where_the_text_says_so():
    changed = TEXT.replace("import torch\n", "import torch\ntorch.nn.init.constant_(model.fc.weight, 0.5)\n")
    (finding,), _ = against(records(start(weights="b", text=changed), loss=lambda step: 2.5), GOOD)
    assert finding.cause == "bad_initialization"


def test_a_comparison_says_what_the_changed_lines_speak_of_and_nothing_of_equal_programs():
    changed = TEXT.replace("model(x), y)", "model(x), y.roll(1))")
    _, compared = against(records(start(text=changed), loss=lambda step: 2.5), GOOD)
    assert "the changed lines speak of uninformative_labels" in render_comparison(compared)
    assert comparison_to_json(compared)["speaks_of"] == "uninformative_labels"
    _, compared = against(records(start(), loss=lambda step: 2.5), GOOD)
    assert compared.speaks_of == ""
    assert "speak of" not in render_comparison(compared)


def test_a_course_that_was_left_has_the_cause_that_the_change_speaks_of():
    changed = TEXT.replace("y)", "y.roll(1))")
    other = records(start(torch="u", text=changed), loss=lambda step: 90.0)
    (finding,), _ = against(other, GOOD)
    assert finding.cause == "uninformative_labels"
    assert "leaves the course" in finding.explanation


def test_all_batches_of_another_scale_are_unnormalised_and_one_alone_is_a_bad_batch():
    def scaled(since):
        for record in records(start()):
            size = 8.0 if record.step >= since else 1.0
            block = Block(Layout("batch", ("",), ("l2_norm",), ("float64",)), np.array([[size]]))
            yield replace(record, blocks=(block, *record.blocks))

    for since, cause in ((0, "unnormalized_input"), (5, "bad_batch")):
        (finding,), _ = against(scaled(since), scaled(STEPS))
        assert finding.cause == cause


@pytest.mark.parametrize(("text", "is_named"), [(TEXT, False), (f"import random{TEXT}random.random()", True)])
def test_a_generator_that_no_line_draws_from_is_no_difference(text, is_named):
    with open_store("memory:") as store:
        for name in ("run", "good"):
            writer = store.begin_run(name)
            writer.write_structure(STRUCTURE)
            writer.write(list(records(start(python=name, text=text))))
            writer.close()
        found = compare((store, store), (store.find_run("run"), store.find_run("good")))
    assert ("random state of python" in {one.name for one in found.differences}) is is_named
