"""The command line: plan, compare, free, release, tables, verify, ledger, demo, schema. In the order of life."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from fitnoise import __version__
from fitnoise.errors import FitnoiseError, LedgerError, ReleaseError, SpecError
from fitnoise.interfaces import demo, plots
from fitnoise.interfaces.console import emit_csv, emit_json, progress, say, show, show_document
from fitnoise.interfaces.reports.comparisons import comparison_report, settings_report
from fitnoise.interfaces.reports.ledgers import ledger_report
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import receipt_report, release_report, verification_report
from fitnoise.kernel.ledger import Ledger, ceil_dyadic
from fitnoise.kernel.profiles import Charged
from fitnoise.kernel.units import Account, Privacy, account
from fitnoise.mechanisms.projection import planning as projection
from fitnoise.planning.choosing import compare, mechanisms_of, with_finite
from fitnoise.planning.choosing import plan as make_plan
from fitnoise.planning.free import free
from fitnoise.planning.plan import Plan
from fitnoise.publishing import release
from fitnoise.reading.files import csv_text, read_text
from fitnoise.reading.release import Release, to_write
from fitnoise.reading.verification import verify
from fitnoise.reporting import Report, Section, Value
from fitnoise.request.documents import exact_number, json_schema, load_spec
from fitnoise.request.publication import Budget, Publication
from fitnoise.request.workloads import slug, some


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
  130  interrupted
"""

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON document on stdout.")

_FILE = click.Path(path_type=Path)


def _exact_rho(_context: click.Context, _option: click.Parameter, text: str | None) -> Fraction | None:
    """The exact number; a usage error otherwise."""
    try:
        return None if text is None else exact_number(text)
    except SpecError as error:
        raise click.BadParameter(f"{error} Nothing was changed.") from None


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


@cli.command(
    "plan", epilog=_example("fitnoise plan spec.toml -o plan.json", "fitnoise plan spec.toml --json | jq .rho")
)
@click.argument("spec", type=_FILE)
@click.option("-o", "--output", type=_FILE, help="Write the plan here.")
@click.option("--gap", type=float, help="Relative gap that must be certified (overrides the specification).")
@click.option(
    "--refine", is_flag=True, help="Among plans of least cost, make all other cells cheaper too, dearest first."
)
@click.option("--device", metavar="NAME", help="PyTorch device for large dense problems, such as cuda.")
@click.option(
    "--plot", type=_FILE, help="Draw what other margins would cost, and epsilon against delta (svg, pdf, png)."
)
@_AS_JSON
def plan_command(
    spec: Path,
    output: Path | None,
    gap: float | None,
    refine: bool,
    device: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Plan the noise for SPEC (TOML). Reads no data."""
    publication = load_spec(spec)
    if gap is not None:
        publication = replace(publication, gap=gap)
    if output is not None:
        _check_replaceable(output)
    if plot is not None:
        plots.check_place(plot)
    with progress("planning") as tell:
        plan = make_plan(
            publication, refine=refine, device=device, progress=lambda i, g: tell(f"step {i}, {_far(publication, g)}")
        )
    if plot is not None:
        with progress("drawing") as tell:
            figure = plots.report_figure(
                plan, progress=lambda k, n, i, g: tell(f"plan {k} of {n}, step {i}, gap {g:.1e}")
            )
            plots.save(figure, plot)
        say(f"wrote {plot}")
    _hand_out(plan, output, as_json)


@cli.command(
    "compare",
    epilog=_example(
        "fitnoise compare spec.toml",
        "fitnoise compare spec.toml --epsilon 1 --delta 1e-6 -o plan.json",
    ),
)
@click.argument("spec", type=_FILE)
@click.option("--epsilon", type=float, help="The epsilon to spend; without it, of the specification, or by targets.")
@click.option("--delta", type=float, help="Of the Gaussian alternative; default that of the specification.")
@click.option("-o", "--output", type=_FILE, help="Write the plan of the best alternative here.")
@_AS_JSON
def compare_command(spec: Path, epsilon: float | None, delta: float | None, output: Path | None, as_json: bool) -> None:
    """Compare pure and Gaussian noise, and every family of strategies, for the tables of SPEC. Reads no data.

    For each question with finitely many answers, the mechanisms that there are. For a small database, what settings of
    the projection mechanism were simulated, and on which public histograms.

    With an epsilon, by the margins it buys: pure, or with a delta. Without one, by the epsilon that the targets need.
    """
    given = load_spec(spec)
    if output is not None:
        _check_replaceable(output)
    if given.small is not None:
        if epsilon is not None or delta is not None:
            raise click.UsageError("a small database is compared at the budget of its specification; change it there.")
        _compare_settings(given, output, as_json)
        return
    publication = _either(given, epsilon, delta)
    at = publication.delta if publication.budget is None or not publication.budget.delta else publication.budget.delta
    with progress("planning") as tell:
        found = compare(publication, progress=lambda i, g: tell(f"step {i}, {_far(publication, g)}"))
    if output is not None:
        _write_whole(output, found.plan.to_json())
        say(f"wrote {output}")
    _tell(comparison_report(publication, found, at).adding(_file(output)), as_json)


def _compare_settings(publication: Publication, output: Path | None, as_json: bool) -> None:
    """Every index and temperature that was simulated for a small database."""
    with progress("planning") as tell:
        tables = replace(publication, finite=())
        chosen = projection.choose(tables, progress=lambda i, _: tell(f"stage {i} of 4"))
        answers = mechanisms_of(publication)
    made = with_finite(chosen.plan, answers, publication)
    if output is not None:
        _write_whole(output, made.to_json())
        say(f"wrote {output}")
    _tell(settings_report(made, chosen.choice, answers), as_json)


def _either(publication: Publication, epsilon: float | None, delta: float | None) -> Publication:
    """The same, whichever noise keeps it: an epsilon is pure or at delta. A delta given is that of all of them."""
    at = publication.delta if delta is None else delta

    def limit(b: Budget | None) -> Budget | None:
        if b is None or b.epsilon is None:
            return b
        return Budget(epsilon=float(b.epsilon), delta=at if delta is not None or b.delta is None else b.delta)

    budget, cap = limit(publication.budget), limit(publication.cap)
    if epsilon is not None:
        budget, cap = Budget(epsilon=epsilon, delta=at), None
    return replace(publication, privacy=Privacy.AUTO, gap=None, delta=at, budget=budget, cap=cap)


def _far(publication: Publication, x: float) -> str:
    """How far a search is, in words."""
    return f"gap {x:.1e}" if publication.privacy is Privacy.ZCDP else f"reached {x:.4g}"


@cli.command(
    "free",
    epilog=_example(
        "fitnoise free more.toml --beside plan.json -o free.json",
        "fitnoise free more.toml --ledger budget.sqlite -o free.json",
    ),
)
@click.argument("spec", type=_FILE)
@click.option("--beside", "files", type=_FILE, multiple=True, help="A plan measured on the same records; repeatable.")
@click.option("--ledger", "ledger_file", type=_FILE, help="Every plan charged to the account, instead.")
@click.option("-o", "--output", type=_FILE, help="Write the plan here.")
@_AS_JSON
def free_command(
    spec: Path, files: tuple[Path, ...], ledger_file: Path | None, output: Path | None, as_json: bool
) -> None:
    """Plan the most accurate further tables that cost nothing beside plans on the same records. Reads no data.

    The targets of SPEC say how accurate its tables are relative to each other. Release the plan with the same ledger:
    what is spent does not rise.
    """
    if bool(files) == (ledger_file is not None):
        raise click.UsageError(
            "give the plans (--beside) or the ledger they were charged to (--ledger), one of the two."
        )
    publication = load_spec(spec)
    beside: list[Plan | Charged]
    if ledger_file is None:
        beside = [Plan.from_json(read_text(f)) for f in files]
    else:
        if not ledger_file.exists():
            raise LedgerError(f"there is no ledger {ledger_file.name!r}. Nothing was planned.")
        with Ledger(ledger_file) as ledger:
            beside = [*ledger.charged(account(publication.source, publication.unit))]
    if output is not None:
        _check_replaceable(output)
    with progress("planning") as tell:
        plan = free(publication, beside, progress=lambda i, g: tell(f"step {i}, gap {g:.1e}"))
    _hand_out(plan, output, as_json)


@cli.command(
    "release",
    epilog=_example(
        "fitnoise release plan.json people.parquet --ledger budget.sqlite -o release/",
        "fitnoise release plan.json people.parquet --ledger budget.sqlite -o release/ --no-tables",
    ),
)
@click.argument("plan_file", metavar="PLAN", type=_FILE)
@click.argument("data", type=_FILE)
@click.option("--ledger", "ledger_file", type=_FILE, required=True, help="Charged before any noise is drawn.")
@click.option("-o", "--output", type=_FILE, required=True, help="The release directory to make.")
@click.option("--table", help="Table of a DuckDB file.")
@click.option(
    "--tables", "names", metavar="NAME", multiple=True, help="Write a file for this table; repeatable; default all."
)
@click.option("--no-tables", is_flag=True, help="Write a file for none; `fitnoise tables` rebuilds each.")
@_AS_JSON
def release_command(
    plan_file: Path,
    data: Path,
    ledger_file: Path,
    output: Path,
    table: str | None,
    names: tuple[str, ...],
    no_tables: bool,
    as_json: bool,
) -> None:
    """Measure PLAN on DATA (CSV, Parquet or DuckDB), once, and write the tables.

    Every table can be rebuilt from the release, also those without a file (`fitnoise tables`).
    """
    if names and no_tables:
        raise click.UsageError(
            "--tables names tables that get a file, --no-tables says none does. Nothing was measured."
        )
    chosen = names if names or no_tables else None
    plan = Plan.from_json(read_text(plan_file))
    price = ceil_dyadic(plan.exact_rho)
    before = _spent(ledger_file, plan.order.account) if plan.publication.beside else None
    with progress("releasing") as tell:
        done = release(plan, data, ledger=ledger_file, directory=output, tables=chosen, table=table, progress=tell)
    with Ledger(ledger_file) as ledger:
        balance = ledger.balance(plan.order.account)
    rise = price if before is None else balance.spent - before
    say(f"wrote {output}")
    answers = done.finite.values() if plan.finite else ()
    _tell(receipt_report(plan, answers, output, to_write(plan, chosen), rise, balance), as_json)


@cli.command(
    "tables",
    epilog=_example(
        "fitnoise tables release/",
        'fitnoise tables release/ "state by status" > state_by_status.csv',
        'fitnoise tables release/ "state by status" "state by wages" -o chosen/',
    ),
)
@click.argument("directory", metavar="RELEASE", type=_FILE)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-o", "--output", type=_FILE, help="Write the tables named into this folder, as CSV files.")
@click.option("--all", "every", is_flag=True, help="List the tables of a pattern one by one.")
@_AS_JSON
def tables_command(directory: Path, names: tuple[str, ...], output: Path | None, every: bool, as_json: bool) -> None:
    """List the tables and finite answers of RELEASE, or print a table as CSV.

    Each table is rebuilt from the noisy answers.
    """
    if output is not None and not names:
        raise click.UsageError("-o writes the tables that are named; name one or more. Nothing was written.")
    if every and names:
        raise click.UsageError("--all lists all tables, and takes no names. Nothing was written.")
    if len(names) > 1 and output is None and not as_json:
        raise click.UsageError("several tables are not one CSV file: give a folder (-o), or --json.")
    with progress("rebuilding"):
        result = Release.read(directory)
        _check_names(result, names)
        files = [] if output is None else _write_tables(result, names, output, directory)
    if output is not None:
        for file in files:
            say(f"wrote {output / file}")
        if as_json:
            emit_json({"plan": result.plan.hash, "directory": str(output), "files": files})
    elif not names:
        _tell(release_report(result, every=every), as_json)
    elif as_json:
        emit_json({"plan": result.plan.hash, "tables": [_table_document(result, name) for name in names]})
    else:
        emit_csv(csv_text(result[names[0]]))


@cli.command("verify", epilog=_example("fitnoise verify release/", "fitnoise verify plan.json --json"))
@click.argument("path", type=_FILE)
@_AS_JSON
@click.pass_context
def verify_command(context: click.Context, path: Path, as_json: bool) -> None:
    """Recompute everything a plan file or a release directory claims."""
    with progress("verifying"):
        checked = verify(path)
    _tell(verification_report(checked), as_json)
    if not checked.ok:
        say("at least one claim does not hold")
        context.exit(ReleaseError.exit_code)


@cli.command(
    "ledger",
    epilog=_example(
        "fitnoise ledger budget.sqlite",
        'fitnoise ledger budget.sqlite --cap 0.1 --source people --unit "one record, add-or-remove-one"',
    ),
)
@click.argument("file", type=_FILE)
@click.option(
    "--cap", callback=_exact_rho, help="Set the total rho allowed for one account (0.05, or a fraction: 1/20)."
)
@click.option(
    "--epsilon-cap", callback=_exact_rho, help="Set the total pure epsilon allowed instead: only pure plans then fit."
)
@click.option("--source", help="The account's data source, with --cap.")
@click.option("--unit", help="The account's privacy unit, with --cap; default the unit of the source's charges.")
@click.option("--reason", help="Why the cap is set; kept in the ledger.")
@_AS_JSON
def ledger_command(
    file: Path,
    cap: Fraction | None,
    epsilon_cap: Fraction | None,
    source: str | None,
    unit: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Show the balance and the entries of a ledger, or set a cap. The chain of entries is checked first."""
    if cap is not None and epsilon_cap is not None:
        raise click.UsageError("a cap is one on rho (--cap) or on pure epsilon (--epsilon-cap). Nothing was changed.")
    if cap is not None or epsilon_cap is not None:
        _set_cap(file, cap, epsilon_cap, source, unit, reason or "")
    elif source is not None or unit is not None or reason is not None:
        raise click.UsageError("--source, --unit and --reason say what a --cap is for; give one. Nothing was changed.")
    elif not file.exists():
        raise LedgerError(f"there is no ledger {file.name!r}; a release or --cap makes one. Nothing was changed.")
    with progress("checking the chain"), Ledger(file) as ledger:
        count = ledger.verify()
        balances = [ledger.balance(a) for a in ledger.accounts()]
        entries = ledger.entries()
        head = ledger.head()
    _tell(ledger_report(entries, balances, head), as_json)
    if not as_json:
        said = f"{count} {'entry' if count == 1 else 'entries'}"
        say(f"{said}, chain unbroken, head {head[1][:12] if count else 'empty'}")


@cli.command("demo", epilog=_example("fitnoise demo"))
@click.option("-o", "--output", type=_FILE, help="Directory to make; default fitnoise-demo, or the next free one.")
@_AS_JSON
def demo_command(output: Path | None, as_json: bool) -> None:
    """Run the whole path on real public records: plan, measure, release, verify."""
    document = demo.run(output, as_json=as_json)
    if as_json:
        emit_json(document)


@cli.command("schema", epilog=_example("fitnoise schema > fitnoise.schema.json"))
@_AS_JSON
def schema_command(as_json: bool) -> None:  # accepted like everywhere; the schema is JSON already
    """Print the JSON Schema of a specification."""
    emit_json(json_schema())


def _hand_out(plan: Plan, output: Path | None, as_json: bool) -> None:
    """Write a plan, and show it."""
    if output is not None:
        _write_whole(output, plan.to_json())
        say(f"wrote {output}")
    _tell(plan_report(plan).adding(_file(output)), as_json)


def _tell(report: Report, as_json: bool) -> None:
    """Show a report to people or to programs."""
    (show_document if as_json else show)(report)


def _file(output: Path | None) -> Section:
    """Where a plan was written."""
    return Section("", values=(Value("plan", None if output is None else str(output)),))


def _check_names(result: Release, names: Sequence[str]) -> None:
    known = result.plan.publication.workload.tables
    for i, name in enumerate(names):
        if name not in result:
            raise ReleaseError(f"no table {name!r}; the release has {some(known.names)}. Nothing was written.")
        if name in names[:i]:
            raise ReleaseError(f"table {name!r} is named twice. Nothing was written.")


def _table_document(result: Release, name: str) -> dict[str, Any]:
    """One table, its numbers in full."""
    w, frame = result.plan.publication.workload, result[name]
    confidence = w[name].target.level(w.confidence)
    return {"name": name, "confidence": confidence, "rows": frame.to_dict("records")}


def _write_tables(result: Release, names: Sequence[str], folder: Path, directory: Path) -> list[str]:
    """Write tables as CSV files, all or none; over no other file, and not into the release itself."""
    if directory.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise ReleaseError("a release is never changed: choose a folder outside of it. Nothing was written.")
    files = [f"{slug(name)}.csv" for name in names]
    try:
        with contextlib.ExitStack() as undo:
            if not folder.exists():
                folder.mkdir(parents=True)
                undo.callback(folder.rmdir)
            for name, file in zip(names, files, strict=True):
                with (folder / file).open("x", encoding="utf-8", newline="") as stream:
                    undo.callback((folder / file).unlink)
                    stream.write(csv_text(result[name]))
            undo.pop_all()
    except FileExistsError as error:
        taken = Path(error.filename).name
        raise ReleaseError(f"{taken!r} exists already; tables are never overwritten. Nothing was written.") from None
    except OSError as error:
        raise ReleaseError(f"{folder.name!r} cannot be written ({error.strerror}). Nothing was written.") from None
    return files


def _spent(file: Path, of: Account) -> Fraction:
    """What an account has spent; nothing where there is no ledger yet."""
    if not file.exists():
        return Fraction(0)
    with Ledger(file) as ledger:
        return ledger.balance(of).spent


def _set_cap(
    file: Path, cap: Fraction | None, epsilon: Fraction | None, source: str | None, unit: str | None, reason: str
) -> None:
    if source is None:
        raise click.UsageError("a cap needs --source, the data source it is for. Nothing was changed.")
    if unit is None and not file.exists():
        raise click.UsageError("a cap needs --unit: a new ledger knows no privacy unit. Nothing was changed.")
    with Ledger(file) as ledger:
        if unit is None:
            units = sorted({a.unit for a in ledger.accounts() if a.source == source})
            if len(units) != 1:
                raise click.UsageError(
                    f"a cap needs --unit: the ledger knows {len(units)} privacy units for {source!r}. "
                    "Nothing was changed."
                )
            unit = units[0]
        ledger.set_cap(Account(source, unit), cap, epsilon=epsilon, reason=reason)


def _check_replaceable(path: Path) -> None:
    """Refuse to write over a file that is not a plan, or where nothing can be written."""
    if path.exists() and (not path.is_file() or '"fitnoise_plan"' not in read_text(path)[:64]):
        raise ReleaseError(f"{path.name!r} exists and is not a plan; choose another name. Nothing was written.")
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise ReleaseError(f"{path.name!r} cannot be written: there is no folder {path.parent.name!r} to write to.")


def _write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there."""
    stage = path.with_name(f".{path.name}.unfinished-{os.getpid()}")
    try:
        stage.write_text(text, encoding="utf-8", newline="")
        stage.replace(path)
    except OSError as error:
        stage.unlink(missing_ok=True)
        raise ReleaseError(f"{path.name!r} cannot be written ({error.strerror}).") from None


def main(arguments: list[str] | None = None) -> None:
    """Run a command; errors become one sentence on stderr and an exit code that means something."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # whoever closed the pipe has seen enough
            say(f"error: the output cannot be written ({error.strerror}).")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter would try again
        code = 1
    if code:
        sys.exit(code)


def _run(arguments: list[str]) -> int:
    try:
        return cli.main(args=arguments, prog_name="fitnoise", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        code, kind, message = error.exit_code, "UsageError", error.format_message()
    except click.Abort:
        code, kind, message = 130, "Interrupted", "interrupted"
        say(message)
    except FitnoiseError as error:
        code, kind, message = error.exit_code, type(error).__name__, str(error)
        say(f"error: {message}")
    if "--json" in arguments:
        emit_json({"error": message, "kind": kind, "exit_code": code})
    return code
