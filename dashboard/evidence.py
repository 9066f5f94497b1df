"""Where each number of a finding can be seen in the series that it came from."""

from ..storage import Finding, Run, metric_name
from .address import Address
from .data import Reader


def place_of_number(reader: Reader, run: Run, finding: Finding, name: str) -> Address:
    """The page that shows the number called so: the tensor's series, a scalar's curve, or the finding's own series."""
    subject, _, statistic = finding.metric.rpartition("/")
    scalars, metrics = reader.scalars(run.id), reader.metrics(run.id)
    if name in scalars:
        return _curve(run, name, finding)
    same = metric_name(subject, name)
    metric = same if same in metrics else finding.metric
    if finding.site in reader.sites(run.id, metric):
        return Address("tensor", run.id, metric, finding.site, finding.first_step)
    if subject == "scalar" and statistic in scalars:
        return _curve(run, statistic, finding)
    return Address("run", run.id, step=finding.first_step)


def _curve(run: Run, scalar: str, finding: Finding) -> Address:
    options = {} if scalar == "loss" else {"scalar": scalar}
    around = (max(0, finding.first_step - 50), finding.first_step + 50)
    return Address("run", run.id, options={**options, "steps": f"{around[0]}-{around[1]}"})
