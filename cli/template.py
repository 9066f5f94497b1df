"""What `mindscope config init` writes: every key of the schema, with its default or an example of it."""

from typing import Final

__all__ = ["TEMPLATE"]

TEMPLATE: Final = """\
# What mindscope records of a training. These are the defaults; what is commented out is off, or an example.

# When. A number of `subjects` is a cadence, false is off; docs/catalogue/collectors.md lists them.
every: 1                      # cadence of every subject that says nothing else; 0: only what `subjects` names
# subjects:
#   activation: {every: 10, first: 100, windows: [[5000, 5100]], around: 50}
#   gradient: {per_decade: 20, start: 1000, stop: 90000}
#   optimizer: false
# around: {after: 50, severity: warning}   # everything at each of so many steps behind a finding
# budget: 3%                  # what tensors may cost; they are thinned to stay below, scalars are not

# Where. `mindscope sites SCRIPT` prints the names.
modules: ["*"]                # globs over the sites of modules
parameters: ["*"]             # and of parameters
exclude: []                   # of either
types: ["*"]                  # globs over the classes of modules
# depth: 3                    # how many names deep a module may lie
record: training              # training | gradients | all: which forwards count

# What.
statistics: []                # of tensors, beside the ten: sum, abs_max, kurtosis, checksum, quantiles
# Of histograms `every: 0` is none, and `scale: log` makes each bin an octave.
histograms: {every: 100, subjects: [activation, weight, gradient], bins: 64, scale: linear}
nan_trace: false              # name the first operation, and its line, that makes NaN or infinity
causality: false              # true | report: check once that no output of a sequence model sees later input
# dump:                       # whole tensors, in files beside the run
#   sites: ["head"]
#   subjects: [input, activation, activation_grad, weight, gradient]
#   when: {windows: [[100, 110]]}
#   limit_gb: 10.0            # on the disk
#   memory_gb: 0.25           # of copies that wait for it
#   folder: tensors/          # needed where the store is a database
# flight_recorder:            # the last steps in full, in memory, stored if something is wrong
#   steps: 20
#   tensors: ["head"]         # whose whole tensors are kept too
#   subjects: [activation, gradient]
#   memory: 512MB
#   severity: warning         # of findings that ask for it, or worse
# routers:                    # modules that send tokens to experts and do not say so themselves
#   - {sites: ["*.gate"], top_k: 2, holds: logits, output: 0, experts: 8, capacity_factor: 1.25}
#   - {sites: ["*.switch"], attribute: last_choice, holds: experts}

# What the diagnosis should know.
accumulation_steps: 1         # backward passes that one optimizer step sums on purpose
expected_frozen: []           # globs of sites that are not meant to learn

# What happens when something is found. docs/under_way.md
# watchpoints:                # conditions of your own, reported like findings
#   - gradient/l2_norm @ decoder.* > 10 for 3 steps
#   - {when: "nan @ *", name: any NaN, severity: error, pause: true}
# on_finding:                 # warn | stop | skip_step | checkpoint | callback | pause
#   - {do: checkpoint, severity: error, keep: 3, folder: checkpoints/}
#   - {do: callback, call: "alerts:page_me", causes: [loss_spike, "watchpoint/*"]}
# webhook: {url: "https://example.org/hook", severity: warning, timeout_s: 5}   # is told in small JSON bodies

queue: {capacity: 128, when_full: block}   # of records that wait for the disk; drop: never wait, lose observations
"""
