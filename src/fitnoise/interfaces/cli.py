"""The command line, in the order of life, from a specification to a ledger.

Words and options only: what a command does is loaded when it is run (`commands`), so that help comes at once.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from fitnoise import __version__
from fitnoise.errors import FitnoiseError, ReleaseError, SpecError, is_interruption
from fitnoise.interfaces.streams import give_up, has_lost_lines


def _example(*lines: str) -> str:
    """Return example lines for the help of a command; they are printed below its options."""
    # The backspace keeps click from joining the lines into one paragraph.
    return "\b\nExample\n" + "\n".join(f"  {line}" for line in lines)


EXIT_CODES = """

\b
Exit codes
  0  done
  1  the output could not be written
  2  the command was written wrongly
  3  the specification, domain or workload cannot be used
  4  no plan with the required gap, or a damaged plan
  5  over a cap or out of budget
  6  the data do not fit the domain
  7  the ledger cannot be used
  8  a file or directory cannot be written or read, or does not verify
  130, 143  interrupted by Ctrl-C, or by SIGTERM
"""


class _Float(click.types.FloatParamType):
    """A number as the data hold one: click itself would also read 1_0, inf, and digits of other scripts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or raise a usage error."""
        from fitnoise.kernel.codings import number

        # One rule for numbers in options, specifications and data.
        if isinstance(value, str) and number(value) is None:
            self.fail(f"{value!r} is not a valid float.", param, ctx)
        return super().convert(value, param, ctx)


class _Integer(click.IntRange):
    """A whole number in decimal digits of ASCII."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or raise a usage error."""
        if isinstance(value, str) and not re.fullmatch("-?[0-9]{1,18}", value):
            self.fail(f"{value!r} is not a valid integer.", param, ctx)
        return super().convert(value, param, ctx)


_FLOAT = _Float()

_AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document on stdout, or an error as JSON on stderr."
)

_FILE = click.Path(path_type=Path)

_SERIES = click.option(
    "--series", type=_FILE, help="Folder of the frozen counts of a series; as confidential as the data."
)

_INTEGERS = click.option(
    "--integers",
    "integers_folder",
    type=_FILE,
    help="Folder of integer tables made from the release, to use instead of the release.",
)

_COMBINATION = click.option(
    "--combination", type=_FILE, help="Folder of a combination of the release with each --with-release."
)

_ALSO = click.option(
    "--with-release", type=_FILE, multiple=True, help="Another release of the combination; repeatable."
)

_LEDGER = click.option(
    "--ledger", "ledger_file", type=_FILE, required=True, help="Ledger that recorded the periods of the series."
)


def _exact_rho(_context: click.Context, _option: click.Parameter, text: str | None) -> Fraction | None:
    """Return the exact number, or raise a usage error."""
    from fitnoise.request.documents import exact_number

    try:
        return None if text is None else exact_number(text)
    except SpecError as error:
        raise click.BadParameter(str(error.with_outcome("Nothing was changed."))) from None


@click.group(
    epilog=_example(
        "fitnoise plan spec.toml -o plan.json",
        "fitnoise release plan.json people.parquet --ledger budget.sqlite -o release/",
        "fitnoise verify release/",
    )
    + EXIT_CODES,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="fitnoise")
def cli() -> None:
    """Publish counts about people at the accuracy you need, for the least privacy cost, with proof."""


@cli.command("init", epilog=_example("fitnoise init sex age=ordered income=amount geo=hierarchy -o spec.toml"))
@click.argument("names", metavar="NAME[=TYPE]...", nargs=-1, required=True)
@click.option("-o", "--output", type=_FILE, help="New file for the specification (default: stdout).")
@_AS_JSON
def init_command(**options: Any) -> None:
    """Write a starter specification for these attributes and mark the lines to complete. Reads no data.

    TYPE is categorical (the default), ordered, binned, amount or hierarchy.
    """
    from fitnoise.interfaces import commands

    commands.init_command(**options)


@cli.command(
    "plan", epilog=_example("fitnoise plan spec.toml -o plan.json", "fitnoise plan spec.toml --json | jq .rho")
)
@click.argument("spec", type=_FILE)
@click.option("-o", "--output", type=_FILE, help="File for the plan.")
@click.option("--gap", type=_FLOAT, help="Relative gap that the certificate must reach (default: the gap of SPEC).")
@click.option(
    "--refine",
    is_flag=True,
    help="Among plans of least cost, also reduce the cost of all other cells, the costliest first.",
)
@click.option(
    "--device", metavar="NAME", help="PyTorch device for large dense problems, such as cuda (default: the processor)."
)
@click.option(
    "--seconds", type=_FLOAT, help="Time limit in seconds for the search for a pure plan; the best plan found is used."
)
@click.option(
    "--plot",
    type=_FILE,
    help="File for a plot of the cost of other margins, and of epsilon against delta (svg, pdf, png).",
)
@click.option(
    "--max-records",
    "bounds",
    metavar="1,2,4,8",
    help="Other bounds on the records of one unit, whose costs are printed too.",
)
@_AS_JSON
def plan_command(**options: Any) -> None:
    """Plan the noise of least privacy cost for SPEC (TOML). Reads no data."""
    from fitnoise.interfaces import commands

    commands.plan_command(**options)


@cli.command(
    "compare",
    epilog=_example(
        "fitnoise compare spec.toml",
        "fitnoise compare spec.toml --epsilon 1 --delta 1e-6 -o plan.json",
    ),
)
@click.argument("spec", type=_FILE)
@click.option(
    "--epsilon",
    type=_FLOAT,
    help="Epsilon to spend (default: the budget of SPEC, or the epsilon that the targets need).",
)
@click.option("--delta", type=_FLOAT, help="Delta of the Gaussian alternative (default: privacy.delta of SPEC).")
@click.option(
    "--all", "show_all", is_flag=True, help="Also try strategies for Laplace noise that other strategies dominate."
)
@click.option("-o", "--output", type=_FILE, help="File for the plan of the best alternative.")
@_AS_JSON
def compare_command(**options: Any) -> None:
    """Compare Laplace and Gaussian noise for the tables of SPEC. Reads no data.

    With an epsilon, the command compares the margins that each noise reaches; without one, the epsilon that the targets
    need. For a small database it lists the simulated settings of the projection mechanism instead, each with its public
    histogram. It also lists the mechanisms of each question.
    """
    from fitnoise.interfaces import commands

    commands.compare_command(**options)


@cli.command(
    "plan-free",
    epilog=_example(
        "fitnoise plan-free more.toml --composed-with plan.json -o free.json",
        "fitnoise plan-free more.toml --ledger budget.sqlite -o free.json",
    ),
)
@click.argument("spec", type=_FILE)
@click.option(
    "--composed-with", "files", type=_FILE, multiple=True, help="Plan that is measured on the same records; repeatable."
)
@click.option(
    "--ledger", "ledger_file", type=_FILE, help="Ledger: use every plan that is charged to the account instead."
)
@click.option("-o", "--output", type=_FILE, help="File for the plan.")
@_AS_JSON
def plan_free_command(**options: Any) -> None:
    """Plan the most accurate further tables that do not raise the joint cost of plans on the same records.

    The targets of SPEC state the accuracy of its tables relative to each other. Release the plan with the same ledger:
    the spent cost does not rise. Reads no data.
    """
    from fitnoise.interfaces import commands

    commands.plan_free_command(**options)


@cli.command("keys", epilog=_example("fitnoise keys releaser.key"))
@click.argument("file", type=_FILE)
@_AS_JSON
def keys_command(**options: Any) -> None:
    """Make a pair of keys for `fitnoise count`: the private key in FILE, the public key in FILE.pub.

    Keep FILE on the machine that makes releases; only its owner may read it. Copy FILE.pub to the data.
    """
    from fitnoise.interfaces import commands

    commands.keys_command(**options)


@cli.command(
    "count",
    epilog=_example(
        "fitnoise count plan.json spark:census.people --public-key releaser.key.pub -o counts.sealed",
        "fitnoise release plan.json counts.sealed --key releaser.key --ledger budget.sqlite -o release/",
    ),
)
@click.argument("plan_file", metavar="PLAN", type=_FILE)
@click.argument("data", metavar="DATA...", nargs=-1, required=True)
@click.option(
    "--public-key", "public_key", metavar="KEY", type=_FILE, help="Public key for which the counts are sealed."
)
@click.option("--unsealed", is_flag=True, help="Write the counts unsealed: every reader of the file sees exact counts.")
@click.option("-o", "--output", type=_FILE, required=True, help="File for the counts.")
@click.option(
    "--table", help="Table of a database or a DuckDB file (table, or schema.table), or sheet of an Excel file."
)
@_AS_JSON
def count_command(**options: Any) -> None:
    """Count the records of DATA for PLAN, to release them on another machine. Nothing is charged.

    The file has exact counts and is as confidential as the data. `fitnoise release` accepts it instead of DATA, any
    number of times, and charges every release. No count of a table is printed, but the number of dropped records is.
    DATA has the forms of `fitnoise release`.
    """
    from fitnoise.interfaces import commands

    commands.count_command(**options)


@cli.command(
    "release",
    epilog=_example(
        "fitnoise release plan.json people.parquet --ledger budget.sqlite -o release/",
        "fitnoise release plan.json lake/ --ledger budget.sqlite -o release/ --no-tables",
        "fitnoise release plan.json env:CENSUS_URL --table census.people --ledger budget.sqlite -o release/",
        "fitnoise release plan.json spark:census.people --ledger budget.sqlite -o release/",
        "fitnoise release plan.json march.csv --period 2026-03 --series state/ --ledger budget.sqlite -o 2026-03/",
    ),
)
@click.argument("plan_file", metavar="PLAN", type=_FILE)
@click.argument("data", metavar="DATA...", nargs=-1, required=True)
@click.option(
    "--ledger", "ledger_file", type=_FILE, required=True, help="Ledger that is charged before noise is drawn."
)
@click.option("-o", "--output", type=_FILE, required=True, help="New directory for the release.")
@click.option(
    "--table", help="Table of a database or a DuckDB file (table, or schema.table), or sheet of an Excel file."
)
@click.option("--key", type=_FILE, help="Private key for sealed counts.")
@click.option(
    "--tables", "names", metavar="NAME", multiple=True, help="Table to write as a file; repeatable (default: all)."
)
@click.option("--no-tables", is_flag=True, help="Write no table files; `fitnoise tables` rebuilds each table.")
@click.option("--period", help="Period of a series to draw: the next one. Only its records of DATA are counted.")
@_SERIES
@click.option(
    "--again", is_flag=True, help="Measure a released plan a second time, for a second charge to the same ledger."
)
@_AS_JSON
def release_command(**options: Any) -> None:
    """Charge the ledger, measure PLAN on DATA once, and write the tables.

    DATA is one or more CSV or Parquet files, a pattern or a folder. Folders named column=value give a column. It may be
    a file of DuckDB, SQLite, SPSS, SAS, Stata or Excel (fitnoise[statistics]), or counts from `fitnoise count`.

    DATA may also be the URL of a database without a password, spark:TABLE, or env:NAME for a variable with the URL.

    If the command ends after the charge, the same command finishes the release at no further charge.
    """
    from fitnoise.interfaces import commands

    commands.release_command(**options)


@cli.group(
    "series",
    epilog=_example("fitnoise series status plan.json --series state/ --ledger budget.sqlite --json"),
    no_args_is_help=False,
)
def series_group() -> None:
    """List the periods of a series, or write the release of a drawn period again."""


@series_group.command(
    "status", epilog=_example("fitnoise series status plan.json --series state/ --ledger budget.sqlite")
)
@click.argument("plan_file", metavar="PLAN", type=_FILE)
@click.option("--series", "series", type=_FILE, required=True, help="Folder of the frozen counts of the series.")
@_LEDGER
@_AS_JSON
def series_status_command(**options: Any) -> None:
    """List the periods of the series of PLAN: the time of each draw, and the cost of a second draw."""
    from fitnoise.interfaces import commands

    commands.series_status_command(**options)


@series_group.command(
    "write",
    epilog=_example(
        "fitnoise series write plan.json --period 2026-03 --series state/ --ledger budget.sqlite -o 2026-03/"
    ),
)
@click.argument("plan_file", metavar="PLAN", type=_FILE)
@click.option("--period", required=True, help="Period that was drawn.")
@click.option("--series", "series", type=_FILE, required=True, help="Folder of the frozen counts of the series.")
@_LEDGER
@click.option("-o", "--output", type=_FILE, required=True, help="New directory for the release.")
@click.option(
    "--redraw", is_flag=True, help="The answers are lost: draw the period again, at the cost that `status` prints."
)
@_AS_JSON
def series_write_command(**options: Any) -> None:
    """Write the release of a drawn period, for example if a process was killed before it wrote it. Reads no data.

    If the noisy answers are lost, --redraw draws noise for the frozen counts, at the cost that `series status` prints.
    """
    from fitnoise.interfaces import commands

    commands.series_write_command(**options)


@cli.command(
    "tables",
    epilog=_example(
        "fitnoise tables release/",
        'fitnoise tables release/ "state by status" > state_by_status.csv',
        'fitnoise tables release/ "state by status" "state by wages" -o chosen/',
        'fitnoise tables release/ "county by sex" --by state -o states/',
    ),
)
@click.argument("directory", metavar="RELEASE", type=_FILE)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-o", "--output", type=_FILE, help="Folder for the named tables, as CSV files.")
@click.option("--by", "level", metavar="LEVEL", help="Level of a hierarchy: write one file for each of its places.")
@click.option("--all", "show_all", is_flag=True, help="List the tables of a pattern one by one.")
@_AS_JSON
def tables_command(**options: Any) -> None:
    """List the tables and finite answers of RELEASE, or print a table as CSV.

    Each table is rebuilt from the noisy answers.
    """
    from fitnoise.interfaces import commands

    commands.tables_command(**options)


@cli.command(
    "ask",
    epilog=_example(
        """fitnoise ask release/ 'count(status="joint") / count()' --by state""",
        """fitnoise ask release/ '1000 * count(age=(0, 17)) / 81300' --csv""",
        """fitnoise ask release/ 'count(sex="f")' --areas districts.csv""",
        """fitnoise ask release/ 'other.count() / count() - 1' --by state --other later/ --simultaneous""",
        """fitnoise ask 2026-03/ 'change(count(), "month", 12)' --by month --csv""",
    ),
)
@click.argument("directory", metavar="RELEASE", type=_FILE)
@click.argument("expression")
@click.option(
    "--by", metavar="NAME", multiple=True, help="Attribute or level by which the result is broken down; repeatable."
)
@click.option(
    "--areas",
    type=_FILE,
    help="CSV file of areas, such as school districts: each row has the name of an area and the code of a place.",
)
@click.option("--other", type=_FILE, help="Another release, called `other` in the expression.")
@click.option("--simultaneous", is_flag=True, help="Widen the intervals so that all of them hold at once.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the result as CSV, with all digits.")
@_AS_JSON
def ask_command(**options: Any) -> None:
    """Compute EXPRESSION from RELEASE: counts, sums, differences, shares, rates and growth, with their intervals.

    EXPRESSION has count(...), total(...), mean(...), quantile(...), numbers and + - * /, as in Python. Along a name of
    --by it may have change(..., "month"), average(..., "month", 3) and to_date(..., "month") of counts. fitnoise finds
    the tables that answer it.
    """
    from fitnoise.interfaces import commands

    commands.ask_command(**options)


@cli.command(
    "combine",
    epilog=_example(
        "fitnoise combine release/ later/ --same-records",
        "fitnoise combine release/ later/ --same-records -o combined/",
        "fitnoise combine release/ later/ --same-records -o combined.html",
        'fitnoise combine release/ later/ --same-records --table "state by status"',
    ),
)
@click.argument("directories", metavar="RELEASE OTHER...", type=_FILE, nargs=-1, required=True)
@click.option(
    "--same-records",
    is_flag=True,
    help="State that all releases have exactly the same records; fitnoise cannot check this.",
)
@click.option(
    "-o", "--output", type=_FILE, help="New folder for the combination, or a report or tables (.html, .xlsx, .tex)."
)
@click.option("--table", "name", help="Table to print as CSV on stdout.")
@_AS_JSON
def combine_command(**options: Any) -> None:
    """Combine several releases of the same records into estimates of least variance. Nothing is charged.

    Releases of different records cannot be combined; compare them with `fitnoise ask --other`.
    """
    from fitnoise.interfaces import commands

    commands.combine_command(**options)


@cli.command(
    "integers",
    epilog=_example(
        "fitnoise integers release/ -o integers/",
        'fitnoise integers release/ "state by status" "state by wages" -o integers/ --simulations 1000',
        "fitnoise verify release/ --integers integers/",
    ),
)
@click.argument("directory", metavar="RELEASE", type=_FILE)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=_FILE,
    required=True,
    help="New folder for the integer tables, or a report or tables (.html, .xlsx, .tex).",
)
@click.option(
    "--simulations",
    type=_Integer(0),
    help="Number of simulations for bias and error (default: 200, or 20 for more than 20,000 numbers).",
)
@_AS_JSON
def integers_command(**options: Any) -> None:
    """Make tables of nonnegative integers that add up from the tables of RELEASE: the named ones, or all.

    Integer tables are biased. Each number comes with its simulated bias and an interval. RELEASE does not change.
    """
    from fitnoise.interfaces import commands

    commands.integers_command(**options)


@cli.command(
    "registry-record",
    epilog=_example(
        "fitnoise registry-record release/ -o record.yaml",
        "fitnoise registry-record release/ --record-text spec.toml -o record.yaml",
    ),
)
@click.argument("directory", metavar="RELEASE", type=_FILE)
@click.option("--record-text", type=_FILE, help="TOML file with a table [record], such as the specification.")
@click.option("-o", "--output", type=_FILE, help="File for the record (default: stdout).")
@_AS_JSON
def registry_record_command(**options: Any) -> None:
    """Write the entry of RELEASE for the registry of deployments of differential privacy, as YAML.

    The table [record] of --record-text gives the statements that no other file has. Missing statements are marked "to
    be filled".
    """
    from fitnoise.interfaces import commands

    commands.registry_record_command(**options)


@cli.command(
    "report",
    epilog=_example(
        "fitnoise report release/ -o report.html",
        "fitnoise report release/ -o bericht.html --language de --totals --reliability-bands 10,30",
        "fitnoise report plan.json -o plan.html",
        "fitnoise report release/ --integers integers/ -o integers.html",
    ),
)
@click.argument("path", type=_FILE)
@click.option("-o", "--output", type=_FILE, required=True, help="File for the report (.html).")
@_INTEGERS
@_COMBINATION
@_ALSO
@click.option("--language", default="en", show_default=True, help="Language of the report: en or de (German).")
@click.option("--totals", is_flag=True, help="Add sums over attributes shown value by value, with their own margins.")
@click.option(
    "--reliability-bands",
    "bands",
    metavar="PERCENT,PERCENT",
    help="Largest margins, in percent of the number, of reliable numbers and of numbers to use with care.",
)
@click.option("--table", "names", metavar="NAME", multiple=True, help="Table to show; repeatable (default: all).")
@_AS_JSON
def report_command(**options: Any) -> None:
    """Write a report of a release or a plan: one HTML file without scripts (fitnoise[report]).

    With --integers or --combination, the report shows the tables of that folder instead.
    """
    from fitnoise.interfaces import commands

    commands.report_command(**options)


@cli.command(
    "export",
    epilog=_example(
        "fitnoise export release/ -o tables.xlsx --totals",
        "fitnoise export release/ -o tables.tex --language de",
        "fitnoise export release/ -o package --licence CC-BY-4.0",
        "fitnoise export release/ --integers integers/ -o integers_package",
    ),
)
@click.argument("directory", metavar="RELEASE", type=_FILE)
@click.option(
    "-o", "--output", type=_FILE, required=True, help="File in .xlsx or .tex, or a new folder for a data package."
)
@_INTEGERS
@_COMBINATION
@_ALSO
@click.option("--language", default="en", show_default=True, help="Language of workbooks and LaTeX: en or de (German).")
@click.option("--totals", is_flag=True, help="Add sums over attributes shown value by value (workbooks and LaTeX).")
@click.option(
    "--reliability-bands",
    "bands",
    metavar="PERCENT,PERCENT",
    help="Largest margins, in percent of the number, of reliable numbers and of numbers to use with care.",
)
@click.option("--licence", help="Licence of the data package, such as CC-BY-4.0.")
@click.option("--table", "names", metavar="NAME", multiple=True, help="Table to write; repeatable (default: all).")
@_AS_JSON
def export_command(**options: Any) -> None:
    """Write tables of RELEASE as a workbook (.xlsx), as LaTeX (.tex), or as a data package (a folder).

    A data package has CSV files and a datapackage.json that defines their columns. With --integers or --combination,
    the tables of that folder are written instead.
    """
    from fitnoise.interfaces import commands

    commands.export_command(**options)


@cli.command(
    "verify",
    epilog=_example(
        "fitnoise verify release/",
        "fitnoise verify release/ --ledger budget.sqlite",
        "fitnoise verify release/ --combination combined/ --with-release later/",
        "fitnoise verify release/ --integers integers/ --report integers.html",
        "fitnoise verify release/ --export tables.xlsx",
        "fitnoise verify plan.json --json",
    ),
)
@click.argument("path", type=_FILE)
@click.option("--ledger", "ledger_file", type=_FILE, help="Ledger: also check that the release was charged to it.")
@click.option(
    "--report", "report_file", type=_FILE, help="Report: also check that it is the report of PATH, byte for byte."
)
@click.option(
    "--integers", "integers_folder", type=_FILE, help="Folder of integer tables: also check them and their proof."
)
@click.option("--combination", type=_FILE, help="Folder of a combination with each --with-release: also check it.")
@click.option(
    "--with-release", type=_FILE, multiple=True, help="Another release of the combination; it is verified too."
)
@click.option(
    "--export", "export_place", type=_FILE, help="Workbook, LaTeX file or data package: also check it by its manifest."
)
@_AS_JSON
@click.pass_context
def verify_command(context: click.Context, /, **options: Any) -> None:
    """Recompute every claim of a plan file or a release directory."""
    from fitnoise.interfaces import commands

    if not commands.verify_command(**options):
        context.exit(ReleaseError.exit_code)


@cli.command(
    "ledger",
    epilog=_example(
        "fitnoise ledger budget.sqlite",
        "fitnoise ledger budget.sqlite --plan plan.json",
        "fitnoise ledger budget.sqlite --cap 0.1 --open-account --plan plan.json",
        'fitnoise ledger budget.sqlite --cap 0.1 --account people --unit "one record, add-or-remove-one"',
    ),
)
@click.argument("file", type=_FILE)
@click.option("--cap", callback=_exact_rho, help="Cap on the total rho of one account (0.05, or a fraction: 1/20).")
@click.option(
    "--epsilon-cap", callback=_exact_rho, help="Cap on the total pure epsilon instead; only pure plans then fit."
)
@click.option(
    "--mu-cap", callback=_exact_rho, help="Cap on the total mu instead; all releases jointly keep the curve of this mu."
)
@click.option("--account", "source", help="Name of the account for the cap: the data source, or its `account`.")
@click.option(
    "--unit",
    help="Unit of the account for the cap, as the ledger prints it, or its digits in brackets (default: the only unit, "
    "or the unit of --plan).",
)
@click.option(
    "--plan",
    "plan_file",
    type=_FILE,
    help="Plan: with a cap, its account gets the cap; otherwise the number of its releases that fit is printed.",
)
@click.option(
    "--open-account",
    "is_new",
    is_flag=True,
    help="Open the account of --plan, or a further unit of its source, with the cap; print the cost so far.",
)
@click.option("--reason", help="Reason for the cap; the ledger stores it.")
@click.option(
    "--delta",
    type=_FLOAT,
    help="Delta at which the epsilon of all releases of each account is printed; valid for plans fixed in advance.",
)
@click.option(
    "--plot",
    type=_FILE,
    help="File for a plot of that epsilon against delta (svg, pdf, png); default of --delta: 1e-6.",
)
@_AS_JSON
def ledger_command(**options: Any) -> None:
    """Print the balance and the entries of a ledger, or set a cap. fitnoise checks the chain of entries first."""
    from fitnoise.interfaces import commands

    commands.ledger_command(**options)


@cli.command(
    "studio",
    epilog=_example("fitnoise studio", "fitnoise studio survey/ --language de", "fitnoise studio --data env:URL"),
)
@click.argument("folder", type=_FILE, default=".")
@click.option("--language", default="en", show_default=True, help="Language of the pages: en or de (German).")
@click.option(
    "--data", metavar="env:NAME", multiple=True, help="Data outside FOLDER: env:NAME or spark:TABLE; repeatable."
)
@_AS_JSON
def studio_command(**options: Any) -> None:
    """Open FOLDER in the browser: describe, plan, prove, release and read a publication (fitnoise[studio]).

    The studio listens on 127.0.0.1 only. A page opens it, or the code that the page holds, once.
    """
    from fitnoise.interfaces import commands

    commands.studio_command(**options)


@cli.command("demo", epilog=_example("fitnoise demo"))
@click.option("-o", "--output", type=_FILE, help="New directory (default: fitnoise-demo, or the next free name).")
@_AS_JSON
def demo_command(**options: Any) -> None:
    """Plan, measure, release and verify real public records, as an example."""
    from fitnoise.interfaces import commands

    commands.demo_command(**options)


@cli.command(
    "schema",
    epilog=_example("fitnoise schema > fitnoise.schema.json", "fitnoise schema spec.toml --example 100 > example.csv"),
)
@click.argument("spec", type=_FILE, required=False)
@click.option(
    "--example", type=_Integer(1), metavar="N", help="Number of example records of the domain of SPEC to print, as CSV."
)
@_AS_JSON
def schema_command(**options: Any) -> None:
    """Print the JSON Schema of a specification, or with --example random records to try SPEC.

    fitnoise draws the records from the declarations of SPEC, never from data. All their values are independent.
    """
    from fitnoise.interfaces import commands

    commands.schema_command(**options)


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Write an error on stderr, as text or with --json as JSON, and exit with its code."""
    has_lost_lines()  # of a command before, in the same process
    command_line = sys.argv[1:] if arguments is None else arguments
    try:
        with _signals() as received:
            code = _run(command_line, received)
        # A full disk shows here, and not after the exit code is set.
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # a reader that closes the pipe, as `head` does, is no error
            message = f"The output cannot be written ({error.strerror})."
            _report("output", None, message, 1, f"error: {message}", as_json="--json" in command_line)
        give_up(sys.stdout)
        code = 1
    if code or has_lost_lines():
        sys.exit(code or 1)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Have SIGINT and SIGTERM raise KeyboardInterrupt, and note which of them came.

    Engines turn an interruption into errors of their own, so only a received signal shows it for certain.
    """
    received: list[int] = []

    def note(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # not in the main thread
            if signal.getsignal(number) is not signal.SIG_IGN:  # a job in the background ignores it
                before[number] = signal.signal(number, note)
    try:
        yield received
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)


def _run(arguments: list[str], received: Sequence[int] = ()) -> int:
    """Run a command, and return its exit code.

    received: The signals that came, to which :func:`_signals` adds while the command runs.
    """
    # The flag is looked for in the text: an error can come before click has parsed the options.
    as_json = "--json" in arguments
    try:
        return cli.main(args=arguments, prog_name="fitnoise", standalone_mode=False) or 0
    except click.ClickException as error:
        if not as_json:
            error.show()
            return error.exit_code
        return _report("usage", None, error.format_message(), error.exit_code, "", as_json=True)
    except OSError:
        # The caller reports a stream that cannot be written.
        raise
    except Exception as error:
        # click turns an interruption into Abort; an engine turns it into an error of its own.
        if isinstance(error, click.Abort) or received or is_interruption(error):
            cause = error.__cause__ if isinstance(error, click.Abort) else None
            message = f"interrupted. {cause}" if isinstance(cause, KeyboardInterrupt) and cause.args else "interrupted"
            # Shells expect 128 and the number of the signal that ended the program.
            code = 128 + (received or [signal.SIGINT])[0]
            return _report("interrupted", None, message, code, message, as_json=as_json)
        if not isinstance(error, FitnoiseError):
            raise
        line = f"error: {error} [{error.code}]"
        return _report(error.code, error.place, error.message, error.exit_code, line, as_json=as_json)


def _report(code: str, place: str | None, message: str, exit_code: int, line: str, *, as_json: bool) -> int:
    """Write an error to stderr, and return its exit code.

    Args:
        code: Code of the error.
        place: Key, column, field or file at fault, if there is one.
        message: Sentences of the error.
        exit_code: Exit code of the command.
        line: Text of the error for people.
        as_json: Write the other arguments as one JSON object in place of the line.
    """
    from fitnoise.interfaces.console import say

    if as_json:
        error = {"code": code, "place": place, "message": message, "exit_code": exit_code}
        line = json.dumps({"error": error})
    say(line)
    return exit_code
