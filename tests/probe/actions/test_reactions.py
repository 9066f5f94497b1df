"""What is done about findings, told from what is left alone."""

import pytest
from mindscope.probe import load_config
from mindscope.probe.actions.reactions import Reactions
from mindscope.probe.configuration.reaction_settings import Reaction, refusal_of
from mindscope.probe.errors import ConfigError, TrainingStopped

from tests.storage.samples import finding

called = []


def remember(one) -> None:
    called.append(one.step)


def fail(_) -> None:
    raise RuntimeError("no line to the pager")


def reactions(*settings: Reaction, done: list[str]) -> Reactions:
    return Reactions(settings, save=lambda keep: done.append(f"save {keep}"), pause=lambda one: done.append("pause"))


def test_a_finding_is_answered_once() -> None:
    done: list[str] = []
    several = reactions(Reaction(do="pause"), done=done)
    for _ in range(3):
        several.react([finding(4, severity="error")])
    several.react([finding(4, severity="error"), finding(9, severity="error")])
    assert done == ["pause", "pause"]


def test_a_checkpoint_is_made_before_the_pause_and_the_pause_before_the_stop() -> None:
    done: list[str] = []
    several = reactions(Reaction(do="stop"), Reaction(do="pause"), Reaction(do="checkpoint", keep=2), done=done)
    with pytest.raises(TrainingStopped, match="since step") as stopped:
        several.react([finding(4, severity="error")])
    assert done == ["save 2", "pause"]
    assert stopped.value.finding.first_step == 4


def test_what_is_not_grave_enough_or_not_meant_is_left_alone() -> None:
    done: list[str] = []
    several = reactions(Reaction(do="pause", causes=("loss_*",), severity="warning"), done=done)
    several.react([finding(1, cause="dead_units", severity="error"), finding(2, cause="loss_spike", severity="info")])
    assert not done
    several.react([finding(3, cause="loss_spike", severity="warning")])
    assert done == ["pause"]


def test_one_checkpoint_serves_all_findings_of_a_step() -> None:
    done: list[str] = []
    several = reactions(Reaction(do="checkpoint"), done=done)
    several.react([finding(4, rule="one", severity="error"), finding(4, rule="two", severity="error")])
    assert done == ["save 3"]


def test_callbacks_are_called_by_name_and_may_fail() -> None:
    called.clear()
    names = (f"{__name__}:remember", f"{__name__}:fail")
    several = reactions(*(Reaction(do="callback", call=name) for name in names), done=[])
    several.react([finding(7, severity="error")])
    several.conclude([finding(8, severity="error")])
    assert called == [finding(7).step, finding(8).step]


REFUSED = {
    "no such function": ({"do": "callback", "call": "math:sinus"}, "cannot be imported"),
    "no function": ({"do": "callback", "call": "math:pi"}, "must be a function"),
}


@pytest.mark.parametrize(("entry", "words"), REFUSED.values(), ids=REFUSED)
def test_a_callback_that_is_not_there_is_said_before_the_training(entry, words) -> None:
    config = load_config(on_finding=entry)
    with pytest.raises(ConfigError, match=words):
        reactions(*config.on_finding, done=[])


WRONG = {
    "callback without call": ({"do": "callback"}, "call: module:function"),
    "call without callback": ({"do": "stop", "call": "a:b"}, "call: module:function"),
    "skip of what is known too late": ({"do": "skip_step", "causes": ["loss_spike"]}, "nothing is known before"),
    "unknown deed": ("halt", "stop"),
    "unknown key": ({"do": "stop", "cause": "x"}, "did you mean 'causes'"),
}


@pytest.mark.parametrize(("entry", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_wish_is_refused_in_words(entry, words) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(on_finding=entry)


def test_steps_can_only_be_left_out_where_every_gradient_is_measured() -> None:
    for settings in ({"every": 10}, {"budget": "3%"}, {"subjects": {"gradient": False}}):
        with pytest.raises(ConfigError, match="skip_step needs"):
            load_config(on_finding="skip_step", **settings)
    assert refusal_of(load_config(on_finding="skip_step").on_finding) == "skip"


def test_who_stops_at_non_finite_values_stops_before_the_update() -> None:
    assert refusal_of(load_config(on_finding="stop").on_finding) == "stop"
    assert refusal_of(load_config(on_finding={"do": "stop", "causes": ["loss_spike"]}).on_finding) == ""
