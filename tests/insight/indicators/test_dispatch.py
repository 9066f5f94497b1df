"""What each expert was called with, and what two rules make of it."""

import numpy as np
import pytest
from mindscope.insight import RULES
from mindscope.insight.engine import Engine
from mindscope.storage import Block, Layout, ModuleInfo, ParameterInfo, StepRecord, Structure

TOKENS, WIDTH = 256, 8
STRUCTURE = Structure(
    modules=tuple(
        ModuleInfo(site, "Linear", order, ())
        for order, site in enumerate(("mix.router", *(f"mix.experts.{at}" for at in range(4)), "mix"))
    ),
    parameters=(ParameterInfo("mix.router.weight", (4, WIDTH), "float32"),),
)


def block(subject, rows, statistics):
    layout = Layout(subject, tuple(rows), statistics, ("float64",) * len(statistics))
    return Block(layout, np.array(list(rows.values()), dtype=np.float64))


def steps_of(rule, shares, *, steps=10, belief=0.25, first_choice=None):
    """Site and step of what the rule finds where experts are called with these shares of the tokens.

    Args:
        first_choice: Shares of the tokens for which each is the router's first choice, looked at in every step.
    """
    engine = Engine({rule: RULES[rule]})
    engine.learn_structure(STRUCTURE)
    sizes = {f"mix.experts.{at}": (share * TOKENS * WIDTH,) for at, share in enumerate(shares) if share}
    activation = {"mix.router": (TOKENS * 4,), "mix": (TOKENS * WIDTH,)} | sizes
    for step in range(steps):
        blocks = [block("activation", activation, ("size",))]
        if step == 0:
            blocks.append(block("router", {"mix.router": (1.0, TOKENS * 4)}, ("load_entropy", "size")))
            believed = {f"mix.router[{at}]": (0.25, belief) for at in range(4)}
            blocks.append(block("router/expert", believed, ("load", "probability")))
        if first_choice is not None and step:
            chosen = {f"mix.router[{at}]": (share, 0.05) for at, share in enumerate(first_choice)}
            blocks.append(block("router", {"mix.router": (0.79, TOKENS * 4)}, ("load_entropy", "size")))
            blocks.append(block("router/expert", chosen, ("load", "probability")))
        engine.observe(StepRecord(step=step, time=0.0, blocks=tuple(blocks)))
    return [(finding.site, finding.step) for finding in engine.findings]


def test_an_expert_that_was_not_called_since_the_first_step_is_kept_from_the_tokens():
    assert steps_of("expert-starvation", (0.7, 0.7, 0.6, 0.0)) == [("mix.router[3]", 7)]


def test_an_expert_that_the_router_does_not_believe_in_is_no_matter_of_what_stands_between():
    assert steps_of("expert-starvation", (0.7, 0.7, 0.6, 0.0), belief=0.1) == []


def test_an_expert_that_every_token_goes_to_is_a_favourite():
    assert steps_of("router-collapse", (1.0, 0.4, 0.3, 0.3), steps=60) == [("mix.router", 40)]
    assert steps_of("router-collapse", (1.0, 0.4, 0.3, 0.3)) == []  # routers settle in their first steps


@pytest.mark.parametrize("shares", [(0.9, 0.5, 0.3, 0.3), (1.0, 1.0, 1.0, 1.0)], ids=["most", "all-to-all"])
def test_most_tokens_are_not_every_token_and_experts_that_see_all_of_them_are_no_favourites(shares):
    assert steps_of("router-collapse", shares) == []


@pytest.mark.parametrize(("shares", "is_starved"), [((0.7, 0.6, 0.6, 0.1), False), ((0.7, 0.7, 0.6, 0.0), True)])
def test_an_expert_that_is_the_second_choice_only_is_fed(shares, is_starved):
    found = steps_of("expert-starvation", shares, belief=0.1, first_choice=(0.4, 0.3, 0.3, 0.0))
    assert bool(found) is is_starved
