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
    """Shown below the options; the backspace keeps click from filling the lines."""
    return "\b\nExample\n" + "\n".join(f"  {line}" for line in lines)


EXIT_CODES = """

\b
Exit codes
  0  done
  1  the output could not be written
  2  the command was written wrongly
  3  the specification, domain or workload cannot be used
  4  no plan with the gap asked for, or a damaged plan
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
    "--series", type=_FILE, help="Of a series: the folder of its frozen counts, as confidential as the data."
)

_WHOLE = click.option(
    "--integers",
    "integers_folder",
    type=_FILE,
    help="The integer tables in this folder, made of the release, not itself.",
)

_COMBINATION = click.option(
    "--combination", type=_FILE, help="This folder, which was combined of the release and --with-release."
)

_ALSO = click.option(
    "--with-release", type=_FILE, multiple=True, help="Another release of the combination; repeatable."
)

_LEDGER = click.option("--ledger", "ledger_file", type=_FILE, required=True, help="That knows what was drawn.")


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
@click.option("-o", "--output", type=_FILE, help="Write it here, where no file is yet; without it, it is printed.")
@_AS_JSON
def init_command(**options: Any) -> None:
    """Write a specification to begin with, for attributes with these names, with what is to be said marked in it.

    TYPE is categorical, which it is without one, ordered, binned, amount or hierarchy. Reads no data.
    """
    from fitnoise.interfaces import commands

    commands.init_command(**options)


@cli.command(
    "plan", epilog=_example("fitnoise plan spec.toml -o plan.json", "fitnoise plan spec.toml --json | jq .rho")
)
@click.argument("spec", type=_FILE)
@click.option("-o", "--output", type=_FILE, help="Write the plan here.")
@click.option("--gap", type=_FLOAT, help="Relative gap that must be certified (overrides the specification).")
@click.option(
    "--refine", is_flag=True, help="Among plans of least cost, make all other cells cheaper too, dearest first."
)
@click.option("--device", metavar="NAME", help="PyTorch device for large dense problems, such as cuda.")
@click.option("--seconds", type=_FLOAT, help="Leave the search for a pure plan after so long, with the best found.")
@click.option(
    "--plot", type=_FILE, help="Draw what other margins would cost, and epsilon against delta (svg, pdf, png)."
)
@click.option(
    "--max-records", "bounds", metavar="1,2,4,8", help="Also show what other bounds on the records of one unit cost."
)
@_AS_JSON
def plan_command(**options: Any) -> None:
    """Plan the noise for SPEC (TOML). Reads no data."""
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
@click.option("--epsilon", type=_FLOAT, help="The epsilon to spend; without it, of the specification, or by targets.")
@click.option("--delta", type=_FLOAT, help="Of the Gaussian alternative; default that of the specification.")
@click.option("--all", "every", is_flag=True, help="Try the strategies for pure noise that lose to others, too.")
@click.option("-o", "--output", type=_FILE, help="Write the plan of the best alternative here.")
@_AS_JSON
def compare_command(**options: Any) -> None:
    """Compare pure and Gaussian noise for the tables of SPEC; with --all every family of strategies. Reads no data.

    For each question with finitely many answers, the mechanisms that there are. For a small database, what settings of
    the projection mechanism were simulated, and on which public histograms.

    With an epsilon, by the margins it buys: pure, or with a delta. Without one, by the epsilon that the targets need.
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
    "--composed-with", "files", type=_FILE, multiple=True, help="A plan measured on the same records; repeatable."
)
@click.option("--ledger", "ledger_file", type=_FILE, help="Every plan charged to the account, instead.")
@click.option("-o", "--output", type=_FILE, help="Write the plan here.")
@_AS_JSON
def plan_free_command(**options: Any) -> None:
    """Plan the most accurate further tables that cost nothing beside plans on the same records. Reads no data.

    The targets of SPEC say how accurate its tables are relative to each other. Release the plan with the same ledger:
    what is spent does not rise.
    """
    from fitnoise.interfaces import commands

    commands.plan_free_command(**options)


@cli.command("keys", epilog=_example("fitnoise keys releaser.key"))
@click.argument("file", type=_FILE)
@_AS_JSON
def keys_command(**options: Any) -> None:
    """Make a pair of keys for `fitnoise count`: the private one in FILE, the public one in FILE.pub.

    FILE stays where releases are made, and only its owner may read it. FILE.pub goes to where the data are.
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
@click.option("--public-key", "public_key", metavar="KEY", type=_FILE, help="Seal them for this public key.")
@click.option("--unsealed", is_flag=True, help="Do not seal them: whoever gets the file reads exact counts.")
@click.option("-o", "--output", type=_FILE, required=True, help="The file to make.")
@click.option("--table", help="Table of a database or a DuckDB file: table, or schema.table.")
@_AS_JSON
def count_command(**options: Any) -> None:
    """Count for PLAN where DATA are, to release it elsewhere. Nothing is charged, and no count is shown.

    The file holds exact counts, and is as confidential as the data. DATA are those of `fitnoise release`, which takes
    the file in their place, as often as it is told, and charges every release.
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
@click.option("--ledger", "ledger_file", type=_FILE, required=True, help="Charged before any noise is drawn.")
@click.option("-o", "--output", type=_FILE, required=True, help="The release directory to make.")
@click.option("--table", help="Table of a database or a DuckDB file: table, or schema.table.")
@click.option("--key", type=_FILE, help="The private key, for counts that are sealed.")
@click.option(
    "--tables", "names", metavar="NAME", multiple=True, help="Write a file for this table; repeatable; default all."
)
@click.option("--no-tables", is_flag=True, help="Write a file for none; `fitnoise tables` rebuilds each.")
@click.option("--period", help="Of a series: draw this period, the next one, of which alone DATA are counted.")
@_SERIES
@click.option("--again", is_flag=True, help="Measure a plan a second time, for a second charge to the same ledger.")
@_AS_JSON
def release_command(**options: Any) -> None:
    """Measure PLAN on DATA (CSV, Parquet, DuckDB, SQLite, or a database), once, and write the tables.

    CSV and Parquet files may be many: several paths, a pattern, or a folder, in which folders called column=value hold
    a column. Files of SPSS, SAS, Stata and Excel are read too (fitnoise[statistics]).

    A database is named by its URL without a password, or by env:NAME, a variable of the environment that holds its URL;
    a table of Spark by spark:TABLE. Or DATA are counts that were made elsewhere (`fitnoise count`).
    If the command ends after the charge, the same command finishes the release at no further charge.
    Every table can be rebuilt from the release, also those without a file (`fitnoise tables`).
    """
    from fitnoise.interfaces import commands

    commands.release_command(**options)


@cli.group(
    "series",
    epilog=_example("fitnoise series status plan.json --series state/ --ledger budget.sqlite --json"),
    no_args_is_help=False,
)
def series_group() -> None:
    """See what was drawn of a series, released period by period, or write a period that was drawn once more."""


@series_group.command(
    "status", epilog=_example("fitnoise series status plan.json --series state/ --ledger budget.sqlite")
)
@click.argument("plan_file", metavar="PLAN", type=_FILE)
@click.option("--series", "series", type=_FILE, required=True, help="The folder of its frozen counts.")
@_LEDGER
@_AS_JSON
def series_status_command(**options: Any) -> None:
    """List the periods of the series of PLAN: which were drawn, when, and what drawing one again would cost."""
    from fitnoise.interfaces import commands

    commands.series_status_command(**options)


@series_group.command(
    "write",
    epilog=_example(
        "fitnoise series write plan.json --period 2026-03 --series state/ --ledger budget.sqlite -o 2026-03/"
    ),
)
@click.argument("plan_file", metavar="PLAN", type=_FILE)
@click.option("--period", required=True, help="A period that was drawn.")
@click.option("--series", "series", type=_FILE, required=True, help="The folder of its frozen counts.")
@_LEDGER
@click.option("-o", "--output", type=_FILE, required=True, help="The release directory to make.")
@click.option("--redraw", is_flag=True, help="Its answers are lost: draw its rows again, and charge what they cost.")
@_AS_JSON
def series_write_command(**options: Any) -> None:
    """Write the release of a period as it was drawn: where a process was killed before it was written. Reads no data.

    Where even its noisy answers are lost, --redraw draws them once more, of the counts that were frozen, at a price.
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
@click.option("-o", "--output", type=_FILE, help="Write the tables named into this folder, as CSV files.")
@click.option("--by", metavar="LEVEL", help="Of nested places: a file for every place of this level.")
@click.option("--all", "every", is_flag=True, help="List the tables of a pattern one by one.")
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
        """fitnoise ask release/ '1000 * count(age=(0, 17)) / 81_300' --csv""",
        """fitnoise ask release/ 'count(sex="f")' --areas districts.csv""",
        """fitnoise ask release/ 'other.count() / count() - 1' --by state --other later/ --simultaneous""",
        """fitnoise ask 2026-03/ 'change(count(), "month", 12)' --by month --csv""",
    ),
)
@click.argument("directory", metavar="RELEASE", type=_FILE)
@click.argument("expression")
@click.option(
    "--by", metavar="NAME", multiple=True, help="Tell the numbers apart by this attribute or level; repeatable."
)
@click.option(
    "--areas",
    type=_FILE,
    help="A CSV file of areas, such as school districts: the name of an area and the code of a place in each row.",
)
@click.option("--other", type=_FILE, help="Another release, called `other` in the expression.")
@click.option("--simultaneous", is_flag=True, help="Widen the intervals so that all of them hold at once.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a CSV file on stdout, its numbers in full.")
@_AS_JSON
def ask_command(**options: Any) -> None:
    """Compute EXPRESSION from RELEASE: counts, sums, differences, shares, rates and growth, with their intervals.

    EXPRESSION is of count(...), total(...), mean(...) and quantile(...), numbers and + - * /, as in Python; and of
    change(..., "month"), average(..., "month", 3) and to_date(..., "month") of counts along a name of --by. Which table
    shows what is asked need not be known.
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
    "--same-records", is_flag=True, help="Say that all are of the very same records, which no file can state."
)
@click.option(
    "-o", "--output", type=_FILE, help="The folder to make, or a page or tables for other programs: .html, .xlsx, .tex."
)
@click.option("--table", "name", help="Print this table as a CSV file on stdout.")
@_AS_JSON
def combine_command(**options: Any) -> None:
    """Make one estimate of least variance of several releases of the same records: RELEASE, OTHER and so on.

    Nothing is charged. Releases of different records are compared (ask --other), never combined.
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
@click.option("-o", "--output", type=_FILE, required=True, help="The folder to make, or a page (.html, .xlsx, .tex).")
@click.option(
    "--simulations",
    type=_Integer(),
    help="How often the noise is simulated, for bias and error; default 200, of more than 20,000 numbers 20.",
)
@_AS_JSON
def integers_command(**options: Any) -> None:
    """Make tables of whole numbers that add up, none negative, from those of RELEASE: all, or those named.

    Such numbers are biased: beside each it is said how much, and what is possible. The release stays as it is.
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
@click.option("--record-text", type=_FILE, help="A TOML file with a table [record], such as the specification.")
@click.option("-o", "--output", type=_FILE, help="Write the record here; without it, it is printed.")
@_AS_JSON
def registry_record_command(**options: Any) -> None:
    """Describe RELEASE for the registry of deployments of differential privacy, as a YAML file.

    What only people can say comes from [record]; what is missing there is marked "to be filled".
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
@click.option("-o", "--output", type=_FILE, required=True, help="The HTML file to make.")
@_WHOLE
@_COMBINATION
@_ALSO
@click.option("--language", default="en", show_default=True, help="Of the report: en, or de for German.")
@click.option("--totals", is_flag=True, help="Add sums over what is shown value by value, with their own margins.")
@click.option(
    "--reliability-bands",
    "bands",
    metavar="PERCENT,PERCENT",
    help="Mark numbers whose margin is a larger part of them: to be used with care, and too wide.",
)
@click.option("--table", "names", metavar="NAME", multiple=True, help="Show this table; repeatable; default all.")
@_AS_JSON
def report_command(**options: Any) -> None:
    """Write a report of a release or a plan: one HTML file for everybody, without scripts (fitnoise[report]).

    Of a release also that of tables in a folder that were made of it: --integers, or --combination.
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
@click.option("-o", "--output", type=_FILE, required=True, help="A name in .xlsx or .tex, or a folder to make.")
@_WHOLE
@_COMBINATION
@_ALSO
@click.option("--language", default="en", show_default=True, help="Of workbooks and LaTeX: en, or de for German.")
@click.option("--totals", is_flag=True, help="Add sums over what is shown value by value (workbooks and LaTeX).")
@click.option(
    "--reliability-bands",
    "bands",
    metavar="PERCENT,PERCENT",
    help="Mark numbers whose margin is a larger part of them: to be used with care, and too wide.",
)
@click.option("--licence", help="Of a data package, such as CC-BY-4.0.")
@click.option("--table", "names", metavar="NAME", multiple=True, help="Write this table; repeatable; default all.")
@_AS_JSON
def export_command(**options: Any) -> None:
    """Write tables of RELEASE as a workbook, as LaTeX, or as a data package, by the ending of the name.

    A data package is a folder of CSV files and a datapackage.json, which says what their columns mean. Tables in a
    folder that were made of RELEASE are written with --integers or --combination.
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
@click.option("--ledger", "ledger_file", type=_FILE, help="Check too that the release was charged to this ledger.")
@click.option("--report", "report_file", type=_FILE, help="Check too that this is the report, byte for byte.")
@click.option(
    "--integers", "integers_folder", type=_FILE, help="Check the integer tables in this folder and their proof, too."
)
@click.option(
    "--combination", type=_FILE, help="Check too what was combined in this folder, of the release and --with-release."
)
@click.option(
    "--with-release", type=_FILE, multiple=True, help="Another release of the combination, verified likewise."
)
@click.option(
    "--export", "export_place", type=_FILE, help="Check too a workbook, LaTeX file or data package, by its manifest."
)
@_AS_JSON
@click.pass_context
def verify_command(context: click.Context, /, **options: Any) -> None:
    """Recompute everything a plan file or a release directory claims."""
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
@click.option(
    "--cap", callback=_exact_rho, help="Set the total rho allowed for one account (0.05, or a fraction: 1/20)."
)
@click.option(
    "--epsilon-cap", callback=_exact_rho, help="Set the total pure epsilon allowed instead: only pure plans then fit."
)
@click.option(
    "--mu-cap", callback=_exact_rho, help="Set the total mu allowed instead: all releases together keep its curve."
)
@click.option(
    "--account", "source", help="The account's name, with --cap: that of the data source, or of its `account`."
)
@click.option(
    "--unit",
    help="The account's privacy unit as the ledger prints it, or the digits in brackets, with --cap; default its only "
    "one, or that of --plan.",
)
@click.option(
    "--plan",
    "plan_file",
    type=_FILE,
    help="With --cap, a plan whose account is meant; else: how many releases of it fit.",
)
@click.option(
    "--open-account",
    "is_new",
    is_flag=True,
    help="Open the account of --plan with the cap, or another unit of one, and say what earlier releases cost it.",
)
@click.option("--reason", help="Why the cap is set; kept in the ledger.")
@click.option(
    "--delta",
    type=_FLOAT,
    help="Say the epsilon at this delta of all that each account released, if its plans were fixed in advance.",
)
@click.option("--plot", type=_FILE, help="Draw that epsilon against delta (svg, pdf, png); delta is 1e-6 by default.")
@_AS_JSON
def ledger_command(**options: Any) -> None:
    """Show the balance and the entries of a ledger, or set a cap. The chain of entries is checked first."""
    from fitnoise.interfaces import commands

    commands.ledger_command(**options)


@cli.command(
    "studio",
    epilog=_example("fitnoise studio", "fitnoise studio survey/ --language de", "fitnoise studio --data env:URL"),
)
@click.argument("folder", type=_FILE, default=".")
@click.option("--language", default="en", show_default=True, help="Of the pages: en, or de for German.")
@click.option("--data", metavar="env:NAME", multiple=True, help="Data beside FOLDER, or spark:TABLE; repeatable.")
@_AS_JSON
def studio_command(**options: Any) -> None:
    """Open FOLDER as pages of this machine: describe, see the price move, prove, release, read (fitnoise[studio]).

    It listens on 127.0.0.1 only, and is opened by a page, or a code, that works once.
    """
    from fitnoise.interfaces import commands

    commands.studio_command(**options)


@cli.command("demo", epilog=_example("fitnoise demo"))
@click.option("-o", "--output", type=_FILE, help="Directory to make; default fitnoise-demo, or the next free one.")
@_AS_JSON
def demo_command(**options: Any) -> None:
    """Run the whole path on real public records: plan, measure, release, verify."""
    from fitnoise.interfaces import commands

    commands.demo_command(**options)


@cli.command(
    "schema",
    epilog=_example("fitnoise schema > fitnoise.schema.json", "fitnoise schema spec.toml --example 100 > example.csv"),
)
@click.argument("spec", type=_FILE, required=False)
@click.option("--example", type=_Integer(1), metavar="N", help="Print N records of the domain of SPEC, as CSV.")
@_AS_JSON
def schema_command(**options: Any) -> None:
    """Print the JSON Schema of a specification; or with --example records to try SPEC with.

    These are drawn from what SPEC declares, never from data: each value by chance, and no two of them related.
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
        for known, handler in before.items():
            signal.signal(known, handler)


def _run(arguments: list[str], received: Sequence[int] = ()) -> int:
    as_json = "--json" in arguments
    try:
        return cli.main(args=arguments, prog_name="fitnoise", standalone_mode=False) or 0
    except click.ClickException as error:
        if not as_json:
            error.show()
            return error.exit_code
        return _report("usage", None, error.format_message(), error.exit_code, "", as_json=True)
    except OSError:
        raise
    except Exception as error:
        if isinstance(error, click.Abort) or received or is_interruption(error):
            cause = error.__cause__ if isinstance(error, click.Abort) else None
            message = f"interrupted. {cause}" if isinstance(cause, KeyboardInterrupt) and cause.args else "interrupted"
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
