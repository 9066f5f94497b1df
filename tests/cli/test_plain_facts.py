"""The facts of a rehearsal are told in plain words, grouped by what came of them."""

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
