"""Arguments that a primitive expects to be functions of the others, and outputs that no gradient flows through."""

from mindscope.framework import PRIMITIVES, Tensor


def _moments(args, attributes):
    x = args[1].numpy()
    return [*args[:3], Tensor(x.mean((0, 2))), Tensor(x.var((0, 2)))]


def _attention(args, attributes):
    return [*args[:4], *PRIMITIVES["attention"].several(*args[1:4], *args[6:], **attributes), *args[6:]]


def _saved_by(name, outputs, places):
    """The arguments with those last that the forward primitive would have saved."""

    def completed(args, attributes):
        inputs = args[outputs : len(args) - len(places)]
        found = PRIMITIVES[name].several(*inputs, **attributes)
        return [*args[:outputs], *inputs, *(found[place] for place in places)]

    return completed


#: By primitive: how many floating-point arguments are free (they come first), and what completes them.
COMPLETED = {
    "attention_gradient": (4, _attention),
    "batch_norm_gradient": (3, _moments),
    "gru_gradient": (6, _saved_by("gru", 2, (0, 2))),
    "lstm_gradient": (8, _saved_by("lstm", 3, (0, 3))),
    "rnn_gradient": (5, _saved_by("rnn", 2, (0,))),
}

#: By primitive: how many of its outputs (the first ones) carry a gradient, where not all do.
DIFFERENTIABLE_OUTPUTS = {"batch_norm": 1, "gru": 2, "lstm": 3}
