"""Operators on reinforcement learning: returns, targets, exploration, replay and the policy's gradient."""

import ast
import re
from collections.abc import Iterator

from .program import Program, last_name
from .registry import Change, operator

_DISCOUNTS = ("gamma", "GAMMA", "discount")
#: What a discount stands before: returns and values of later states.
_LATER = re.compile(r"^(R|G|returns?|future\w*|next\w*)\b")
_OUTCOMES = ("done", "terminal", "terminated", "nextnonterminal")


def _is_agent(program: Program) -> bool:
    return "reward" in program.source


def _products(program: Program) -> Iterator[ast.BinOp]:
    for product in program.nodes(ast.BinOp):
        if isinstance(product.op, ast.Mult) and _is_agent(program):
            yield product


@operator("no-discount", "reinforcement", None, "muPRL, incorrect discount factor")
def no_discount(program: Program) -> Iterator[Change]:
    """What comes later does not count."""
    for product in _products(program):
        factor = product.left
        is_named = last_name(factor) in _DISCOUNTS
        is_number = isinstance(factor, ast.Constant) and isinstance(factor.value, float) and 0.9 <= factor.value < 1.0
        is_later = _LATER.search(program.text(product.right)) is not None
        if is_named or (is_number and is_later):
            yield Change((program.replace(factor, "0.0"),), product.lineno, f"0.0 in {program.text(product)}")
            return


@operator("endless-episodes", "reinforcement", None, "muPRL, terminal state not respected; RLExplorer")
def endless_episodes(program: Program) -> Iterator[Change]:
    """The value after the end of an episode counts as if it went on."""
    for product in _products(program):
        if any(word in program.text(product.right) for word in _OUTCOMES):
            left = program.operand(product.left)
            yield Change((program.replace(product, left),), product.lineno, f"left out: {program.text(product.right)}")


@operator("climbing-policy", "reinforcement", "wrong_loss_sign", "muPRL, wrong sign; RL implementation details")
def climbing_policy(program: Program) -> Iterator[Change]:
    """The policy is led away from what had a positive advantage."""
    for negated in program.nodes(ast.UnaryOp):
        text = program.text(negated)
        is_policy = any(word in text for word in ("log_prob", "adv", "logprob")) and "lambda" not in text
        if isinstance(negated.op, ast.USub) and is_policy and program.trains(negated) and _is_agent(program):
            operand = program.operand(negated.operand)
            edits = tuple(
                program.replace(twin, program.operand(twin.operand))
                for twin in program.nodes(ast.UnaryOp)
                if program.text(twin) == text and isinstance(twin.op, ast.USub)
            )
            yield Change(edits, negated.lineno, f"{operand} for {text}")
            return


@operator("stale-target-network", "reinforcement", None, "muPRL, target network not updated")
def stale_target_network(program: Program) -> Iterator[Change]:
    """The target network stays as it was at the start."""
    for call in program.calls("load_state_dict"):
        inside = any(isinstance(around, ast.FunctionDef | ast.For | ast.While) for around in program.parents(call))
        if inside and "target" in program.text(call.func) and _is_agent(program):
            yield Change((program.delete(program.statement(call)),), call.lineno, f"left out: {program.text(call)}")


@operator("own-target", "reinforcement", None, "muPRL; RLExplorer, moving target")
def own_target(program: Program) -> Iterator[Change]:
    """The target's values come from the network that is trained."""
    for call in program.calls("target_net", "target_network", "q_target"):
        edit = program.replace(call.func, "policy_net")
        if "policy_net" in program.source:
            yield Change((edit,), call.lineno, f"policy_net for {program.text(call.func)}")


@operator("no-exploration", "reinforcement", None, "muPRL, suboptimal exploration rate")
def no_exploration(program: Program) -> Iterator[Change]:
    """The agent never tries a random action."""
    for assigned in program.nodes(ast.Assign):
        if last_name(assigned.targets[0]) in ("eps", "epsilon", "eps_threshold") and _is_agent(program):
            yield Change((program.replace(assigned.value, "0.0"),), assigned.lineno, "0.0 for the exploration rate")


@operator("only-exploration", "reinforcement", None, "muPRL, suboptimal exploration rate")
def only_exploration(program: Program) -> Iterator[Change]:
    """The agent always takes a random action."""
    for assigned in program.nodes(ast.Assign):
        if last_name(assigned.targets[0]) in ("eps", "epsilon", "eps_threshold") and _is_agent(program):
            yield Change((program.replace(assigned.value, "1.0"),), assigned.lineno, "1.0 for the exploration rate")


@operator("oldest-replay", "reinforcement", "repeated_batch", "muPRL, wrong replay sampling")
def oldest_replay(program: Program) -> Iterator[Change]:
    """The replay memory always gives its first transitions."""
    for call in program.calls("sample"):
        if program.text(call.func) == "random.sample" and len(call.args) == 2:
            memory, size = map(program.text, call.args)
            edit = program.replace(call, f"list({memory})[:{size}]")
            yield Change((edit,), call.lineno, f"the first {size} of {memory}")


@operator("no-reward", "reinforcement", "zero_advantage", "muPRL, missing reward; RLExplorer")
def no_reward(program: Program) -> Iterator[Change]:
    """Every reward that is stored is zero."""
    for call in program.calls("append"):
        if program.text(call.func) == "rewards.append" and call.args:
            yield Change((program.replace(call.args[0], "0.0"),), call.lineno, "0.0 for the reward")
    for assigned in program.nodes(ast.Assign):
        if program.text(assigned.targets[0]) in ("reward", "rewards") and "tensor(" in program.text(assigned.value):
            value = program.text(assigned.value)
            yield Change((program.replace(assigned.value, f"0.0 * {value}"),), assigned.lineno, "0.0 for the reward")


@operator("no-baseline", "reinforcement", None, "muPRL; RL implementation details")
def no_baseline(program: Program) -> Iterator[Change]:
    """The advantage is the return itself."""
    for assigned in program.nodes(ast.Assign):
        value = assigned.value
        is_difference = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
        if "advantage" not in program.text(assigned.targets[0]) or not is_difference:
            continue
        left, right = value.left, value.right
        if "value" in program.text(right):
            edit = program.replace(value, program.operand(left))
            yield Change((edit,), assigned.lineno, f"left out: {program.text(right)}")


@operator("punished-entropy", "reinforcement", None, "muPRL, wrong entropy coefficient; RL implementation details")
def punished_entropy(program: Program) -> Iterator[Change]:
    """The entropy of the policy is lowered, not raised, and counts a hundred times."""
    for difference in program.nodes(ast.BinOp):
        if isinstance(difference.op, ast.Sub) and "entropy" in program.text(difference.right) and _is_agent(program):
            left, right = program.text(difference.left), program.operand(difference.right)
            edit = program.replace(difference, f"{left} + 100.0 * {right}")
            yield Change((edit,), difference.lineno, f"+ 100 {right}")


@operator("policy-of-old-actions", "reinforcement", None, "muPRL, wrong trajectory; RL implementation details")
def policy_of_old_actions(program: Program) -> Iterator[Change]:
    """The returns of an episode belong to its actions in reverse order."""
    for assigned in program.nodes(ast.Assign):
        name, value = program.text(assigned.targets[0]), program.text(assigned.value)
        if name in ("returns", "b_advantages", "advantage") and _is_agent(program) and "tensor(" in value:
            edit = program.replace(assigned.value, f"({value}).flip(0)")
            yield Change((edit,), assigned.lineno, f"{name} in reverse order")
