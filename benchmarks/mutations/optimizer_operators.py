"""Operators on the optimizer and its loop: rates, schedules, clearing, stepping, clipping, decay and state."""

import ast
from collections.abc import Iterator

from .model_operators import started
from .program import Program, keyword, last_name
from .registry import Change, operator, planted_change


def _rates(program: Program, factor: float) -> Iterator[Change]:
    for made in program.optimizers():
        rate = keyword(made, "lr") or (made.args[1] if len(made.args) > 1 else None)
        if rate is not None and last_name(made.func) != "LBFGS":
            text = program.text(rate)
            yield Change((program.replace(rate, f"{factor:g} * {text}"),), made.lineno, f"lr {factor:g} * {text}")


@operator("rate-times-100", "optimizer", "learning_rate_too_high", "DeepCrime HLR; Humbatova 2020, learning rate")
def rate_times_100(program: Program) -> Iterator[Change]:
    """The learning rate is a hundred times as high."""
    yield from _rates(program, 100.0)


@operator("rate-times-1000", "optimizer", "learning_rate_too_high", "DeepCrime HLR; Zhang 2018")
def rate_times_1000(program: Program) -> Iterator[Change]:
    """The learning rate is a thousand times as high."""
    yield from _rates(program, 1000.0)


@operator("rate-over-1000", "optimizer", "learning_rate_too_low", "DeepCrime HLR; Humbatova 2020, learning rate")
def rate_over_1000(program: Program) -> Iterator[Change]:
    """The learning rate is a thousand times lower."""
    yield from _rates(program, 0.001)


@operator("another-optimizer", "optimizer", "learning_rate_too_low", "DeepCrime OCH; Humbatova 2020, wrong optimiser")
def another_optimizer(program: Program) -> Iterator[Change]:
    """Plain gradient descent gets the rate of an adaptive optimizer."""
    for made in program.calls("Adam", "AdamW", "RMSprop"):
        rate = keyword(made, "lr") or (made.args[1] if len(made.args) > 1 else None)
        given = made.args[0] if made.args else keyword(made, "params")
        if rate is not None and given is not None:
            text = f"torch.optim.SGD({program.text(given)}, lr={program.text(rate)})"
            yield Change((program.replace(made, text),), made.lineno, text)


@operator("kept-gradients", "optimizer", "missing_zero_grad", "Humbatova 2020, missing gradient clearing; Islam 2019")
def kept_gradients(program: Program) -> Iterator[Change]:
    """Gradients are not cleared, so they pile up over the steps."""
    for call in program.calls("zero_grad"):
        statement = program.statement(call)
        if isinstance(statement, ast.Expr):
            yield Change((program.delete(statement),), call.lineno, f"left out: {program.text(call)}")


def _steps(program: Program) -> Iterator[ast.Expr]:
    """Yield the statements that step an optimizer."""
    names = {last_name(node.targets[0]) for node in program.nodes(ast.Assign) if _makes_optimizer(node.value)}
    for call in program.calls("step"):
        statement = program.parent(call)
        holder = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        if isinstance(statement, ast.Expr) and last_name(holder) in names:
            yield statement


def _makes_optimizer(value: ast.expr) -> bool:
    from_package = ("SGD", "Adam", "AdamW", "RMSprop", "NAdam", "RAdam")
    return isinstance(value, ast.Call) and last_name(value.func) in from_package


@operator(
    "no-step",
    "optimizer",
    "missing_optimizer_step",
    "Islam 2019, missing step; torchtest2",
    promise="every parameter that the optimizer holds moves",
)
def no_step(program: Program) -> Iterator[Change]:
    """An optimizer never steps."""
    for statement in _steps(program):
        yield Change((program.delete(statement),), statement.lineno, f"left out: {program.text(statement)}")


@operator(
    "cleared-before-step",
    "optimizer",
    "missing_optimizer_step",
    "Humbatova 2020, wrong order; Islam 2019",
    promise="every parameter that the optimizer holds moves",
)
def cleared_before_step(program: Program) -> Iterator[Change]:
    """Gradients are cleared between the backward pass and the step."""
    for statement in _steps(program):
        holder = program.text(statement).split(".step")[0]
        edit = program.before(statement, f"{holder}.zero_grad()")
        yield Change((edit,), statement.lineno, f"{holder}.zero_grad() before its step")


@operator(
    "forgetful-optimizer",
    "optimizer",
    "optimizer_state_stale",
    "TrainCheck, state lost",
    promise="an optimizer keeps its state",
)
def forgetful_optimizer(program: Program) -> Iterator[Change]:
    """The optimizer's state is dropped after each step."""
    for statement in _steps(program):
        holder = program.text(statement).split(".step")[0]
        edits = (program.after(statement, f"planted.forgetful_step({holder})"), program.at_top("import planted"))
        yield Change(edits, statement.lineno, f"{holder} forgets its state")


def _option(program: Program, option: str, value: str, kinds: tuple[str, ...]) -> Iterator[Change]:
    """Yield the change that gives every optimizer an option of another value."""
    for made in program.calls(*kinds):
        present = keyword(made, option)
        if present is not None:
            yield Change((program.replace(present, value),), made.lineno, f"{option}={value}")
        else:
            last = [*made.args, *(given.value for given in made.keywords)][-1]
            edit = program.replace(last, f"{program.text(last)}, {option}={value}")
            yield Change((edit,), made.lineno, f"{option}={value}")


@operator("strong-decay", "optimizer", "weight_decay_too_high", "DeepCrime RAW; Humbatova 2020, regularisation")
def strong_decay(program: Program) -> Iterator[Change]:
    """The weight decay is 30, or 1 where it is added to the gradient."""
    yield from _option(program, "weight_decay", "30.0", ("AdamW",))
    yield from _option(program, "weight_decay", "1.0", ("Adam", "SGD", "RMSprop"))


@operator("large-epsilon", "optimizer", "optimizer_state_stale", "Humbatova 2020, wrong optimiser parameters")
def large_epsilon(program: Program) -> Iterator[Change]:
    """Adam divides by one plus the root of the second moment."""
    yield from _option(program, "eps", "1.0", ("Adam", "AdamW"))


@operator("short-memory", "optimizer", "optimizer_state_stale", "Humbatova 2020, wrong optimiser parameters")
def short_memory(program: Program) -> Iterator[Change]:
    """Adam averages its second moment over two steps and its gradient over a hundred."""
    yield from _option(program, "betas", "(0.99, 0.5)", ("Adam", "AdamW"))


@operator("clipped-to-nothing", "optimizer", "clipping_to_nothing", "Humbatova 2020, gradient clipping")
def clipped_to_nothing(program: Program) -> Iterator[Change]:
    """The norm of the gradient is clipped to one part in a million."""
    for call in program.calls("clip_grad_norm_", "clip_grad_value_"):
        if len(call.args) > 1:
            edit = program.replace(call.args[1], "1e-6")
            yield Change((edit,), call.lineno, f"1e-6 in {program.text(call)}")


@operator("no-clipping", "optimizer", "exploding_gradient", "Humbatova 2020, missing clipping")
def no_clipping(program: Program) -> Iterator[Change]:
    """The gradient is not clipped."""
    for call in program.calls("clip_grad_norm_", "clip_grad_value_"):
        yield Change((program.delete(program.statement(call)),), call.lineno, f"left out: {program.text(call)}")


@operator(
    "schedule-by-batch",
    "optimizer",
    "schedule_error",
    "TrainCheck, scheduler stepped too often",
    promise="a schedule takes the steps that it is made for",
)
def schedule_by_batch(program: Program) -> Iterator[Change]:
    """A schedule of epochs takes a step in each batch."""
    for call in program.calls("step"):
        if isinstance(call.func, ast.Attribute) and "sched" in (name := program.text(call.func.value)):
            for statement in list(_steps(program))[:1]:
                if program.parent(statement) is not program.parent(program.statement(call)):
                    yield Change((program.after(statement, f"{name}.step()"),), call.lineno, f"{name} in each batch")


@operator("early-decay", "optimizer", "schedule_error", "Humbatova 2020, wrong learning rate schedule")
def early_decay(program: Program) -> Iterator[Change]:
    """A schedule decays to a thousandth at once."""
    for call in program.calls("StepLR", "ExponentialLR", "MultiStepLR"):
        factor = keyword(call, "gamma")
        if factor is not None:
            yield Change((program.replace(factor, "0.001"),), call.lineno, f"gamma=0.001 in {program.text(call)}")


@operator("few-epochs", "optimizer", None, "DeepCrime HNE; Humbatova 2020, wrong number of epochs")
def few_epochs(program: Program) -> Iterator[Change]:
    """The outer loop runs for a tenth of its time."""
    for loop in program.nodes(ast.For):
        has_training = any(True for _ in program.calls("backward", inside=loop)) or "train(" in program.text(loop)
        if isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "range" and has_training:
            end = loop.iter.args[-1] if len(loop.iter.args) < 3 else loop.iter.args[1]
            edit = program.replace(end, f"max(2, ({program.text(end)}) // 10)")
            yield Change((edit,), loop.lineno, f"a tenth of {program.text(loop.iter)}")
            return


@operator(
    "half-in-optimizer",
    "optimizer",
    "parameter_not_in_optimizer",
    "Humbatova 2020, parameters not given to the optimiser; torchtest2",
    promise="every parameter that the loss depends on is in the optimizer",
)
def half_in_optimizer(program: Program) -> Iterator[Change]:
    """The optimizer holds half of the parameters."""
    yield from started(program, "halved")


@operator(
    "optimizer-of-a-copy",
    "optimizer",
    "parameter_not_in_optimizer",
    "TrainCheck, optimizer of another model; Humbatova 2020",
    promise="every parameter that the loss depends on is in the optimizer",
)
def optimizer_of_a_copy(program: Program) -> Iterator[Change]:
    """The optimizer holds copies of the parameters."""
    yield from started(program, "of_a_copy")


@operator(
    "wrong-network-in-optimizer",
    "optimizer",
    "parameter_not_in_optimizer",
    "Humbatova 2020; muPRL",
    promise="every parameter that the loss depends on is in the optimizer",
)
def wrong_network_in_optimizer(program: Program) -> Iterator[Change]:
    """Of two optimizers, the second holds the parameters of the first."""
    made = [call for call in program.optimizers() if call.args]
    given = [program.text(call.args[0]) for call in made]
    if len(made) == 2 and given[0] != given[1]:
        edit = program.replace(made[1].args[0], given[0])
        yield Change((edit,), made[1].lineno, f"{given[0]} for {given[1]}")


@operator("planted-rate-times-100", "optimizer", "learning_rate_too_high", "DeepCrime HLR", is_planted=True)
def planted_rate_times_100(program: Program) -> Iterator[Change]:
    """The learning rate of every optimizer is a hundred times as high."""
    yield from planted_change(program, "change_options(lr=100.0)")


@operator("planted-rate-over-1000", "optimizer", "learning_rate_too_low", "DeepCrime HLR", is_planted=True)
def planted_rate_over_1000(program: Program) -> Iterator[Change]:
    """The learning rate of every optimizer is a thousand times lower."""
    yield from planted_change(program, "change_options(lr=0.001)")


@operator("planted-strong-decay", "optimizer", "weight_decay_too_high", "DeepCrime RAW", is_planted=True)
def planted_strong_decay(program: Program) -> Iterator[Change]:
    """The weight decay of every optimizer is 30."""
    yield from planted_change(program, "change_options(weight_decay=30.0)")


@operator("planted-kept-gradients", "optimizer", "missing_zero_grad", "Humbatova 2020; Islam 2019", is_planted=True)
def planted_kept_gradients(program: Program) -> Iterator[Change]:
    """No optimizer and no module clears a gradient."""
    yield from planted_change(program, "keep_gradients()")


@operator(
    "planted-no-step",
    "optimizer",
    "missing_optimizer_step",
    "Islam 2019, missing step",
    promise="every parameter that the optimizer holds moves",
    is_planted=True,
)
def planted_no_step(program: Program) -> Iterator[Change]:
    """No step of an optimizer changes a weight."""
    yield from planted_change(program, "step_nowhere()")


@operator("planted-clipping", "optimizer", "clipping_to_nothing", "Humbatova 2020", is_planted=True)
def planted_clipping(program: Program) -> Iterator[Change]:
    """Every clipping of a norm clips to one part in a million."""
    yield from planted_change(program, "clip_to_nothing()")


@operator(
    "planted-half-in-optimizer",
    "optimizer",
    "parameter_not_in_optimizer",
    "Humbatova 2020; torchtest2",
    promise="every parameter that the loss depends on is in the optimizer",
    is_planted=True,
)
def planted_half_in_optimizer(program: Program) -> Iterator[Change]:
    """Every group of an optimizer holds half of its parameters."""
    yield from planted_change(program, "change_parameters(planted.halved)")
