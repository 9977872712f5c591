"""Experiments that reproduce published results on the model of a drive.

::

    for experiment in larder.lab.list():
        print(experiment.name, experiment.title)
    result = larder.lab.run("ftl-uniform", seeds=1)
    print(result.verdict, result.metrics)
"""

from __future__ import annotations

import builtins
import html
import json
from typing import Any, NamedTuple

from . import _larder
from .tools import Progress, _Result, shown

__all__ = ["Experiment", "Parameter", "Result", "list", "run"]


class Parameter(NamedTuple):
    """A parameter of an experiment."""

    name: str
    default: str
    help: str


class Experiment(NamedTuple):
    """An experiment."""

    name: str
    title: str
    reproduces: str
    criterion: str
    parameters: builtins.list[Parameter]


class Result(_Result):
    """The result of an experiment."""

    @property
    def verdict(self) -> str:
        """Whether the published result was reproduced, by the experiment's criterion."""
        return str(self._told["verdict"])

    @property
    def reason(self) -> str:
        """Why."""
        return str(self._told["reason"])

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Each measured number: minimum, mean and maximum over the seeds."""
        return dict(self._told["metrics"])

    def to_pandas(self) -> Any:
        """A data frame of pandas with a row for each metric."""
        from .tools import _pandas

        return _pandas().DataFrame.from_dict(self.metrics, orient="index")

    def __repr__(self) -> str:
        return f"<{self._told['experiment']}: {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th>"
            + "".join(f"<td>{spread[it]:.4g}</td>" for it in ("min", "mean", "max"))
            + "</tr>"
            for name, spread in self.metrics.items()
        )
        head = "<tr><th></th><th>min</th><th>mean</th><th>max</th></tr>"
        return f"<p>{html.escape(self.verdict)}: {html.escape(self.reason)}</p><table>{head}{rows}</table>"


def list() -> builtins.list[Experiment]:
    """All experiments."""
    return [
        Experiment(name, title, reproduces, criterion, [Parameter(*it) for it in parameters])
        for name, title, reproduces, criterion, parameters in _larder.lab_list()
    ]


def run(
    name: str,
    settings: dict[str, object] | None = None,
    *,
    seeds: int = 3,
    first_seed: int = 1,
    progress: Progress = None,
) -> Result:
    """Run an experiment.

    :param settings: values of its parameters, by name; the criterion applies to the defaults.
    :param seeds: runs, each with another seed, from `first_seed` on.
    :raises ConfigError: for an unknown name, parameter or value, with the known ones.
    """
    assignments = [f"{name}={value}" for name, value in (settings or {}).items()]
    told = _larder.lab_run(name, assignments, (first_seed, seeds), shown(name, progress))
    return Result(json.loads(told))
