"""The command line, in the order of life, from a specification to a ledger.

Words and options only: what a command does is loaded when it is run (`commands`), so that help comes at once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from click.core import ParameterSource

from fitnoise import __version__
from fitnoise.errors import FitnoiseError, ReleaseError, SpecError, is_interruption
from fitnoise.interfaces.streams import as_events, give_up, has_lost_lines, say_line


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

_FILE = click.Path(path_type=Path)


class _PathOrAddress(click.Path):
    """The path of a ledger, or its address on a server, which stays the text that was given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from fitnoise.ledgers import is_address

        return value if is_address(value) else super().convert(value, param, ctx)


_LEDGER_PATH = _PathOrAddress(path_type=Path)


def _exact_rho(_context: click.Context, _option: click.Parameter, text: str | None) -> Fraction | None:
    """Return the exact number, or raise a usage error."""
    from fitnoise.request.documents import exact_number

    try:
        return None if text is None else exact_number(text)
    except SpecError as error:
        raise click.BadParameter(str(error.with_outcome("Nothing was changed."))) from None


class _Command(click.Command):
    """A command that refuses to have an option with one value twice: click itself would keep the last value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, or raise a usage error."""
        used: set[str] = set()
        for option in self.make_parser(ctx).parse_args(args=[*args])[2]:
            if not isinstance(option, click.Option) or option.multiple or option.is_flag:
                continue
            if option.opts[-1] in used:
                raise click.UsageError(
                    f"{option.opts[-1]} is given more than once. It takes one value. Give it once. Nothing was done.",
                    ctx,
                )
            used.add(option.opts[-1])
        return super().parse_args(ctx, args)


class _Ask(_Command):
    """A command whose expression may start with a minus sign: -count() is the expression, and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with a space before an expression that starts with one minus sign."""
        # No option has a bracket in its name, and the call in an expression has one.
        is_expression = [x[:1] == "-" and x[1:2] != "-" and "(" in x for x in args]
        return super().parse_args(ctx, [f" {x}" if y else x for x, y in zip(args, is_expression, strict=True)])


class _Commands(click.Group):
    """Commands in the order in which they are defined. The name of a command may have two words."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of definition."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name, the command and its arguments."""
        # `count keys` has two words, and `count` takes arguments of its own, so `count` is no group.
        if (name := " ".join(args[:2])) in self.commands:
            args = [name, *args[2:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and first sentences of the commands: of a group's commands, and under headings at the top."""
        if ctx.parent is not None:
            super().format_commands(ctx, formatter)
            return
        width = max(map(len, itertools.chain(*HEADINGS.values())))
        for heading, names in HEADINGS.items():
            rows = []
            for name in names:
                _, command, arguments = self.resolve_command(ctx, name.split())
                if arguments and isinstance(command, click.Group):
                    command = command.commands[arguments[0]]
                # The limit exceeds the length of a first sentence, so that no sentence is cut off.
                rows.append((name.ljust(width), command.get_short_help_str(limit=200) if command else ""))
            with formatter.section(heading):
                formatter.write_dl(rows)


@click.group(
    cls=_Commands,
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


HEADINGS = {
    "Plan, without data": ["new", "plan"],
    "Count and release": ["release", "count", "count keys", "series status", "series write"],
    "Read a release": ["tables", "ask", "verify"],
    "Make tables and files from releases": [
        "integers",
        "combine",
        *(f"write {kind}" for kind in ("report", "export", "tables", "covariances", "microdata", "record")),
    ],
    "Keep the ledger": [f"ledger {task}" for task in ("show", "create", "cap", "open", "head", "verify")],
    "In the browser": ["studio"],
}
"""The commands under each heading of the help, in order."""


def _group(name: str, text: str, example: str) -> None:
    """Add a group of commands with its text and an example."""
    cli.add_command(_Commands(name, help=text, epilog=_example(example), no_args_is_help=False))


def _add(
    name: str,
    text: str,
    parameters: Sequence[click.Parameter],
    *,
    examples: Sequence[str],
    modes: Mapping[str, Sequence[click.Option]] = MappingProxyType({}),
    kind: type[_Command] = _Command,
) -> None:
    """Add a command. Its action is the function `NAME_command` of `commands`, which takes its parameters by name.

    Args:
        name: Name of the command; the first of two words may be the name of a group.
        text: Text of the help.
        parameters: Arguments and options; --json is added.
        examples: Lines below the options in the help.
        modes: Further options by mode; the first option of a mode is the flag that turns it on, and has its name.
            The mode "" needs no flag. The action of another mode is `NAME_MODE_command`.
        kind: Class of the command.
    """
    for mode, options in modes.items():
        for option in options[1:] if mode else ():
            option.help = f"With --{mode}: {option.help}"

    def run(**values: Any) -> None:
        from fitnoise.interfaces import commands

        action = "_".join([*name.split(), *_choose_mode(modes, values)])
        if (file := click.get_current_context().meta.get(_CHOSEN)) is not None:
            commands.name_ledger(file)
        try:
            is_good = getattr(commands, f"{action}_command")(**values)
        except KeyboardInterrupt as stop:
            if as_events.get():  # click would write an empty line, which is no event
                raise click.Abort from stop
            raise
        if is_good is False:
            click.get_current_context().exit(ReleaseError.exit_code)

    group_name, _, short_name = name.partition(" ")
    group = cli.commands.get(group_name)
    in_group = isinstance(group, click.Group)
    command = kind(
        short_name if in_group else name,
        params=[*parameters, *itertools.chain(*modes.values()), _AS_JSON],
        callback=run,
        help=text,
        epilog=_example(*examples),
        no_args_is_help=False,
    )
    (group if isinstance(group, click.Group) else cli).add_command(command)


def _choose_mode(modes: Mapping[str, Sequence[click.Option]], values: dict[str, Any]) -> list[str]:
    """Return the mode whose flag is given, or no mode, and remove the options of other modes from the values."""
    chosen = [mode for mode in modes if mode and values.pop(mode)]
    if len(chosen) > 1:
        raise click.UsageError(
            f"{' and '.join(f'--{mode}' for mode in chosen)} are both given. Give one of them. Nothing was written."
        )
    context = click.get_current_context()
    for mode, options in modes.items():
        if mode == "".join(chosen):
            continue
        for option in options[bool(mode) :]:
            del values[option.name or ""]
            if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
                fault = f"{option.opts[-1]} is given {f'without --{mode}' if mode else f'with --{chosen[0]}'}."
                raise click.UsageError(f"{fault} It belongs to another use of the command. Nothing was written.")
    return chosen


def _option(names: str, text: str, **keys: Any) -> click.Option:
    return click.Option(names.split(), help=text, **keys)


def _flag(names: str, text: str) -> click.Option:
    return _option(names, text, is_flag=True)


def _file(names: str, text: str, **keys: Any) -> click.Option:
    return _option(names, text, type=_FILE, **keys)


def _output(text: str, *, required: bool = False) -> click.Option:
    return _file("-o --output", text, required=required)


LEDGER, HOME = "FITNOISE_LEDGER", "FITNOISE_HOME"
"""The variables of the environment that name the ledger, and the folder of one with a relative path."""

_CHOSEN = "fitnoise.ledger"
"""The key of a context under which a ledger is that the environment names."""


def _choose_ledger(context: click.Context, _option: click.Parameter, file: Path | str | None) -> Path | str:
    """Return the given ledger, or the one that the environment names; raise a usage error without one."""
    if file is not None:
        return file
    home, name = os.environ.get(HOME), os.environ.get(LEDGER)
    if not (home or name):
        raise click.UsageError(
            f"No ledger is given, and the environment names none. Give the ledger, or set {LEDGER} to its file, or "
            f"{HOME} to the folder of ledger.sqlite. Nothing was done.",
            context,
        )
    from fitnoise.ledgers import is_address

    chosen = name if name and is_address(name) else Path(home or "") / (name or "ledger.sqlite")
    context.meta[_CHOSEN] = chosen
    return chosen


def _ledger(text: str) -> click.Option:
    return _option("--ledger ledger_file", f"{text} {_ENVIRONMENT}", type=_LEDGER_PATH, callback=_choose_ledger)


_ENVIRONMENT = f"Default: {LEDGER}."


# Parameters of several commands

_AS_JSON = _flag(
    "--json as_json", "Print a JSON document on stdout. Events and errors are JSON objects on stderr, one a line."
)
_SPEC = click.Argument(["spec"], type=_FILE)
_PLAN = click.Argument(["plan_file"], metavar="PLAN", type=_FILE)
_DATA = click.Argument(["data"], metavar="DATA...", nargs=-1, required=True)
_RELEASE = click.Argument(["directory"], metavar="RELEASE", type=_FILE)
_DATA_TABLE = _option(
    "--table", "Table of a database or a DuckDB file (table, or schema.table), or sheet of an Excel file."
)
_CHARGED_SHARE = _option(
    "--share", "Share of the cap that is charged, where the account has shares (fitnoise ledger cap)."
)
_PERIODS_LEDGER = _ledger("Ledger that recorded the periods of the series.")
_FROZEN_COUNTS = "Folder of the frozen counts of a series; as confidential as the data."
_SERIES = _file("--series", _FROZEN_COUNTS, required=True)
_DERIVED = (
    _file("--integers integers_folder", "Folder of integer tables made from the release."),
    _file("--combination", "Folder of a combination of the release with each --with-release."),
    _file("--with-release", "Another release of the combination or of the integer tables; repeatable.", multiple=True),
)
_NAMES = _option("--table names", "Table to write; repeatable (default: all).", metavar="NAME", multiple=True)
_APPEARANCE = (
    _option("--language", "Language: en, de, es, fr or it (default: that of the publication)."),
    _flag("--totals", "Add sums over attributes shown value by value, with their own margins."),
    _option(
        "--reliability-bands bands",
        "Largest margins, in percent of the number, of reliable numbers and of numbers to use with care.",
        metavar="PERCENT,PERCENT",
    ),
    _option(
        "--sampling-errors",
        "CSV file of labels and std_error of a table: its margins cover noise and sampling error. fitnoise does not "
        "protect it. Repeatable.",
        metavar="TABLE=FILE",
        multiple=True,
    ),
)

# Plan

_add(
    "new",
    """Write a starter specification for these attributes and mark the lines to complete. Reads no data.

    TYPE is categorical (the default), ordered, binned, amount or hierarchy. Comments show further keys, such as rules
    about impossible records and public totals. With --example, the argument is a finished specification. --schema and
    --demo take no argument.
    """,
    [
        click.Argument(["names"], metavar="[NAME[=TYPE]...]", nargs=-1),
        _output(
            "New file (default: stdout). With --demo: new directory (default: fitnoise-demo, or the next free name)."
        ),
        _flag("--schema", "Write the JSON Schema of a specification instead."),
        _option(
            "--example",
            "Write N random records of the domain of a specification as CSV instead; all values are independent.",
            type=_Integer(1),
            metavar="N",
        ),
        _flag("--demo is_demo", "Plan, measure, release and verify real public records, as an example."),
    ],
    examples=(
        "fitnoise new sex age=ordered income=amount geo=hierarchy -o spec.toml",
        "fitnoise new spec.toml --example 100 > example.csv",
        "fitnoise new --schema > fitnoise.schema.json",
        "fitnoise new --demo",
    ),
)

_add(
    "plan",
    """Plan the noise of least privacy cost for SPEC (TOML). Reads no data.

    --compare lists the margins that each noise reaches at --epsilon; without it, the epsilon that the targets need. It
    lists the settings of a small database, and the mechanisms of each question. With --free, the targets of SPEC state
    accuracy relative to each other. Release such a plan with the same ledger: the spent cost does not rise.
    """,
    [_SPEC, _output("File for the plan; with --compare, for the plan of the best alternative.")],
    modes={
        "": [
            _option("--gap", "Relative gap that the certificate must reach (default: the gap of SPEC).", type=_FLOAT),
            _flag("--refine", "Of plans of least cost, also reduce the cost of all other cells, the costliest first."),
            _option("--device", "PyTorch device for large dense problems (default: the processor).", metavar="cuda"),
            _option(
                "--seconds", "Limit on the search for a pure plan in seconds; the best plan found is used.", type=_FLOAT
            ),
            _file(
                "--plot", "File for a plot of the cost of other margins, and of epsilon against delta (svg, pdf, png)."
            ),
            _option(
                "--max-records bounds",
                "Other bounds on the records of one unit; their costs are printed.",
                metavar="1,2,4",
            ),
        ],
        "compare": [
            _flag("--compare", "Compare Laplace and Gaussian noise for the tables of SPEC."),
            _option(
                "--epsilon", "Epsilon to spend (default: the budget of SPEC, or what the targets need).", type=_FLOAT
            ),
            _option("--delta", "Delta of the Gaussian alternative (default: privacy.delta of SPEC).", type=_FLOAT),
            _flag("--all show_all", "Also try strategies for Laplace noise that other strategies dominate."),
        ],
        "free": [
            _flag("--free", "Plan further tables that do not raise the joint cost of plans on the same records."),
            _file("--composed-with files", "Plan that is measured on the same records; repeatable.", multiple=True),
            _option(
                "--ledger ledger_file",
                "Use every plan that is charged to the account of this ledger instead.",
                type=_LEDGER_PATH,
            ),
        ],
    },
    examples=(
        "fitnoise plan spec.toml -o plan.json",
        "fitnoise plan spec.toml --json | jq .rho",
        "fitnoise plan spec.toml --compare --epsilon 1 --delta 1e-6 -o plan.json",
        "fitnoise plan more.toml --free --composed-with plan.json -o free.json",
        "fitnoise plan more.toml --free --ledger budget.sqlite -o free.json",
    ),
)

# Count and release

_add(
    "release",
    """Charge the ledger, measure PLAN on DATA once, and write the tables.

    DATA is one or more CSV or Parquet files, a pattern or a folder. Folders named column=value give a column. It may be
    a file of DuckDB, SQLite, SPSS, SAS, Stata or Excel (fitnoise[statistics]), or counts from `fitnoise count`.

    DATA may also be the URL of a database without a password, spark:TABLE, or env:NAME for a variable with the URL.

    If the command ends after the charge, the same command finishes the release at no further charge.
    """,
    [
        _PLAN,
        _DATA,
        _ledger("Ledger that is charged before noise is drawn. A missing one is made, without a cap."),
        _output("New directory for the release.", required=True),
        _DATA_TABLE,
        _option(
            "--key keys",
            "Private key for sealed counts: its file, or env:NAME; repeatable, for counts of older keys.",
            metavar="KEY",
            multiple=True,
        ),
        _flag("--group-readable-key", "Accept the file of a private key that its group can read."),
        _option(
            "--tables names", "Table to write as a file; repeatable (default: all).", metavar="NAME", multiple=True
        ),
        _flag("--no-tables", "Write no table files; `fitnoise tables` rebuilds each table."),
        _option("--period", "Period of a series to draw: the next one. Only its records of DATA are counted."),
        _file("--series", _FROZEN_COUNTS),
        _flag("--again", "Measure a released plan a second time, for a second charge to the same ledger."),
        _file("--supersedes", "Earlier release that this one corrects; it stays as it is. Needs --reason."),
        _option("--reason", "Reason of the correction; published without noise, so name nothing from the data."),
        _file("--public", "CSV file of the public totals of PLAN: its attributes, and the column number."),
        _option("--public-confirm", "Sentence that confirms this file; the command prints it if it is missing."),
        _option(
            "--expect-head",
            "Head of the ledger that `fitnoise ledger head` printed, or a file with it: refuse a ledger that lacks it.",
            metavar="HEAD|FILE",
        ),
        _CHARGED_SHARE,
        _file(
            "--propose proposal",
            "Write a proposal for a second person to this new file. Nothing is charged, and no data are opened.",
        ),
        _file("--approve", "Release this proposal of another person, which is charged once."),
        _option("--by", "Name of the person who proposes or approves (default: the user). It is not authenticated."),
    ],
    examples=(
        "fitnoise release plan.json people.parquet --ledger budget.sqlite -o release/",
        "fitnoise release plan.json lake/ --ledger budget.sqlite -o release/ --no-tables",
        "fitnoise release plan.json env:CENSUS_URL --table census.people --ledger budget.sqlite -o release/",
        "fitnoise release plan.json spark:census.people --ledger budget.sqlite -o release/",
        "fitnoise release plan.json people.parquet --ledger env:LEDGER_URL -o release/",
        'fitnoise release plan.json new.csv --ledger budget.sqlite -o new/ --supersedes old/ --reason "new weights"',
        "fitnoise release plan.json people.csv --ledger budget.sqlite -o release/ --propose proposal.json --by ada",
        "fitnoise release plan.json people.csv --ledger budget.sqlite -o release/ --approve proposal.json --by ben",
        "fitnoise release plan.json march.csv --period 2026-03 --series state/ --ledger budget.sqlite -o 2026-03/",
    ),
)

_add(
    "count",
    """Count the records of DATA for PLAN, to release them on another machine. Nothing is charged.

    The file has exact counts and is as confidential as the data. `fitnoise release` accepts it instead of DATA, any
    number of times, and charges every release. No count of a table is printed, but the number of dropped records is.
    DATA has the forms of `fitnoise release`. `fitnoise count keys` makes the keys.
    """,
    [
        _PLAN,
        _DATA,
        _option(
            "--public-key public_keys",
            "Public key for which the counts are sealed: its file, or env:NAME; repeatable.",
            metavar="KEY",
            multiple=True,
        ),
        _flag("--unsealed", "Write the counts unsealed: every reader of the file sees exact counts."),
        _output("File for the counts.", required=True),
        _DATA_TABLE,
    ],
    examples=(
        "fitnoise count plan.json spark:census.people --public-key releaser.key.pub -o counts.sealed",
        "fitnoise release plan.json counts.sealed --key releaser.key --ledger budget.sqlite -o release/",
    ),
)

_add(
    "count keys",
    """Make a pair of keys for `fitnoise count`: the private key in FILE, the public key in FILE.pub.

    Keep FILE on the machine that makes releases; only its owner may read it. Copy FILE.pub to the data.
    """,
    [
        click.Argument(["file"], type=_FILE),
        _flag("--protect", "Protect FILE by a passphrase: FITNOISE_PASSPHRASE, or the one that the command asks for."),
    ],
    examples=("fitnoise count keys releaser.key", "fitnoise count keys releaser.key --protect"),
)

_group(
    "series",
    "List the periods of a series, or write the release of a drawn period again.",
    "fitnoise series status plan.json --series state/ --ledger budget.sqlite --json",
)

_add(
    "series status",
    "List the periods of the series of PLAN: the time of each draw, and the cost of a second draw.",
    [_PLAN, _SERIES, _PERIODS_LEDGER],
    examples=("fitnoise series status plan.json --series state/ --ledger budget.sqlite",),
)

_add(
    "series write",
    """Write the release of a drawn period, for example if a process was killed before it wrote it. Reads no data.

    If the noisy answers are lost, --redraw draws noise for the frozen counts, at the cost that `series status` prints.
    """,
    [
        _PLAN,
        _option("--period", "Period that was drawn.", required=True),
        _SERIES,
        _PERIODS_LEDGER,
        _output("New directory for the release.", required=True),
        _flag("--redraw", "The answers are lost: draw the period again, at the cost that `status` prints."),
        _option("--share", "Share of the cap that --redraw charges (default: the one charged for the series)."),
    ],
    examples=("fitnoise series write plan.json --period 2026-03 --series state/ --ledger budget.sqlite -o 2026-03/",),
)

# Read a release

_add(
    "tables",
    """List the tables and finite answers of RELEASE, or print a table as CSV.

    Each table is rebuilt from the noisy answers. `fitnoise write tables` writes tables as files.
    """,
    [
        _RELEASE,
        click.Argument(["names"], metavar="[NAME]...", nargs=-1),
        _flag("--all show_all", "List the tables of a pattern one by one."),
    ],
    examples=(
        "fitnoise tables release/",
        'fitnoise tables release/ "state by status" > state_by_status.csv',
    ),
)

_add(
    "ask",
    """Compute EXPRESSION from RELEASE: counts, sums, differences, shares, rates and growth, with their intervals.

    EXPRESSION has count(...), sum(...), mean(...), median(...), minimum(...), maximum(...), quantile(...), numbers and
    + - * /, in the grammar of Python. Along a name of --by it may have change(..., "month"), average(..., "month", 3)
    and to_date(..., "month") of counts. fitnoise finds the tables that answer it.
    """,
    [
        _RELEASE,
        click.Argument(["expression"]),
        _option(
            "--by", "Attribute or level by which the result is broken down; repeatable.", metavar="NAME", multiple=True
        ),
        _file(
            "--areas",
            "CSV file of areas, such as school districts: each row has the name of an area and the code of a place.",
        ),
        _file("--other", "Another release, called `other` in the expression."),
        _file(
            "--sampling-errors",
            "CSV file of labels and std_error: intervals cover noise and sampling error. fitnoise does not protect it.",
        ),
        _option(
            "--reliability-bands bands",
            "With --sampling-errors: largest margins, in percent, of reliable numbers and of numbers to use with care.",
            metavar="PERCENT,PERCENT",
        ),
        _flag("--simultaneous", "Widen the intervals so that all of them hold at once."),
        _flag("--csv as_csv", "Print the result as CSV, with all digits."),
    ],
    examples=(
        """fitnoise ask release/ 'count(status="joint") / count()' --by state""",
        """fitnoise ask release/ '1000 * count(age=(0, 17)) / 81300' --csv""",
        """fitnoise ask release/ 'count(sex="f")' --areas districts.csv""",
        """fitnoise ask release/ 'total("weight")' --by region --sampling-errors se.csv --reliability-bands 10,30""",
        """fitnoise ask release/ 'other.count() / count() - 1' --by state --other later/ --simultaneous""",
        """fitnoise ask 2026-03/ 'change(count(), "month", 12)' --by month --csv""",
    ),
    kind=_Ask,
)

_add(
    "verify",
    """Recompute every claim of a plan file or a release directory.

    An option names a file or folder that was made from the release: the command checks it too. It checks every
    --report and every --export.
    """,
    [
        click.Argument(["path"], type=_FILE),
        _option("--ledger ledger_file", "Ledger: check that the release was charged to it.", type=_LEDGER_PATH),
        _file(
            "--report reports", "Report: check that it is the report of PATH, byte for byte; repeatable.", multiple=True
        ),
        *_DERIVED,
        _file(
            "--export exports",
            "Workbook, LaTeX file or data package: check it by its manifest; repeatable.",
            multiple=True,
        ),
        _file("--microdata microdata_file", "File of records made from --integers: count its tables again."),
    ],
    examples=(
        "fitnoise verify release/",
        "fitnoise verify release/ --ledger budget.sqlite",
        "fitnoise verify release/ --combination combined/ --with-release later/",
        "fitnoise verify release/ --integers integers/ --report integers.html",
        "fitnoise verify release/ --export tables.xlsx --export package --report report.html",
        "fitnoise verify release/ --integers integers/ --microdata people.parquet",
        "fitnoise verify plan.json --json",
    ),
)

# Make tables from releases, and files for others

_add(
    "integers",
    """Make tables of nonnegative integers that add up from the tables of RELEASE: the named ones, or all.

    Integer tables are biased. Each number comes with its simulated bias and an interval. RELEASE does not change.
    With --with-release, the name of each release's folder is put before the names of its tables.
    """,
    [
        _RELEASE,
        click.Argument(["names"], metavar="[NAME]...", nargs=-1),
        _file("--with-release", "Another release, for rules between its tables; repeatable.", multiple=True),
        _option(
            "--at-most",
            "Rule that no number of a table is larger than a multiple of another table's; repeatable.",
            metavar="RULE",
            multiple=True,
        ),
        _output("New folder for the integer tables, or a report or tables (.html, .xlsx, .tex).", required=True),
        _option(
            "--simulations",
            "Number of simulations for bias and error (default: 200, or 20 for more than 20,000 numbers).",
            type=_Integer(0),
        ),
    ],
    examples=(
        "fitnoise integers release/ -o integers/",
        'fitnoise integers release/ "state by status" "state by wages" -o integers/ --simulations 1000',
        "fitnoise verify release/ --integers integers/",
        "fitnoise integers homes/ --with-release people/ --at-most 'homes: block <= people: block' -o integers/",
    ),
)

_add(
    "combine",
    """Combine releases of the same records, or use rules, for estimates of least variance. Nothing is charged.

    Several releases need --same-records. Releases of different records cannot be combined; compare them with
    `fitnoise ask --other`. With --impossible, one release is enough: the estimates use rules. They are right only if
    no record in an impossible cell was counted.
    """,
    [
        click.Argument(["directories"], metavar="RELEASE [OTHER]...", type=_FILE, nargs=-1, required=True),
        _flag("--same-records", "State that all releases have exactly the same records; fitnoise cannot check this."),
        _file("--impossible rules", "TOML file of [[impossible]] rules: values that no record has together."),
        _output("New folder for the combination, or a report or tables (.html, .xlsx, .tex)."),
        _option("--table name", "Table to print as CSV on stdout."),
    ],
    examples=(
        "fitnoise combine release/ later/ --same-records",
        "fitnoise combine release/ later/ --same-records -o combined/",
        "fitnoise combine release/ later/ --same-records -o combined.html",
        'fitnoise combine release/ later/ --same-records --table "state by status"',
        "fitnoise combine release/ --impossible rules.toml -o given/",
    ),
)

_group(
    "write",
    """Write a release for other people and programs: a report, an export, tables, microdata or a registry entry.

    A report or an export shows the tables of --integers or --combination instead. Microdata are made of --integers.
    """,
    "fitnoise write report release/ -o report.html",
)

_add(
    "write report",
    """Write a report of a release or a plan: one HTML file without scripts (fitnoise[report]).

    With --integers or --combination, the report shows the tables of that folder instead.
    """,
    [
        click.Argument(["path"], type=_FILE),
        _output("File for the report (.html).", required=True),
        *_DERIVED,
        *_APPEARANCE,
        _NAMES,
    ],
    examples=(
        "fitnoise write report release/ -o report.html",
        "fitnoise write report release/ -o bericht.html --language de --totals --reliability-bands 10,30",
        "fitnoise write report plan.json -o plan.html",
        "fitnoise write report release/ --integers integers/ -o integers.html",
        'fitnoise write report release/ -o r.html --sampling-errors "region by sex=se.csv" --reliability-bands 10,30',
    ),
)

_add(
    "write export",
    """Write tables of RELEASE as a workbook (.xlsx), as LaTeX (.tex), or as a data package (a folder).

    A data package has CSV files and a datapackage.json that defines their columns. It is in the language of the
    publication, without totals: --language and --totals are for workbooks and LaTeX, --licence and --sdmx for packages.
    With --integers or --combination, the tables of that folder are written instead.
    """,
    [
        _RELEASE,
        _output("File in .xlsx or .tex, or a new folder for a data package.", required=True),
        *_DERIVED,
        *_APPEARANCE,
        _option("--licence", "Licence of the data package, such as CC-BY-4.0 (default: that of the metadata)."),
        _flag("--sdmx", "Add structure and numbers in SDMX to the data package (fitnoise[sdmx])."),
        _NAMES,
    ],
    examples=(
        "fitnoise write export release/ -o tables.xlsx --totals",
        "fitnoise write export release/ -o tables.tex --language de",
        "fitnoise write export release/ -o package --licence CC-BY-4.0",
        "fitnoise write export release/ --integers integers/ -o integers_package",
    ),
)

_add(
    "write tables",
    "Write tables of RELEASE as CSV files, each rebuilt from the noisy answers.",
    [
        _RELEASE,
        _output("Folder for the CSV files.", required=True),
        _option("--by level", "Level of a hierarchy: write one file for each of its places.", metavar="LEVEL"),
        _NAMES,
    ],
    examples=(
        'fitnoise write tables release/ --table "state by status" --table "state by wages" -o chosen/',
        'fitnoise write tables release/ --table "county by sex" --by state -o states/',
    ),
)

_add(
    "write covariances",
    """Write the covariances of the numbers of each table of RELEASE, for programs without fitnoise, such as R.

    They follow from the plan, and give sums and shares of a table's numbers their exact errors. Without --table,
    covariances.json lists the tables left out: those of means, and those with more than 262,144 different covariances.
    """,
    [_RELEASE, _output("New folder for the files.", required=True), _NAMES],
    examples=(
        "fitnoise write covariances release/ -o covariances/",
        'fitnoise write covariances release/ --table "state by status" -o covariances/',
    ),
)

_add(
    "write microdata",
    """Invent records whose tables are close to integer tables of RELEASE. Costs no privacy.

    No other statistic of the records is known to be accurate. NAME.microdata.json is written next to the file: a
    warning, the distance of every table, and the number of batches.
    """,
    [
        _RELEASE,
        _file("--integers integers_folder", "Folder of integer tables made from the release.", required=True),
        _output("File for the records (.parquet or .csv).", required=True),
        _option("--seconds", "Time limit of the search.", type=_FLOAT, default=60.0, show_default=True),
        _option(
            "--batches",
            "Number of batches of the search, in place of the time limit; an equal number gives equal records.",
            type=_Integer(0),
        ),
        _flag(
            "--anyway", "Write the records even if more than 5 % of the numbers are over one margin from the tables."
        ),
    ],
    examples=(
        "fitnoise write microdata release/ --integers integers/ -o people.parquet",
        "fitnoise write microdata release/ --integers integers/ -o people.csv --batches 20000",
        "fitnoise verify release/ --integers integers/ --microdata people.parquet",
    ),
)

_add(
    "write record",
    """Write the entry of RELEASE for the registry of deployments of differential privacy, as YAML.

    The table [record] of --record-text gives the statements that no other file has. Missing statements are marked "to
    be filled".
    """,
    [
        _RELEASE,
        _file("--record-text", "TOML file with a table [record], such as the specification."),
        _output("File for the record (default: stdout)."),
    ],
    examples=(
        "fitnoise write record release/ -o record.yaml",
        "fitnoise write record release/ --record-text spec.toml -o record.yaml",
    ),
)

# Ledger

_LEDGER_FILE = click.Argument(["file"], metavar="[LEDGER]", type=_LEDGER_PATH, required=False, callback=_choose_ledger)

_CAP = (
    _option("--rho", "Cap on the total rho of the account (0.05, or a fraction: 1/20).", callback=_exact_rho),
    _option("--epsilon", "Cap on the total pure epsilon instead; only pure plans then fit.", callback=_exact_rho),
    _option(
        "--mu", "Cap on the total mu instead; all releases jointly keep the curve of this mu.", callback=_exact_rho
    ),
    _option("--reason", "Reason for the cap; the ledger stores it."),
    _option(
        "--share share_texts",
        "Cap of a share of the account, in the measure of the account's cap; repeatable. Each release then names a "
        "share.",
        metavar="NAME=CAP",
        multiple=True,
    ),
    _option(
        "--approval",
        "With a cap: whether each charge needs a second person from now on (fitnoise release --approve).",
        type=click.Choice(["required", "none"]),
    ),
)

_UNIT = _option(
    "--unit",
    "Unit of the account, as the ledger prints it, or its digits in brackets (default: the only unit, or the unit of "
    "--plan).",
)

_group(
    "ledger",
    """Show a ledger, set caps, open accounts, and check the chain of entries.

    Without FILE, the ledger is that of FITNOISE_LEDGER, in FITNOISE_HOME if this is set and the path is relative.
    """,
    "fitnoise ledger show budget.sqlite",
)

_add(
    "ledger show",
    "Print the balance and the entries of a ledger. fitnoise checks the chain of entries first.",
    [
        _LEDGER_FILE,
        _file(
            "--plan plan_files",
            "Plan: also print the number of its releases that fit its account. Repeatable: of several plans, the "
            "charges are added up, and nothing is charged.",
            multiple=True,
        ),
        _option(
            "--delta",
            "Delta at which the epsilon of all releases of each account is printed; valid for plans fixed in advance.",
            type=_FLOAT,
        ),
        _file("--plot", "File for a plot of that epsilon against delta (svg, pdf, png); default of --delta: 1e-6."),
        _option("--share", "Share of the cap, to which --plan is charged."),
    ],
    examples=(
        "fitnoise ledger show budget.sqlite",
        "fitnoise ledger show budget.sqlite --plan plan.json",
        "fitnoise ledger show budget.sqlite --plan first.json --plan second.json",
    ),
)

_add(
    "ledger cap",
    """Set the cap of an account of a ledger, or the caps of its shares, and print the ledger.

    A share is a part of the cap, for a team. Its releases (`fitnoise release --share`) are charged to the account, too.
    The caps of shares may add up to more than the cap of the account, which holds all the same.
    """,
    [
        _LEDGER_FILE,
        *_CAP,
        _option("--account source", "Name of the account: the data source, or its `account`."),
        _UNIT,
        _file("--plan plan_file", "Plan whose account gets the cap."),
    ],
    examples=(
        "fitnoise ledger cap budget.sqlite --rho 0.1 --plan plan.json",
        "fitnoise ledger cap budget.sqlite --plan plan.json --share health=0.04 --share schools=0.02",
        'fitnoise ledger cap budget.sqlite --rho 0.1 --account people --unit "one record, add-or-remove-one"',
    ),
)

_add(
    "ledger open",
    """Open the account of a plan with a cap, and print the ledger. Without a ledger, the command makes one.

    With --unit, the command opens an account for a further unit of the plan. It prints the cost of the source's earlier
    releases for this unit. If the ledger has the account, use `fitnoise ledger cap`.
    """,
    [_LEDGER_FILE, _file("--plan plan_file", "Plan whose account is opened.", required=True), _UNIT, *_CAP],
    examples=("fitnoise ledger open budget.sqlite --rho 0.1 --plan plan.json",),
)

_add(
    "ledger create",
    """Make an empty ledger in a database of PostgreSQL, as the owner of its tables.

    LEDGER is env:NAME, a variable of the environment with the URL, or a URL without a password. Its parameter `schema`
    names the schema (default: fitnoise). A file needs no such command: `fitnoise ledger open` makes it.
    """,
    [
        click.Argument(["address"], metavar="LEDGER", type=_LEDGER_PATH),
        _option("--role", "Role that may read and append entries, and nothing else."),
        _flag("--print is_printed", "Print the SQL, and reach no server."),
    ],
    examples=(
        "fitnoise ledger create env:LEDGER_OWNER_URL --role publisher",
        "fitnoise ledger create postgresql:///budget --role publisher --print",
    ),
)

_add(
    "ledger head",
    """Print number and digest of the last entry, as NUMBER:DIGEST.

    Write it down in another place: `fitnoise ledger verify --head` then detects a ledger that was cut off or replaced.
    """,
    [_LEDGER_FILE],
    examples=("fitnoise ledger head budget.sqlite",),
)

_add(
    "ledger verify",
    "Check the chain of entries of a ledger.",
    [
        _LEDGER_FILE,
        _option("--head", "Head that was written down: also check that the chain has it.", metavar="NUMBER:DIGEST"),
    ],
    examples=("fitnoise ledger verify budget.sqlite",),
)

# Studio

_add(
    "studio",
    """Serve FOLDER as pages for the browser: describe, plan, prove, release and read a publication (fitnoise[studio]).

    The studio listens on 127.0.0.1 only. The command prints the address of a page and opens no browser. Open the page
    yourself, or paste its code: once, within five minutes.
    """,
    [
        click.Argument(["folder"], type=_FILE, default="."),
        _option("--language", "Language: en or de.", default="en", show_default=True),
        _option(
            "--data", "Data outside FOLDER: env:NAME or spark:TABLE; repeatable.", metavar="env:NAME", multiple=True
        ),
    ],
    examples=("fitnoise studio", "fitnoise studio survey/ --language de", "fitnoise studio --data env:URL"),
)


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
    setting = as_events.set(as_json)
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
    finally:
        as_events.reset(setting)


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
        say_line(json.dumps({"event": "error", "error": error}))
    else:
        say(line)
    return exit_code
