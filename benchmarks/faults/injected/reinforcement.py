"""Policies that learn the wrong thing, or nothing."""

from typing import Any

from ..script import Script
from ..scripts.grpo import SYMBOLS
from ..table import Truth, fault


@fault("leash-turned", on="grpo", cause="kl_blowup")
def leash_turned(script: Script) -> Truth:
    """The distance to the reference is rewarded: a sign too many."""
    script.kl_weight = -0.5
    return Truth()


@fault("no-leash", on="grpo", cause=("kl_blowup", "learning_rate_too_high", "reward_hacking"))
def no_leash(script: Script) -> Truth:
    """No leash, a rate thirty times too high."""
    script.kl_weight, script.rate = 0.0, 0.03
    return Truth()


@fault("parser-fails", on="grpo", cause="zero_advantage", is_silent=True)
def parser_fails(script: Script) -> Truth:
    """From one step on the reward's parser finds no answer, so that every reward is zero."""
    onset, intact = script.some_step(0.2, 0.5), script.reward

    def reward(prompts: Any, answers: Any) -> Any:
        found = intact(prompts, answers)
        return found * 0.0 if script.step >= onset else found

    script.reward = reward
    return Truth(onset=onset)


@fault("greedy-groups", on="grpo", cause="zero_advantage", is_silent=True)
def greedy_groups(script: Script) -> Truth:
    """Answers are drawn with temperature zero: all of a group are the same."""
    sample = script.sample

    def greedy(prompts: Any) -> Any:
        first = sample(prompts[:: script.group])
        return first.repeat_interleave(script.group, 0)

    script.sample = greedy
    return Truth()


@fault("bonus-token", on="grpo", cause="reward_hacking", is_silent=True)
def bonus_token(script: Script) -> Truth:
    """A bonus for a polite symbol is worth more than the answer, and the policy says nothing else any more."""
    intact = script.reward
    script.rate, script.kl_weight = 3e-3, 0.0

    def reward(prompts: Any, answers: Any) -> Any:
        return 0.3 * intact(prompts, answers) + (answers == SYMBOLS).float().mean(-1)

    script.reward = reward
    return Truth()


@fault("advantage-turned", on="grpo", cause=("wrong_loss_sign", "reward_hacking"))
def advantage_turned(script: Script) -> Truth:
    """The surrogate is minimised with the sign of a reward: what is bad is learned."""
    script.rate = 3e-3
    intact = script.objective
    script.objective = lambda advantages, ratio: -intact(advantages, ratio)
    return Truth()
