"""Operators on what a program trains on: labels, inputs, the order and number of batches."""

import ast
from collections.abc import Iterator

from .program import Program, keyword, last_name
from .registry import Change, operator, planted_change


def _targets(program: Program, around: str, what: str) -> Iterator[Change]:
    """Yield a change of the target of every loss; `around` holds `{}` where the target was."""
    for loss in program.losses():
        target = program.text(loss.args[1])
        edits = [program.replace(loss.args[1], around.format(target))]
        if "planted." in around:
            edits.append(program.at_top("import planted"))
        yield Change(tuple(edits), loss.lineno, f"{what}: {program.text(loss)}")


@operator("shuffled-labels", "data", "uninformative_labels", "DeepCrime TCL; Humbatova 2020, wrong labels")
def shuffled_labels(program: Program) -> Iterator[Change]:
    """The targets of a batch are permuted before the loss."""
    yield from _targets(program, "planted.shuffled({})", "targets in another order")


@operator("partly-shuffled-labels", "data", "uninformative_labels", "DeepCrime TCL; Humbatova 2020, wrong labels")
def partly_shuffled_labels(program: Program) -> Iterator[Change]:
    """Four in ten targets of a batch belong to another sample."""
    yield from _targets(program, "planted.partly_shuffled({})", "four in ten targets from other samples")


@operator("rolled-labels", "data", "uninformative_labels", "defect4ML, misaligned features and labels")
def rolled_labels(program: Program) -> Iterator[Change]:
    """Each sample gets the target of its neighbour."""
    yield from _targets(program, "({}).roll(1, 0)", "targets rolled by one")


@operator("constant-labels", "data", "uninformative_labels", "DeepCrime TCL")
def constant_labels(program: Program) -> Iterator[Change]:
    """All targets of a batch are those of its first sample."""
    for loss in program.losses():
        target = program.text(loss.args[1])
        edit = program.replace(loss.args[1], f"({target})[:1].expand_as({target})")
        yield Change((edit,), loss.lineno, f"all targets alike: {program.text(loss)}")


@operator("unnormalised-input", "data", "unnormalized_input", "Humbatova 2020, missing preprocessing; DeepCrime TAN")
def unnormalised_input(program: Program) -> Iterator[Change]:
    """A normalisation `(x - mean) / std` is left out."""
    for division in program.nodes(ast.BinOp):
        minus = division.left
        if isinstance(division.op, ast.Div) and isinstance(minus, ast.BinOp) and isinstance(minus.op, ast.Sub):
            spread = program.text(division.right)
            if program.trains(division) and ("std" in spread or isinstance(division.right, ast.Constant)):
                edit = program.replace(division, program.operand(minus.left))
                yield Change((edit,), division.lineno, f"left out: {program.text(division)}")


def _inputs(program: Program, statement: str, what: str) -> Iterator[Change]:
    """Yield a statement at the head of the last `forward`; `{}` is its input."""
    for forward in program.forwards():
        if len(forward.args.args) < 2:
            continue
        name = forward.args.args[1].arg
        edits = (program.before(forward.body[0], statement.format(name)), program.at_top("import planted"))
        yield Change(edits, forward.lineno, f"{what}: {name}")
        return


@operator("enlarged-input", "data", "unnormalized_input", "Humbatova 2020, missing preprocessing")
def enlarged_input(program: Program) -> Iterator[Change]:
    """The model's input is 255 times as large."""
    yield from _inputs(program, "{0} = planted.scaled({0}, 255.0)", "input times 255")


@operator("offset-input", "data", "unnormalized_input", "Zhang 2018, incorrect data; DeepCrime TAN")
def offset_input(program: Program) -> Iterator[Change]:
    """The model's input is moved away from zero by 30."""
    yield from _inputs(program, "{0} = planted.scaled({0}, 1.0, 30.0)", "input plus 30")


@operator("spoilt-batches", "data", "bad_batch", "Islam 2019, data bugs; TrainCheck, silent data errors")
def spoilt_batches(program: Program) -> Iterator[Change]:
    """One batch in a hundred is a thousand times as large."""
    yield from _inputs(program, "{0} = planted.spoilt_now_and_then({0})", "one input in a hundred times 1000")


@operator("shifted-evaluation", "data", "train_val_shift", "Humbatova 2020, preprocessing differs at test time")
def shifted_evaluation(program: Program) -> Iterator[Change]:
    """The input has another scale and mean in evaluation mode."""
    yield from _inputs(program, "{0} = {0} if self.training else planted.scaled({0}, 3.0, 1.0)", "other in evaluation")


@operator("repeated-batch", "data", "repeated_batch", "DeepCrime TRD; TrainCheck, stuck data loader")
def repeated_batch(program: Program) -> Iterator[Change]:
    """The first batch is trained on again and again."""
    for loop in program.training_loops():
        if isinstance(loop, ast.For) and last_name(getattr(loop.iter, "func", loop.iter)) not in ("range", "zip"):
            batches = program.text(loop.iter)
            edits = (program.replace(loop.iter, f"planted.repeated({batches})"), program.at_top("import planted"))
            yield Change(edits, loop.lineno, f"always the first of {batches}")


@operator("reseeded-batch", "data", "repeated_batch", "TrainCheck, seed set in the loop; Humbatova 2020")
def reseeded_batch(program: Program) -> Iterator[Change]:
    """The seed is set anew in each step, so each draws the same batch."""
    for loop in program.training_loops():
        text = "\n".join(program.text(statement) for statement in loop.body)
        if "torch.rand" in text or "batch(" in text or "sample(" in text or "task(" in text:
            edit = program.before(loop.body[0], "torch.manual_seed(0)")
            yield Change((edit,), loop.lineno, "the seed is set in every step")


@operator("unshuffled-data", "data", None, "Humbatova 2020, data is not shuffled")
def unshuffled_data(program: Program) -> Iterator[Change]:
    """A loader no longer shuffles."""
    for loader in program.calls("DataLoader"):
        if isinstance(value := keyword(loader, "shuffle"), ast.Constant) and value.value is True:
            yield Change((program.replace(value, "False"),), loader.lineno, "shuffle=False")


@operator("few-data", "data", "overfitting", "DeepCrime TRD; Humbatova 2020, too few training data")
def few_data(program: Program) -> Iterator[Change]:
    """A shuffling loader is left with three in a hundred of its samples."""
    for loader in program.calls("DataLoader"):
        if loader.args and keyword(loader, "shuffle") is not None:
            data = program.text(loader.args[0])
            part = f"(lambda all_: torch.utils.data.Subset(all_, range(len(all_) * 3 // 100)))({data})"
            yield Change((program.replace(loader.args[0], part),), loader.lineno, f"3 % of {data}")


@operator("tiny-batch", "data", None, "DeepCrime HBS; Humbatova 2020, wrong batch size")
def tiny_batch(program: Program) -> Iterator[Change]:
    """A shuffling loader gives batches of two."""
    for loader in program.calls("DataLoader"):
        size = keyword(loader, "batch_size")
        if size is not None and keyword(loader, "shuffle") is not None:
            yield Change((program.replace(size, "2"),), loader.lineno, "batch_size=2")


@operator(
    "target-is-input", "data", "data_leak", "gDefects4DL, off-by-one target", promise="no target is given as input"
)
def target_is_input(program: Program) -> Iterator[Change]:
    """A sequence model gets as target the token that it reads, not the next one."""
    for subscript in program.nodes(ast.Subscript):
        text = program.text(subscript)
        if text.replace(" ", "").endswith("[:,1:]") and program.trains(subscript):
            whole = program.text(subscript.value)
            yield Change((program.replace(subscript, f"{whole}[:, :-1]"),), subscript.lineno, f"{text} is the input")
        elif text.replace(" ", "").endswith("[i+1:i+block_size+1]"):
            whole = program.text(subscript.value)
            yield Change(
                (program.replace(subscript, f"{whole}[i : i + block_size]"),), subscript.lineno, f"{text} is the input"
            )


@operator("planted-shuffled-labels", "data", "uninformative_labels", "DeepCrime TCL", is_planted=True)
def planted_shuffled_labels(program: Program) -> Iterator[Change]:
    """Every loader permutes the targets within the batch."""
    yield from planted_change(program, "shuffle_labels()")


@operator("planted-repeated-batch", "data", "repeated_batch", "TrainCheck, stuck data loader", is_planted=True)
def planted_repeated_batch(program: Program) -> Iterator[Change]:
    """Every loader gives its first batch again and again."""
    yield from planted_change(program, "repeat_batches()")


@operator("planted-enlarged-input", "data", "unnormalized_input", "Humbatova 2020", is_planted=True)
def planted_enlarged_input(program: Program) -> Iterator[Change]:
    """Every loader gives floating-point inputs 255 times as large."""
    yield from planted_change(program, "enlarge_inputs()")
