"""Operators on the loss: its sign, its domain, its terms, its shape and its reduction."""

import ast
from collections.abc import Iterator

from .program import Program, keyword, last_name
from .registry import Change, operator, planted_change
from .sites import inside_of

_LOSS_BUGS = "Humbatova 2020, loss function"


@operator("negated-loss", "loss", "wrong_loss_sign", "Islam 2019, wrong loss; TheDeepChecker")
def negated_loss(program: Program) -> Iterator[Change]:
    """The backward pass starts from the negated loss."""
    for call in program.calls("backward"):
        if isinstance(call.func, ast.Attribute):
            loss = program.operand(call.func.value)
            yield Change((program.replace(call.func.value, f"(-{loss})"),), call.lineno, f"-{loss} goes backward")


@operator("softmax-before-cross-entropy", "loss", "loss_input_domain", "Humbatova 2020, softmax twice; NeuraLint")
def softmax_before_cross_entropy(program: Program) -> Iterator[Change]:
    """Cross-entropy gets probabilities where logits belong."""
    for loss in program.losses():
        is_entropy = last_name(loss.func) == "cross_entropy" or (
            "CrossEntropyLoss" in program.source and last_name(loss.func) in ("criterion", "loss_fn", "loss_func")
        )
        if is_entropy:
            logits = program.text(loss.args[0])
            edit = program.replace(loss.args[0], f"({logits}).softmax(-1)")
            yield Change((edit,), loss.lineno, f"softmax of {logits}")


@operator("softmax-for-log-softmax", "loss", "loss_input_domain", "Humbatova 2020, wrong output activation")
def softmax_for_log_softmax(program: Program) -> Iterator[Change]:
    """The negative log-likelihood gets probabilities, not their logarithms."""
    for call in program.calls("log_softmax"):
        edit = program.replace(call.func, program.text(call.func).replace("log_softmax", "softmax"))
        yield Change((edit,), call.lineno, "softmax for log_softmax")


@operator("sigmoid-before-logits", "loss", "loss_input_domain", "Humbatova 2020, wrong output activation")
def sigmoid_before_logits(program: Program) -> Iterator[Change]:
    """A loss of logits gets probabilities."""
    for loss in program.calls("binary_cross_entropy_with_logits"):
        if program.trains(loss):
            edit = program.replace(loss.args[0], f"torch.sigmoid({program.text(loss.args[0])})")
            yield Change((edit,), loss.lineno, f"sigmoid of {program.text(loss.args[0])}")


@operator("softmax-over-the-batch", "loss", None, "gDefects4DL, wrong axis")
def softmax_over_the_batch(program: Program) -> Iterator[Change]:
    """A softmax sums to one over the batch."""
    for call in program.calls("softmax", "log_softmax"):
        axis = keyword(call, "dim") or (call.args[-1] if len(call.args) > 1 else None)
        if axis is not None:
            edit, module = program.replace(axis, "0"), inside_of(program, call)
            yield Change((edit,), call.lineno, f"axis 0 in {program.text(call)}", module)


@operator("loss-of-another-kind", "loss", None, "DeepCrime LCH; Humbatova 2020, wrong loss function")
def loss_of_another_kind(program: Program) -> Iterator[Change]:
    """Classes are fitted with a margin on probabilities, numbers by absolute error cut at a hundredth."""
    for loss in program.losses():
        name, arguments = last_name(loss.func), [program.text(argument) for argument in loss.args[:2]]
        if name in ("cross_entropy", "nll_loss"):
            text = "torch.nn.functional.multi_margin_loss({}.softmax(-1), {})".format(*arguments)
        elif name in ("mse_loss", "smooth_l1_loss"):
            text = "torch.nn.functional.l1_loss({}, {}).clamp(max=0.01)".format(*arguments)
        else:
            continue
        yield Change((program.replace(loss, text),), loss.lineno, f"{text} for {program.text(loss)}")


@operator("summed-loss", "loss", None, "Humbatova 2020, loss function; Islam 2019, wrong reduction")
def summed_loss(program: Program) -> Iterator[Change]:
    """A loss is summed over the batch, not averaged."""
    for loss in program.losses():
        if isinstance(loss.func, ast.Attribute) and not loss.keywords:
            edit = program.replace(loss.args[-1], f'{program.text(loss.args[-1])}, reduction="sum"')
            yield Change((edit,), loss.lineno, f"sum in {program.text(loss)}")
    for call in program.calls("mean"):
        inside = program.statement(call)
        is_plain = isinstance(call.func, ast.Attribute) and not call.args and not call.keywords
        is_loss = isinstance(inside, ast.Assign | ast.Return) and "loss" in program.text(inside)
        if is_plain and is_loss and program.trains(call):
            edit = program.replace(call, f"{program.operand(call.func.value)}.sum()")
            yield Change((edit,), call.lineno, f"sum in {program.text(inside)}")


@operator("diminished-loss", "loss", None, "DeepCrime LCH; TheDeepChecker, loss of another scale")
def diminished_loss(program: Program) -> Iterator[Change]:
    """The loss is multiplied by one part in a hundred million."""
    for call in program.calls("backward"):
        if isinstance(call.func, ast.Attribute):
            loss = program.text(call.func.value)
            edit = program.replace(call.func.value, f"(1e-8 * ({loss}))")
            yield Change((edit,), call.lineno, f"1e-8 * {loss} goes backward")


@operator("lost-loss-term", "loss", None, "Humbatova 2020, missing term of the loss")
def lost_loss_term(program: Program) -> Iterator[Change]:
    """The first or the last term of a sum of losses is left out."""
    for added in program.loss_sums():
        for kept, gone in ((added.left, added.right), (added.right, added.left)):
            edit = program.replace(added, program.operand(kept))
            yield Change((edit,), added.lineno, f"left out: {program.text(gone)}")


@operator("loss-scaled-term", "loss", None, "Humbatova 2020, wrong weight of a term")
def loss_scaled_term(program: Program) -> Iterator[Change]:
    """A term of a sum of losses counts a hundred times."""
    for added in program.loss_sums():
        edit = program.replace(added.right, f"100.0 * ({program.text(added.right)})")
        yield Change((edit,), added.lineno, f"100 times {program.text(added.right)}")


@operator("broadcast-loss", "loss", None, "Islam 2019, unaligned tensors; gDefects4DL")
def broadcast_loss(program: Program) -> Iterator[Change]:
    """A column of targets meets a row of predictions, so each is compared with all."""
    for loss in program.losses():
        if last_name(loss.func) in ("mse_loss", "smooth_l1_loss", "l1_loss", "loss_func", "criterion"):
            if "CrossEntropyLoss" in program.source or "BCELoss" in program.source:
                continue
            target = program.text(loss.args[1])
            edit = program.replace(loss.args[1], f"({target}).reshape(-1, *[1] * ({target}).dim())")
            yield Change((edit,), loss.lineno, f"{target} as a column of its own")


@operator("detached-loss-part", "loss", None, "Humbatova 2020, gradients; TrainCheck, lost gradient")
def detached_loss_part(program: Program) -> Iterator[Change]:
    """A term of a sum of losses has no gradient."""
    for added in program.loss_sums():
        if isinstance(program.parent(added), ast.Assign):
            edit = program.replace(added.right, f"({program.text(added.right)}).detach()")
            yield Change((edit,), added.lineno, f"no gradient of {program.text(added.right)}")


@operator("inverted-temperature", "loss", None, "gDefects4DL, wrong formula")
def inverted_temperature(program: Program) -> Iterator[Change]:
    """Logits are multiplied by the temperature that they should be divided by."""
    for division in program.nodes(ast.BinOp):
        if isinstance(division.op, ast.Div) and "temperature" in program.text(division.right):
            left, right = program.operand(division.left), program.operand(division.right)
            yield Change((program.replace(division, f"{left} * {right}"),), division.lineno, f"{left} * {right}")


@operator("own-positive", "loss", "data_leak", "gDefects4DL, mask left out", promise="no sample is its own candidate")
def own_positive(program: Program) -> Iterator[Change]:
    """A contrastive loss lets each sample be compared with itself."""
    for call in program.calls("fill_diagonal_"):
        if program.trains(call) and isinstance(program.parent(call), ast.Expr):
            yield Change((program.delete(program.statement(call)),), call.lineno, f"left out: {program.text(call)}")


@operator("planted-negated-loss", "loss", "wrong_loss_sign", "Islam 2019, wrong loss", is_planted=True)
def planted_negated_loss(program: Program) -> Iterator[Change]:
    """Every backward pass starts from the negated loss."""
    yield from planted_change(program, "negate_losses()")


@operator("planted-softmax-twice", "loss", "loss_input_domain", "Humbatova 2020, softmax twice", is_planted=True)
def planted_softmax_twice(program: Program) -> Iterator[Change]:
    """Every cross-entropy gets probabilities where logits belong."""
    yield from planted_change(program, "normalise_twice()")
