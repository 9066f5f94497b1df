"""What the page says behind the verdict, in the words of the command line."""

from dataclasses import replace

import pytest
from mindscope.dashboard.components.run_header import headline_cards
from mindscope.dashboard.components.verdict_panel import verdict_panel
from mindscope.dashboard.headline import diagnosis_of, headline_of
from mindscope.dashboard.pages.findings.findings_page import findings_list
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.result_queries import learner_scalars, main_loss
from mindscope.dashboard.run_figures import run_curve_figure
from mindscope.dashboard.theme import palette_of
from mindscope.insight import render_text
from mindscope.storage import Event, StepRecord, open_store

from ..agreement.statements import words


def test_a_grey_verdict_lists_what_was_not_checked_and_what_could_not_run(reader, healthy_run):
    found = diagnosis_of(reader, healthy_run)
    shown = words(verdict_panel(found))
    assert found.verdict_words == "no fault found"
    assert "Not checked" in shown
    assert "whether what was learned holds for other data" in shown
    assert "Rules that could not run" in shown
    assert all(name in shown for name in found.rules_not_run)
    (card, *_) = headline_cards(healthy_run, headline_of(reader, healthy_run), 0, main_loss(reader, healthy_run))
    assert card.className == "card card-quiet"
    assert "icon-good" not in str(findings_list(reader, healthy_run))


def test_the_panel_tells_every_line_of_the_command_line(reader, bad_run):
    found = diagnosis_of(reader, bad_run)
    shown = words(verdict_panel(found)).lower()
    told = render_text(replace(found, root_causes=found.root_causes[:1])).splitlines()
    sure = next(line for line in told if "how sure: " in line).partition("how sure: ")[2]
    assert sure.lower() in shown
    assert "look at it. store.series(" in shown


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("KeyboardInterrupt", "The run was interrupted at step 19."),
        ("ValueError: no such file", "The run failed at step 19: ValueError: no such file."),
    ],
)
def test_what_ended_the_run_is_told(reader, healthy_run, error, line):
    found = replace(diagnosis_of(reader, healthy_run), state="failed", error=error, last_step=19)
    assert line in words(verdict_panel(found))


@pytest.fixture
def game():
    """Two learners whose losses differ, and a network that nobody watched."""
    with open_store("memory:") as store:
        writer = store.begin_run("game")
        learners = Event("learners", 0, data={"learners": [{"name": "G"}, {"name": "D"}]})
        later = Event("later_training", 5, "critic", data={"networks": "critic (Net)", "watched": "Game"})
        scalars = [{"loss": 9.0, "G/loss": 3.0 - step / 10, "D/loss": step / 10} for step in range(20)]
        writer.write([StepRecord(0, 0.0, scalars=scalars[0], events=(learners, later))])
        writer.write([StepRecord(step, 0.0, scalars=values) for step, values in enumerate(scalars) if step])
        writer.close()
        yield Reader(store), store.find_run("game")


def test_each_learner_has_a_curve_under_its_name(game):
    reader, run = game
    assert learner_scalars(reader, run.id) == ("G/loss", "D/loss")
    figure = run_curve_figure(reader, run.id, "loss", "linear", palette_of("light")).to_dict()
    named = {trace["name"]: trace["y"][-1] for trace in figure["data"] if trace.get("showlegend") is not False}
    assert named == {"G": pytest.approx(1.1), "D": pytest.approx(1.9)}
    assert figure["layout"]["showlegend"]


def test_a_network_that_was_trained_unwatched_is_told(game):
    reader, run = game
    assert "critic (Net)" in words(verdict_panel(diagnosis_of(reader, run)))


def test_the_card_of_the_loss_has_its_last_and_best_value(game):
    reader, run = game
    cards = headline_cards(run, headline_of(reader, run), 0, main_loss(reader, run))
    assert words(cards[-1]) == "Loss9best 9 at step 0"


def test_every_root_cause_is_told_not_only_the_first(reader, bad_run):
    found = diagnosis_of(reader, bad_run)
    other = replace(found.root_causes[0], rule="dead-units", cause="dead_units", site="head", first_step=12)
    shown = words(verdict_panel(replace(found, root_causes=(*found.root_causes, other))))
    assert f"{len(found.root_causes) + 1}. Dead units at head since step 12" in shown
    assert shown.count("How sure.") == len(found.root_causes) + 1
