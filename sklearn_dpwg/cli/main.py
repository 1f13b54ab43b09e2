"""The command line itself."""

from __future__ import annotations

import click

from sklearn_dpwg.cli._answers import OneSentence
from sklearn_dpwg.cli.audit import audit
from sklearn_dpwg.cli.fit import fit
from sklearn_dpwg.cli.plan import plan
from sklearn_dpwg.cli.predict import predict
from sklearn_dpwg.cli.schema import schema


@click.group(cls=OneSentence, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks, which may hold values of records.")
@click.version_option(package_name="sklearn-dpwg", prog_name="sklearn_dpwg")
def main(debug: bool) -> None:
    """Private worst-group learning and fairness audits of tables.

    The way: `schema` and an editor, `plan`, `fit`, `predict`, `audit`. Wrong input is answered in
    one sentence, before any budget is spent. Exit codes: 0 done, 2 wrong input, 3 budget refused;
    of `audit --fail-below`, 4 fails and 5 cannot tell.
    """


for _command in (schema, plan, fit, predict, audit):
    main.add_command(_command)
