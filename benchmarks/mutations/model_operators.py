"""Operators on the model: its layers, its start, its masks, its modes, and what of it can learn."""

import ast
from collections.abc import Iterator

from .program import Program, keyword, last_name
from .registry import Change, operator, planted_change
from .sites import inside_of, is_layer, made_as

_ACTIVATION_MODULES = ("ReLU", "LeakyReLU", "GELU", "SiLU", "Tanh", "ELU")
_ACTIVATION_CALLS = ("relu", "gelu", "silu", "leaky_relu")


@operator("removed-activations", "model", "missing_nonlinearity", "DeepCrime ARM; Humbatova 2020, missing activation")
def removed_activations(program: Program) -> Iterator[Change]:
    """Every activation between layers returns its input."""
    modules = [call for call in program.calls(*_ACTIVATION_MODULES) if "Sequential" in _around(program, call)]
    calls = [call for call in program.calls(*_ACTIVATION_CALLS) if call.args]
    edits = [program.replace(call, "torch.nn.Identity()") for call in modules]
    outermost = [call for call in calls if not any(around in calls for around in program.parents(call))]
    edits += [program.replace(call.func, "torch.Tensor.contiguous") for call in outermost if len(call.args) == 1]
    if edits:
        yield Change(tuple(edits), (modules or outermost)[0].lineno, f"{len(edits)} activations return their input")


def _around(program: Program, call: ast.Call) -> str:
    names = [last_name(around.func) for around in program.parents(call) if isinstance(around, ast.Call)]
    lists = ["Sequential" for around in program.parents(call) if isinstance(around, ast.List | ast.BinOp)]
    return " ".join(names + lists)


@operator("sigmoid-activations", "model", "vanishing_gradient", "DeepCrime ACH; Humbatova 2020, wrong activation")
def sigmoid_activations(program: Program) -> Iterator[Change]:
    """Every activation is a sigmoid."""
    modules = list(program.calls(*_ACTIVATION_MODULES))
    calls = [call for call in program.calls(*_ACTIVATION_CALLS) if len(call.args) == 1]
    edits = [program.replace(call, "torch.nn.Sigmoid()") for call in modules]
    edits += [program.replace(call.func, "torch.sigmoid") for call in calls]
    if edits:
        yield Change(tuple(edits), (modules or calls)[0].lineno, f"{len(edits)} activations are sigmoids")


def started(program: Program, function: str) -> Iterator[Change]:
    """Yield a change of the parameters that an optimizer is given."""
    for made in program.optimizers():
        given = made.args[0] if made.args else keyword(made, "params")
        if given is None:
            continue
        text = program.text(given)
        edits = (program.replace(given, f"planted.{function}({text})"), program.at_top("import planted"))
        yield Change(edits, made.lineno, f"{function}: {text}")


@operator("zero-weights", "model", "bad_initialization", "DeepCrime WCI; Humbatova 2020, weights initialisation")
def zero_weights(program: Program) -> Iterator[Change]:
    """All parameters start at zero."""
    yield from started(program, "zeroed")


@operator("equal-weights", "model", "bad_initialization", "DeepCrime WCI")
def equal_weights(program: Program) -> Iterator[Change]:
    """All weights start with the same value."""
    yield from started(program, "constant")


@operator("large-weights", "model", "bad_initialization", "DeepCrime WCI; TheDeepChecker")
def large_weights(program: Program) -> Iterator[Change]:
    """All weights start twelve times as large."""
    yield from started(program, "enlarged")


@operator("small-weights", "model", "bad_initialization", "DeepCrime WCI; TheDeepChecker")
def small_weights(program: Program) -> Iterator[Change]:
    """All weights start a hundred times smaller."""
    yield from started(program, "shrunk")


@operator("low-biases", "model", "dead_units", "TheDeepChecker, dead units; DeepCrime WAB")
def low_biases(program: Program) -> Iterator[Change]:
    """All biases start four lower, so that few units fire."""
    yield from started(program, "without_fire")


@operator("no-bias", "model", None, "DeepCrime WBR")
def no_bias(program: Program) -> Iterator[Change]:
    """A linear layer or convolution has no bias."""
    for call in program.calls("Linear", "Conv2d", "Conv1d"):
        if keyword(call, "bias") is None and len(call.args) >= 2:
            edit = program.replace(call.args[-1], f"{program.text(call.args[-1])}, bias=False")
            if not call.keywords or call.keywords[0].value.lineno >= call.args[-1].lineno:
                yield Change((edit,), call.lineno, f"no bias in {program.text(call)}", made_as(program, call))


@operator(
    "frozen-half",
    "model",
    "frozen_parameter",
    "Humbatova 2020, layers frozen by mistake; TrainCheck",
    promise="every parameter that the optimizer holds can move",
)
def frozen_half(program: Program) -> Iterator[Change]:
    """The first half of the parameters requires no gradient."""
    yield from started(program, "frozen")


@operator(
    "detached-layer",
    "model",
    "frozen_parameter",
    "TrainCheck, lost gradient; gDefects4DL",
    promise="every parameter that the optimizer holds gets a gradient",
)
def detached_layer(program: Program) -> Iterator[Change]:
    """The output of a layer is cut from the graph, so the layer does not learn."""
    for forward in program.forwards():
        for call in program.nodes(ast.Call, forward):
            is_own = isinstance(call.func, ast.Attribute) and program.text(call.func.value) == "self"
            statement = program.statement(call)
            if is_own and isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                edit, layer = program.replace(call, f"{program.text(call)}.detach()"), last_name(call.func)
                attribute = layer if is_layer(program, layer) else ""
                yield Change((edit,), call.lineno, f"detached: {program.text(call)}", attribute)


@operator(
    "plain-list-of-modules",
    "model",
    "parameter_not_in_optimizer",
    "Humbatova 2020, layers not registered; torchtest2",
    promise="every parameter that the loss depends on is in the optimizer",
)
def plain_list_of_modules(program: Program) -> Iterator[Change]:
    """A list of modules is a plain list, which the model does not know."""
    for call in program.calls("ModuleList"):
        if call.args:
            edit = program.replace(call.func, "list")
            yield Change((edit,), call.lineno, f"list for {program.text(call.func)}", made_as(program, call))


@operator("dropout-nine-in-ten", "model", "dropout_too_high", "DeepCrime DCR; Humbatova 2020, wrong dropout")
def dropout_nine_in_ten(program: Program) -> Iterator[Change]:
    """A dropout drops nine in ten."""
    for call in program.calls("Dropout", "dropout"):
        rate = call.args[-1] if call.args else keyword(call, "p")
        is_call = last_name(call.func) == "dropout"
        if rate is not None and (len(call.args) > 1 or not is_call):
            attribute = inside_of(program, call) if is_call else made_as(program, call)
            yield Change((program.replace(rate, "0.9"),), call.lineno, f"0.9 in {program.text(call)}", attribute)


@operator("no-dropout", "model", None, "DeepCrime RAR; Humbatova 2020, missing regularisation")
def no_dropout(program: Program) -> Iterator[Change]:
    """A dropout drops nothing."""
    for call in program.calls("Dropout"):
        if call.args:
            edit = program.replace(call.args[0], "0.0")
            yield Change((edit,), call.lineno, f"0.0 in {program.text(call)}", made_as(program, call))


@operator("removed-normalisation", "model", None, "Humbatova 2020, missing layer")
def removed_normalisation(program: Program) -> Iterator[Change]:
    """A batch or layer norm returns its input."""
    for call in program.calls("BatchNorm2d", "BatchNorm1d", "LayerNorm"):
        edit = program.replace(call, "nn.Identity()")
        yield Change((edit,), call.lineno, f"no {program.text(call)}", made_as(program, call))


@operator("removed-residual", "model", None, "gDefects4DL, missing connection")
def removed_residual(program: Program) -> Iterator[Change]:
    """A residual connection is left out."""
    for added in program.nodes(ast.BinOp):
        statement, right = program.parent(added), program.text(added.right)
        is_layer = isinstance(added.right, ast.Call) and ("self" in right or "block" in right)
        if isinstance(added.op, ast.Add) and isinstance(statement, ast.Assign | ast.Return) and is_layer:
            comes_back = isinstance(statement, ast.Return) or program.text(statement.targets[0]) == last_name(
                added.left
            )
            if isinstance(added.left, ast.Name) and comes_back:
                edit, module = program.replace(added, right), inside_of(program, added)
                yield Change((edit,), added.lineno, f"{right} without what came in", module)


@operator("removed-positions", "model", None, "gDefects4DL, missing layer")
def removed_positions(program: Program) -> Iterator[Change]:
    """A sequence model is not told the positions."""
    for added in program.nodes(ast.BinOp):
        if isinstance(added.op, ast.Add) and any(word in program.text(added.right) for word in ("pos", "wpe")):
            edit, module = program.replace(added, program.operand(added.left)), inside_of(program, added)
            yield Change((edit,), added.lineno, f"left out: {program.text(added.right)}", module)


@operator(
    "open-mask",
    "model",
    "data_leak",
    "gDefects4DL, wrong mask; Humbatova 2020",
    promise="no output depends on a later input",
)
def open_mask(program: Program) -> Iterator[Change]:
    """A causal mask hides nothing."""
    for call in program.calls("tril", "triu"):
        inner = call.args[0] if call.args else None
        if inner is None or not program.trains(call):
            continue
        text, module = program.text(inner), inside_of(program, call)
        if last_name(call.func) == "tril" and "ones" in text:
            yield Change((program.replace(call, text),), call.lineno, f"{text} for {program.text(call)}", module)
        elif "-inf" in text:
            open_ = f"torch.zeros_like({text})"
            yield Change((program.replace(call, open_),), call.lineno, f"{open_} for {program.text(call)}", module)


@operator("inverted-mask", "model", None, "gDefects4DL, wrong mask", promise="what is masked has no influence")
def inverted_mask(program: Program) -> Iterator[Change]:
    """A padding mask hides what should be seen."""
    for compared in program.nodes(ast.Compare):
        statement = program.parent(compared)
        is_mask = isinstance(statement, ast.Assign) and any(
            word in program.text(statement.targets[0]) for word in ("mask", "padding", "keep")
        )
        if is_mask and isinstance(compared.ops[0], ast.Eq | ast.NotEq):
            left, right = program.operand(compared.left), program.operand(compared.comparators[0])
            sign = "!=" if isinstance(compared.ops[0], ast.Eq) else "=="
            edit, module = program.replace(compared, f"{left} {sign} {right}"), inside_of(program, compared)
            yield Change((edit,), compared.lineno, f"{sign} in the mask", module)


@operator("unscaled-attention", "model", "attention_logit_growth", "gDefects4DL, wrong formula")
def unscaled_attention(program: Program) -> Iterator[Change]:
    """The logits of attention are multiplied where they should be divided by the root of the width."""
    for division in program.nodes(ast.BinOp):
        if (
            isinstance(division.op, ast.Div)
            and "sqrt" in program.text(division.right)
            and "@" in program.text(division)
        ):
            left, right = program.operand(division.left), program.operand(division.right)
            edit, module = program.replace(division, f"{left} * {right}"), inside_of(program, division)
            yield Change((edit,), division.lineno, f"{left} * {right}", module)


@operator("reshaped-for-transposed", "model", None, "Islam 2019, wrong dimensions; gDefects4DL")
def reshaped_for_transposed(program: Program) -> Iterator[Change]:
    """A tensor is reshaped to the shape that it should be transposed to, which mixes its samples or positions."""
    for call in program.calls("transpose", "permute"):
        if isinstance(call.func, ast.Attribute) and program.text(call.func.value) not in ("torch", "np"):
            whole, value = program.text(call), program.operand(call.func.value)
            edit = program.replace(call, f"({value}).reshape(({whole}).shape)")
            yield Change((edit,), call.lineno, f"reshape for {whole}", inside_of(program, call))


@operator("batch-second", "model", None, "Islam 2019, wrong dimensions; Humbatova 2020")
def batch_second(program: Program) -> Iterator[Change]:
    """A recurrent or attention layer takes the batch for the time."""
    for call in program.calls("LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoderLayer"):
        value = keyword(call, "batch_first")
        if value is not None and program.text(value) == "True":
            edit = program.replace(value, "False")
            yield Change((edit,), call.lineno, f"batch_first=False: {program.text(call)}", made_as(program, call))


def _has_modes(program: Program) -> bool:
    """Return whether anything of the program works differently in training."""
    return any(word in program.source.lower() for word in ("dropout", "batchnorm", "self.training"))


@operator(
    "trained-in-evaluation-mode",
    "model",
    "wrong_train_eval_mode",
    "Humbatova 2020, wrong mode; TrainCheck",
    promise="dropout and batch norm are in the mode of what is done",
)
def trained_in_evaluation_mode(program: Program) -> Iterator[Change]:
    """The model is trained in evaluation mode."""
    calls = [call for call in program.calls("train") if isinstance(call.func, ast.Attribute) and not call.args]
    if calls and _has_modes(program):
        edits = tuple(program.replace(call, f"{program.text(call.func.value)}.eval()") for call in calls)
        yield Change(edits, calls[0].lineno, "eval() for train()")


@operator(
    "evaluated-in-training-mode",
    "model",
    "wrong_train_eval_mode",
    "Humbatova 2020, wrong mode; torchtest2",
    promise="dropout and batch norm are in the mode of what is done",
)
def evaluated_in_training_mode(program: Program) -> Iterator[Change]:
    """The model is evaluated in training mode."""
    calls = [call for call in program.calls("eval") if isinstance(program.parent(call), ast.Expr)]
    if calls and _has_modes(program):
        edits = tuple(program.delete(program.statement(call)) for call in calls)
        yield Change(edits, calls[0].lineno, "no eval()")


@operator("copied-target-network", "model", None, "muPRL; gDefects4DL, EMA of the wrong rate")
def copied_target_network(program: Program) -> Iterator[Change]:
    """The slow copy of a network follows at once, or never."""
    for call in program.calls("lerp_"):
        if len(call.args) == 2:
            yield Change((program.replace(call.args[1], "0.0"),), call.lineno, "the copy never follows")
    for assigned in program.nodes(ast.Assign):
        name = program.text(assigned.targets[0])
        if name == "self.m":
            yield Change((program.replace(assigned.value, "0.0"),), assigned.lineno, "the copy follows at once")
            yield Change((program.replace(assigned.value, "1.0"),), assigned.lineno, "the copy never follows")


@operator("narrow-layers", "model", None, "DeepCrime; Humbatova 2020, wrong layer size")
def narrow_layers(program: Program) -> Iterator[Change]:
    """Hidden layers are four units wide."""
    for function in program.nodes(ast.FunctionDef):
        for argument, default in zip(reversed(function.args.args), reversed(function.args.defaults), strict=False):
            is_width = argument.arg in ("hidden", "hidden_size", "width", "dim", "n_factors")
            if is_width and isinstance(default, ast.Constant) and isinstance(default.value, int):
                edit = program.replace(default, "4")
                yield Change((edit,), default.lineno, f"{argument.arg}=4 for {default.value}")


@operator(
    "planted-frozen-half",
    "model",
    "frozen_parameter",
    "Humbatova 2020, layers frozen by mistake",
    promise="every parameter that the optimizer holds can move",
    is_planted=True,
)
def planted_frozen_half(program: Program) -> Iterator[Change]:
    """The first half of the parameters of each group requires no gradient."""
    yield from planted_change(program, "change_parameters(planted.frozen)")


@operator("planted-large-weights", "model", "bad_initialization", "DeepCrime WCI", is_planted=True)
def planted_large_weights(program: Program) -> Iterator[Change]:
    """All weights start twelve times as large."""
    yield from planted_change(program, "change_parameters(planted.enlarged)")


@operator("planted-no-activations", "model", "missing_nonlinearity", "DeepCrime ARM", is_planted=True)
def planted_no_activations(program: Program) -> Iterator[Change]:
    """Every ReLU, GELU and SiLU returns its input."""
    yield from planted_change(program, "remove_activations()")


@operator("planted-evaluation-mode", "model", "wrong_train_eval_mode", "Humbatova 2020, wrong mode", is_planted=True)
def planted_evaluation_mode(program: Program) -> Iterator[Change]:
    """Every module stays in evaluation mode."""
    yield from planted_change(program, "evaluate_always()")


@operator("planted-training-mode", "model", "wrong_train_eval_mode", "Humbatova 2020, wrong mode", is_planted=True)
def planted_training_mode(program: Program) -> Iterator[Change]:
    """No module ever enters evaluation mode."""
    yield from planted_change(program, "train_always()")


@operator("planted-dropout", "model", "dropout_too_high", "DeepCrime DCR", is_planted=True)
def planted_dropout(program: Program) -> Iterator[Change]:
    """Every dropout drops nine in ten."""
    yield from planted_change(program, "drop_out_nearly_all()")
