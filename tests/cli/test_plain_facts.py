"""The facts of a rehearsal are told in plain words, grouped by what came of them."""

import pytest
from mindscope.cli.plain_facts import fact_lines


def _check(outcome, claim, step=1, reason=""):
    data = {"check": f"name_of_{claim[:3]}", "claim": claim, "outcome": outcome, "counterexample": reason}
    return {"kind": "check", "step": step, "site": "", **data, "numbers": {}, "subject": ""}


def test_each_claim_is_told_once_under_what_came_of_it():
    facts = [
        _check("held", "the output depends on x"),
        _check("held", "the output depends on x", 25),
        _check("held", "labels fit", 1),
        _check("broken", "labels fit", 25, "all are zero"),
        _check("open", "the optimizer works", 10, "there are 0 optimizers"),
        _check("open", "samples differ", 1, "one sample"),
        _check("held", "samples differ", 25),
    ]
    assert "\n".join(fact_lines(facts)).strip().split("\n\n") == [
        "failed:\n  labels fit: all are zero (step 25)",
        "could not be checked:\n  the optimizer works: there are 0 optimizers",
        "held:\n  the output depends on x\n  samples differ",
    ]


def test_a_model_of_which_no_output_depends_on_another_position_is_not_asked_about_causality():
    fact = {"kind": "causality", "step": 1, "site": "", "is_causal": None, "is_declared": False, "changed": -1}
    told = "\n".join(fact_lines([fact])).strip()
    assert told.startswith("could not be checked:")
    assert "no output depends on any position but its own" in told


def test_what_else_was_seen_is_a_sentence():
    facts = [
        {"kind": "accumulation", "step": 0, "site": "", "micro_batches": 4, "factor": 0.25, "terms": 1},
        {"kind": "optimizer_step_count", "step": 0, "site": "", "optimizer_kind": "SGD", "count": 0},
        {"kind": "initial_checksum", "step": 0, "site": "", "checksum": "0123"},
        {"kind": "tie_broken", "step": 3, "site": "head", "sites": ["a", "b"]},
    ]
    assert "\n".join(fact_lines(facts)).strip() == (
        "also seen:\n  from step 0 on, 4 backward passes are summed in a step, each from 0.25 times its loss\n"
        "  step 3: tie broken of head: sites a, b"
    )


def test_what_comes_back_at_many_steps_is_one_sentence_without_field_names():
    weights = [{"site": site, "size": 64, "largest": 0.1, "change": 0.2, "norm": 1.0} for site in ("a", "b")]
    facts = [
        *(
            {"kind": "weights_written", "step": step, "site": "", "parameters": 1, "of": 4, "weights": [weight]}
            for step, weight in zip((5, 9), weights, strict=True)
        ),
        {"kind": "gradient_before_forward", "step": 7, "site": "", "parameters": 4, "l2_norm": 1.905},
        *({"kind": "tie_broken", "step": step, "site": "head", "sites": ["a", "b"]} for step in (3, 4, 8)),
    ]
    assert "\n".join(fact_lines(facts)).strip().split("\n  ")[1:] == [
        "something other than an optimizer's step changed weights before 2 steps, the first 5 and the last 9: a, b",
        "gradients of earlier passes were still there as the forward began, at step 7, with a norm of 1.905",
        "step 3: tie broken of head: sites a, b; and at 2 more, the last step 8",
    ]


@pytest.mark.parametrize(("loss", "words"), [("mse_loss", "values"), ("cross_entropy", "logits")])
def test_only_losses_of_classes_are_given_logits(loss, words):
    fact = {"kind": "loss_input", "step": 0, "site": "", "loss": loss, "domain": "logits", "min": -0.5, "max": 2.0}
    assert "\n".join(fact_lines([fact])).strip() == f"also seen:\n  {loss} is given {words} from -0.5 to 2"
