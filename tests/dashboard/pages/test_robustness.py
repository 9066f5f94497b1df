"""The page about attacks: what is left, what is certain, whether to believe it, and what else was measured."""

import plotly.graph_objects as go
import pytest
from dash import dcc, html
from mindscope.dashboard import create_app
from mindscope.dashboard.pages.robustness.robustness_page import budget_of, robustness_panels
from mindscope.dashboard.queries.evaluations import evaluations
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import Outcome, open_store

from ..calling import call
from ..evaluated import EXPLANATION, attacks, write_everything
from ..recorded import Plan, write_evaluation, write_run


@pytest.fixture(scope="module")
def store():
    store = open_store("memory:")
    run = write_run(store, "digits", Plan(steps=20, goes_bad=False, spike_at=None))
    write_everything(store, run)
    write_run(store, "untouched", Plan(steps=5, goes_bad=False, spike_at=None))
    yield store
    store.close()


@pytest.fixture(scope="module")
def found(store):
    return evaluations(Reader(store), store.find_run("digits").id)


def words_of(part):
    """All words in the order in which they stand, table cells parted."""
    if isinstance(part, list | tuple):
        return " ".join(words_of(one) for one in part)
    if isinstance(part, str):
        return part
    return words_of(getattr(part, "children", None) or "")


def of_kind(parts, kind):
    return [one for part in parts for one in (part, *part._traverse()) if isinstance(one, kind)]


def test_the_cards_say_what_is_left_what_is_certain_and_whether_to_believe_it(found):
    cards = words_of(robustness_panels(found, LIGHT, epsilon="0.1")[0])
    for words in ("96.0%", "37.0%", "20.0%", "Do not trust it", "worst of 2 attacks"):
        assert words in cards


def test_a_certificate_of_a_larger_budget_holds_at_a_smaller_one(store, found):
    fewer = found.__class__(tuple(pair for pair in found.pairs if pair[1].attack != "certified crown"))
    larger = Outcome("certified ibp", "linf", 0.2, 0.15, 256, details={"kind": "certificate"})
    joined = found.__class__((*fewer.pairs, (found.pairs[0][0], larger)))
    assert "15.0%" in words_of(robustness_panels(joined, LIGHT, epsilon="0.1")[0])
    assert "no certificate" in words_of(robustness_panels(fewer, LIGHT, epsilon="0.1")[0])


def test_the_verdict_is_said_in_words_with_the_gap_to_plain_pgd(found):
    said = words_of(robustness_panels(found, LIGHT, epsilon="0.1")[2])
    assert EXPLANATION[1:] in said
    assert "PGD of 40 steps alone would leave 42.0%" in said
    assert "5.0 points more" in said


@pytest.mark.parametrize(
    ("details", "words"),
    [({"kind": "worst-case", "masking": [], "verdict": []}, "Credible"), ({"kind": "worst-case"}, "Not judged")],
)
def test_no_sign_and_no_look_are_two_verdicts(found, details, words):
    run = found.pairs[0][0]
    one = found.__class__(((run, Outcome("worst-case", "linf", 0.1, 0.4, 9, details=details)),))
    assert words in words_of(robustness_panels(one, LIGHT))


def test_a_certificate_above_the_attacks_is_pointed_out(found):
    run = found.pairs[0][0]
    certified_outcome = Outcome("certified crown", "linf", 0.1, 0.6, 9, details={"kind": "certificate"})
    both = found.__class__(((run, Outcome("pgd", "linf", 0.1, 0.4, 9)), (run, certified_outcome)))
    assert "measured on other samples or another model" in words_of(robustness_panels(both, LIGHT))


def test_the_certified_bound_stands_below_the_attacks_in_one_picture(found):
    (lines, *_) = of_kind(robustness_panels(found, LIGHT, epsilon="0.1"), dcc.Graph)
    assert [trace.name.split(" (")[0] for trace in lines.figure.data] == [
        "certified crown",
        "pgd",
        "square",
        "worst-case",
    ]
    assert lines.figure.data[0].fill == "tozeroy"
    assert lines.figure.layout.shapes[0].x0 == 0.1


def test_what_is_chosen_stands_in_front(found):
    (lines, *_) = of_kind(robustness_panels(found, LIGHT, attack="square"), dcc.Graph)
    faded = {trace.name for trace in lines.figure.data if (trace.opacity or 1) < 1}
    assert faded == {"pgd (linf)"}
    assert "Examples by square at epsilon 0.05" in words_of(robustness_panels(found, LIGHT, attack="square"))


def test_examples_show_three_pictures_each_and_what_the_model_said(found):
    panels = robustness_panels(found, LIGHT, epsilon="0.2")
    assert len(of_kind(panels, html.Img)) == 9
    words = words_of(panels)
    for said in ("class 3, 99.1% sure", "class 5, 87.2% sure", "labelled 3", "Examples by pgd at epsilon 0.2"):
        assert said in words


@pytest.mark.parametrize(("said", "budget"), [("", 0.05), ("0.2", 0.2), ("0.17", 0.05), ("1e-3", 0.05)])
def test_a_budget_that_nobody_measured_leads_to_one_with_examples(found, said, budget):
    assert budget_of(found, "linf", said) == budget


def test_everything_else_that_was_measured_is_there(found):
    panels = robustness_panels(found, LIGHT)
    words = words_of(panels)
    for said in (
        "Privacy spent",
        "4.30%",
        "9 failures among 200 inputs",
        "fault nan weights everywhere",
        "leaves 10.0%",
        "Drift of the inputs",
        "digits measured",
    ):
        assert said in words
    assert {one.id for one in of_kind(panels, dcc.Graph)} == {
        "robustness-lines",
        "robustness-radar",
        "robustness-privacy",
        "robustness-membership",
        "robustness-coverage-0",
        "robustness-rounds-0",
        "robustness-faults",
        "robustness-drift-0",
    }


def test_plotly_itself_finds_nothing_wrong_in_any_of_its_pictures(found):
    for one in of_kind(robustness_panels(found, LIGHT), dcc.Graph):
        go.Figure(one.figure.to_plotly_json())


def test_of_two_evaluations_the_newer_one_speaks(store):
    with open_store("memory:") as own:
        run = write_run(own, "twice", Plan(steps=3, goes_bad=False, spike_at=None))
        write_evaluation(own, run)
        writer = own.begin_run("again", kind="evaluation", parent=run.id)
        writer.write_outcomes([Outcome("pgd", "linf", 0.1, 0.777, 8)])
        writer.close("finished")
        found = evaluations(Reader(own), run.id)
    assert [one.accuracy for one in found.of("attack", "linf") if (one.attack, one.epsilon) == ("pgd", 0.1)] == [0.777]
    assert len(found.of("attack")) == 12


@pytest.mark.parametrize(
    "details",
    [
        {"kind": 7, "gallery": "none", "metrics": [1]},
        {"kind": "attack", "gallery": [{"shape": [2, 2], "clean": "!!", "change": ""}], "bounds": [0]},
        {"kind": "worst-case", "masking": None, "verdict": 3, "attacks": {}},
        {"kind": "privacy", "steps": [1, 2], "epsilons": [0.5]},
        {"kind": "membership", "tpr_at": None, "false_positive_rates": ["a"]},
        {"kind": "coverage", "before": None, "curve": [3]},
        {"kind": "fault"},
        {"kind": "drift", "features": [None, "x"], "level": None},
    ],
    ids=lambda details: str(details["kind"]),
)
def test_details_that_nobody_expected_are_left_out_and_never_an_error(found, details):
    run = found.pairs[0][0]
    one = found.__class__(((run, Outcome("odd", "linf", 0.1, 0.5, 4, details=details)),))
    assert robustness_panels(one, LIGHT)


def test_the_page_answers_over_http_and_says_when_nobody_attacked(store):
    app = create_app(store)
    asked = {"robustness-run": store.find_run("digits").id, "robustness-epsilon": "0.1"}
    answer = call(app, "robustness-body.children", asked)
    assert answer.status_code == 200
    assert "37.0%" in answer.get_data(as_text=True)
    other = call(app, "robustness-body.children", {"robustness-run": store.find_run("untouched").id})
    assert "Not attacked yet" in other.get_data(as_text=True)


def test_attacks_of_the_fixture_are_as_armour_names_them():
    assert {outcome.details["kind"] for outcome in attacks()} == {"attack", "worst-case", "certificate"}
