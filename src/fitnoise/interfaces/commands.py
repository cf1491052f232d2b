"""The actions of the commands. `cli` has their options and help, and loads this module when a command runs."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click
import pandas as pd

from fitnoise.errors import DataError, FitnoiseError, LedgerError, ReleaseError, is_interruption
from fitnoise.interfaces import demo, plots
from fitnoise.interfaces.console import (
    emit,
    emit_csv,
    emit_json,
    gap_message,
    json_text,
    progress,
    say,
    show,
    show_document,
    wrote,
)
from fitnoise.interfaces.exports.export import FORMATS, contents, export
from fitnoise.interfaces.exports.export import check_place as check_export_place
from fitnoise.interfaces.exports.manifests import check_export
from fitnoise.interfaces.pages.report import ENDING, same
from fitnoise.interfaces.pages.report import check_place as check_report_place
from fitnoise.interfaces.pages.report import report as write_report
from fitnoise.interfaces.reports.comparisons import answers_report, comparison_report, settings_report
from fitnoise.interfaces.reports.ledgers import (
    accounts_epsilon,
    balance_section,
    charges_sections,
    ledger_report,
    more_section,
    shares_of,
)
from fitnoise.interfaces.reports.plans import bounds_section, plan_report
from fitnoise.interfaces.reports.releases import (
    answer_report,
    approval_section,
    combination_report,
    integers_report,
    microdata_report,
    periods_report,
    proposal_report,
    public_statements,
    receipt_report,
    release_report,
    superseded_section,
    verification_report,
)
from fitnoise.interfaces.streams import as_events
from fitnoise.kernel.counting import Dropped
from fitnoise.kernel.counting.keys import PUBLIC, PrivateKeys, key_id, read_public_key
from fitnoise.kernel.ledger import ChargeGroup, Quote
from fitnoise.kernel.ledger.rules import open_store
from fitnoise.kernel.ledger.sqlite import SqliteStore
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.order import account
from fitnoise.kernel.profiles import ChargedPlan, ceil_dyadic
from fitnoise.kernel.units import Account, Privacy
from fitnoise.ledgers import Ledger, create, exists, is_address
from fitnoise.mechanisms.projection import planning as projection
from fitnoise.messages import COMPLETE_LANGUAGES, Message, Value, ValueKind, check_language, english, map_messages
from fitnoise.planning import what_if
from fitnoise.planning.accounting import Curve, curve
from fitnoise.planning.comparison import assembled, compare, mechanisms_of
from fitnoise.planning.comparison import plan as make_plan
from fitnoise.planning.examples import examples
from fitnoise.planning.files import check_plan_place, read_text, replace_file, unwritable_place
from fitnoise.planning.free_queries import plan_free
from fitnoise.planning.plan import Plan
from fitnoise.proposals import Proposal
from fitnoise.publishing import count, list_periods, missing_ledger, propose, release, write_keys
from fitnoise.publishing import read_period as drawn_period
from fitnoise.reading import registry
from fitnoise.reading.areas import read_areas
from fitnoise.reading.bands import Bands
from fitnoise.reading.combining import Combination, read_combination, records_not_stated, single_release
from fitnoise.reading.covariances import covariance_files
from fitnoise.reading.derived_tables import DerivedTables
from fitnoise.reading.description import condition_messages, shares, statistic, universe, universe_messages
from fitnoise.reading.expressions import ask
from fitnoise.reading.given import load_rules
from fitnoise.reading.integer_tables import IntegerTables, make_integer_tables, read_integer_tables
from fitnoise.reading.labelled_numbers import LabelledNumbers
from fitnoise.reading.microdata import check_limits, make_records, write_records
from fitnoise.reading.microdata import check_place as check_microdata_place
from fitnoise.reading.refusals import UNWRITTEN, existing_place, missing_package, repeated_table, unknown_table
from fitnoise.reading.release import Release, superseded_pairs, to_write
from fitnoise.reading.release_files import (
    check_new_file,
    check_new_folder,
    complete_columns,
    csv_text,
    leftovers,
    new_file,
    write_texts,
)
from fitnoise.reading.verification import EXPORT, REPORT, Check, Verification, checks_of_files, verify
from fitnoise.reporting import Report, Section
from fitnoise.request.attributes import KINDS
from fitnoise.request.documents import exact_number, json_schema, load_spec
from fitnoise.request.publication import Budget, Publication
from fitnoise.request.record import load_words
from fitnoise.request.starter_spec import begun
from fitnoise.request.workloads import slug


def new_command(
    names: Sequence[str], output: Path | None, schema: bool, example: int | None, is_demo: bool, as_json: bool
) -> None:
    """Write a starter specification; with one of the options, the JSON Schema, example records or the demo instead.

    Args:
        names: Attributes as NAME or NAME=TYPE. With `example`, the file of one finished specification; with `schema` or
            `is_demo`, empty.
        output: The new file; None for stdout. For the demo, its new directory; None for the usual name.
        schema: True to write the JSON Schema of a specification.
        example: The number of random records to write as CSV; None for another use.
        is_demo: True to run the demo.
        as_json: True to print a document in place of text.
    """
    uses = {"--schema": schema, "--example": example is not None, "--demo": is_demo}
    options = [option for option, is_chosen in uses.items() if is_chosen]
    if len(options) > 1:
        raise click.UsageError(f"{' and '.join(options)} are both given. Give one of them. {UNWRITTEN}")
    if example is not None and len(names) != 1:
        raise click.UsageError(
            f"--example is given with {len(names)} specifications. It needs one. Give the file of a finished "
            f"specification. {UNWRITTEN}"
        )
    if (schema or is_demo) and names:
        raise click.UsageError(f"{options[0]} is given with names. It needs none. Remove the names. {UNWRITTEN}")
    if not options and not names:
        raise click.UsageError(f"No attribute is named. Name one or more, such as age=ordered. {UNWRITTEN}")
    if is_demo:
        document = demo.run(output, as_json=as_json)
        if as_json:
            emit_json(document)
        return
    if output is not None:
        check_new_file(output)
    if schema:
        _hand_out_text(json_text(json_schema()), json_schema(), output, as_json)
    elif example is not None:
        # Drawn from the declarations alone, so a specification can be tried before any data are read.
        text = examples(load_spec(Path(names[0])), example)
        _hand_out_text(text, {"examples": text}, output, as_json)
    else:
        text = begun(_attribute_types(names))
        message = Message("terminal.wrote.specification", (Value("file", str(output)),))
        _hand_out_text(text, {"specification": text}, output, as_json, message)


def _attribute_types(names: Sequence[str]) -> dict[str, str]:
    """Return the types of attributes that are named as NAME or NAME=TYPE."""
    attributes: dict[str, str] = {}
    for declaration in names:
        name, _, kind = declaration.partition("=")
        if name in attributes or (kind or "categorical") not in KINDS:
            wrong = f"{name!r} is named twice." if name in attributes else f"There is no type {kind!r}."
            raise click.UsageError(
                f"{wrong} Name every attribute once, with one of the types {', '.join(KINDS)}, such as age=ordered. "
                f"{UNWRITTEN}"
            )
        attributes[name] = kind or "categorical"
    return attributes


def _hand_out_text(
    text: str, document: Mapping[str, Any], output: Path | None, as_json: bool, message: Message | None = None
) -> None:
    """Write a text to a file or to stdout; with `as_json` print a document.

    message: The message that names the file; None for the usual one.
    """
    if output is not None:
        replace_file(output, text.encode())
        say(message or wrote(output))
    if as_json:
        emit_json(document)
    elif output is None:
        emit_csv(text)


def plan_command(
    spec: Path,
    output: Path | None,
    gap: float | None,
    refine: bool,
    device: str | None,
    seconds: float | None,
    plot: Path | None,
    bounds: str | None,
    as_json: bool,
) -> None:
    """Make a plan, draw its costs, write it and show it, with the cost of other bounds on request."""
    other_bounds = _numbers(bounds)
    publication = load_spec(spec)
    if gap is not None:
        publication = replace(publication, gap=gap)
    if output is not None:
        _check_replaceable(output)
    if plot is not None:
        plots.check_place(plot)
    with progress(Message("terminal.progress.planning")) as report_progress:
        step_messages = _StepMessages(publication.privacy)
        plan = make_plan(
            publication,
            refine=refine,
            device=device,
            seconds=seconds,
            progress=lambda i, x: report_progress(step_messages.message(i, x)),
        )
    if plot is not None:
        with progress(Message("terminal.progress.drawing")) as report_progress:
            figure = plots.report_figure(plan, progress=lambda *state: report_progress(_sweep_message(*state)))
            plots.save(figure, plot)
        say(wrote(plot))
    sections = [bounds_section(_bounded(publication, other_bounds, refine, device))] if other_bounds else []
    _hand_out(plan, output, as_json, *sections)


def _numbers(text: str | None) -> list[int]:
    """Parse numbers of records that are separated by commas."""
    if text is None:
        return []
    if not re.fullmatch(r"[1-9][0-9]{0,11}(,[1-9][0-9]{0,11})*", text):
        raise click.UsageError(
            f"--max-records is {text!r}. It needs whole numbers from 1 to 10^12, separated by commas. Write them as "
            "1,2,4,8. Nothing was planned."
        )
    return sorted({int(n) for n in text.split(",")})


def _bounded(publication: Publication, sizes: Sequence[int], refine: bool, device: str | None) -> list[Plan]:
    """Return one plan for each requested bound on the records of a unit, without a cap on the cost."""
    plans = []
    with progress(Message("terminal.progress.planning_bounds")) as report_progress:
        for max_records in sizes:
            bounded = what_if.bound_records(publication, max_records)
            report_progress(Message("terminal.stage.bound", (Value("max_records", max_records),)))
            plans.append(make_plan(bounded, refine=refine, device=device))
    return plans


def plan_compare_command(
    spec: Path, epsilon: float | None, delta: float | None, show_all: bool, output: Path | None, as_json: bool
) -> None:
    """Plan with every kind of noise, and show them in a table."""
    specified = load_spec(spec)
    if output is not None:
        _check_replaceable(output)
    if not specified.groups:
        if epsilon is not None or delta is not None:
            raise click.UsageError(
                "--epsilon or --delta is given, and each question has its own epsilon. Change it in the specification. "
                "Nothing was planned."
            )
        _compare_answers(specified, output, as_json)
        return
    if specified.small_database is not None:
        if epsilon is not None or delta is not None:
            raise click.UsageError(
                "--epsilon or --delta is given, and a small database is compared at the budget of its specification. "
                "Change the budget there. Nothing was planned."
            )
        _compare_settings(specified, output, as_json)
        return
    publication = _with_auto_privacy(specified, epsilon, delta)
    budget = publication.budget
    compared_delta = publication.delta if budget is None or not budget.delta else budget.delta
    with progress(Message("terminal.progress.planning")) as report_progress:
        step_messages = _StepMessages(publication.privacy)
        comparison = compare(
            publication, all_families=show_all, progress=lambda i, x: report_progress(step_messages.message(i, x))
        )
    _write_plan(comparison.plan, output)
    _print_report(comparison_report(publication, comparison, compared_delta).adding(_file(output)), as_json)


def _compare_settings(publication: Publication, output: Path | None, as_json: bool) -> None:
    """Show every index and temperature that was simulated for a small database."""
    with progress(Message("terminal.progress.planning")) as report_progress:
        (tables,) = publication.groups
        chosen = projection.choose(tables, progress=lambda i, _: report_progress(_simulation_message(i)))
        answers = mechanisms_of(publication)
    plan = assembled(publication, [chosen.part], answers)
    _write_plan(plan, output)
    _print_report(settings_report(plan, chosen.setting, chosen.choice, answers), as_json)


def _compare_answers(publication: Publication, output: Path | None, as_json: bool) -> None:
    """Show the mechanisms for a publication that has only questions."""
    answers = mechanisms_of(publication)
    plan = assembled(publication, [], answers)
    _write_plan(plan, output)
    _print_report(answers_report(plan, answers).adding(_file(output)), as_json)


def _with_auto_privacy(publication: Publication, epsilon: float | None, delta: float | None) -> Publication:
    """Return the publication with automatic choice of the noise.

    An `epsilon` becomes the budget, without a cap. A `delta` applies to budget and cap where these state an epsilon.
    """
    given_delta = publication.delta if delta is None else delta

    def limit(b: Budget | None) -> Budget | None:
        if b is None or b.epsilon is None:
            return b
        return Budget(epsilon=float(b.epsilon), delta=given_delta if delta is not None or b.delta is None else b.delta)

    budget, cap = limit(publication.budget), limit(publication.cap)
    if epsilon is not None:
        budget, cap = Budget(epsilon=epsilon, delta=given_delta), None
    return replace(
        publication, privacy=Privacy.AUTO, gap=None, delta=given_delta, budget=budget, cap=cap, mechanism=None
    )


class _StepMessages:
    """The messages of the steps of a search. For pure noise they have the improvement over the first answer."""

    def __init__(self, privacy: Privacy) -> None:
        self._privacy, self._first = privacy, 0.0

    def message(self, step: int, x: float) -> Message:
        """Return the message of a step with the current gap or ε."""
        self._first = self._first or x
        text_ids = {Privacy.ZCDP: "terminal.stage.gap", Privacy.PURE: "terminal.stage.pure"}
        values = (
            Value("step", step),
            Value("gap", x, ValueKind.GAP),
            Value("epsilon", x, ValueKind.PEOPLE),
            Value("reached", x, ValueKind.PEOPLE),
            Value("share", 1 - x / self._first, ValueKind.PROPORTION),
        )
        return Message(text_ids.get(self._privacy, "terminal.stage.reached"), values)


def _sweep_message(plan: int, plans: int, step: int, gap: float) -> Message:
    values = (Value("plan", plan), Value("plans", plans), Value("step", step), Value("gap", gap, ValueKind.GAP))
    return Message("terminal.stage.plan_gap", values)


def _simulation_message(stage: int) -> Message:
    return Message("terminal.stage.simulation", (Value("stage", stage),))


def plan_free_command(
    spec: Path, files: tuple[Path, ...], ledger_file: Path | str | None, output: Path | None, as_json: bool
) -> None:
    """Plan tables that cost nothing in addition to plans, or to all charges of a ledger."""
    if bool(files) == (ledger_file is not None):
        raise click.UsageError(
            "--free needs --composed-with or --ledger, and only one of them. Give the plans (--composed-with), or the "
            "ledger that they were charged to (--ledger). Nothing was planned."
        )
    publication = load_spec(spec)
    composed_with: list[Plan | ChargedPlan]
    if ledger_file is None:
        composed_with = [*map(Plan.load, files)]
    else:
        if not exists(ledger_file):
            raise missing_ledger(ledger_file, "Nothing was planned.")
        with Ledger(ledger_file) as ledger:
            charged_account = account(publication.source, publication.unit, publication.workload.domain.axes)
            composed_with = [*ledger.charged(charged_account)]
    if output is not None:
        _check_replaceable(output)
    with progress(Message("terminal.progress.planning")) as report_progress:
        plan = plan_free(publication, composed_with, progress=lambda i, gap: report_progress(gap_message(i, gap)))
    _hand_out(plan, output, as_json)


PASSPHRASE = "FITNOISE_PASSPHRASE"  # noqa: S105 - the name of a variable, not its value
"""The variable of the environment with the passphrase of private keys."""


def _passphrase(*, is_new: bool = False) -> str | None:
    """Return the passphrase of the environment, or the one that a person types; None away from a terminal."""
    text = os.environ.get(PASSPHRASE)
    # Python has no object for a standard input that is closed.
    if text is not None or as_events.get() or sys.stdin is None or not sys.stdin.isatty():
        return text
    prompt = english(Message("terminal.prompt.passphrase"))
    return str(click.prompt(prompt, hide_input=True, confirmation_prompt=is_new, err=True))


def count_keys_command(file: Path, protect: bool, as_json: bool) -> None:
    """Make a pair of keys."""
    passphrase = _passphrase(is_new=True) if protect else None
    if protect and passphrase is None:
        raise click.UsageError(
            f"--protect is given, and there is no passphrase. Set {PASSPHRASE}, or run the command in a terminal "
            "without --json, which asks for it. No file was written."
        )
    private, public, key = write_keys(file, passphrase)
    values = (Value("private", str(private)), Value("public", str(public)), Value("id", key))
    say(Message("terminal.wrote.keys", values))
    if as_json:
        emit_json({"private": str(private), "public": str(public), "id": key})


def count_command(
    plan_file: Path,
    data: tuple[str, ...],
    public_keys: tuple[str, ...],
    unsealed: bool,
    output: Path,
    table: str | None,
    as_json: bool,
) -> None:
    """Count for a plan; of the counts nothing is shown."""
    plan = Plan.load(plan_file)
    keys = [read_public_key(key) for key in public_keys]  # once: a pipe cannot be read again for the ids
    dropped_records: list[Dropped] = []
    with progress(Message("terminal.progress.counting")) as report_progress:
        count(
            plan,
            _data(data),
            output,
            public_key=[f"{PUBLIC}{key.hex()}".encode() for key in keys],
            unsealed=unsealed,
            table=table,
            progress=report_progress,
            notice=say,
            dropped=partial(_keep_dropped, dropped_records, as_json),
        )
    text_id = "terminal.wrote.unsealed" if unsealed else "terminal.wrote.sealed"
    say(Message(text_id, (Value("file", str(output)),)))
    if as_json:
        ids = {} if unsealed else {"keys": sorted({*map(key_id, keys)})}
        emit_json({"plan": plan.hash, "file": str(output), "sealed": not unsealed, **ids, **_dropped(dropped_records)})


def _keep_dropped(records: list[Dropped], as_json: bool, dropped: Dropped) -> None:
    """Keep the number of dropped records, and print it for people. Programs have it in the document alone."""
    records.append(dropped)
    if not as_json:
        say(str(dropped))


def _dropped(dropped: Sequence[Dropped]) -> dict[str, Any]:
    """Return the number of dropped records, for programs of the operator."""
    return {"dropped": asdict(dropped[0])} if dropped else {}


def _data(sources: tuple[str, ...]) -> str | tuple[str, ...]:
    return sources[0] if len(sources) == 1 else sources


def release_command(
    plan_file: Path,
    data: tuple[str, ...],
    ledger_file: Path | str,
    output: Path,
    table: str | None,
    keys: tuple[str, ...],
    group_readable_key: bool,
    names: tuple[str, ...],
    no_tables: bool,
    period: str | None,
    series: Path | None,
    again: bool,
    supersedes: Path | None,
    reason: str | None,
    public: Path | None,
    public_confirm: str | None,
    expect_head: str | None,
    share: str | None,
    proposal: Path | None,
    approve: Path | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Measure a plan, and show what was written and charged; or write a proposal of this, for a second person."""
    if names and no_tables:
        raise click.UsageError(
            "--tables and --no-tables are both given. Give one of them. Nothing was measured and nothing was charged."
        )
    # An empty tuple writes no tables, None writes all.
    chosen = names if names or no_tables else None
    if proposal is not None and approve is not None:
        raise click.UsageError(
            "--propose and --approve are both given. One person proposes, and another approves. Give one of them. "
            "Nothing was measured and nothing was charged."
        )
    plan = Plan.load(plan_file)
    head = None if expect_head is None else _expected_head(expect_head)
    # A proposal states what the release with the same options would do.
    options: dict[str, Any] = {
        "ledger": ledger_file,
        "directory": output,
        "tables": chosen,
        "table": table,
        "period": period,
        "series": series,
        "again": again,
        "supersedes": supersedes,
        "reason": reason,
        "public": public,
        "public_confirm": public_confirm,
        "expect_head": head,
        "share": share,
        "by": by,
    }
    if proposal is not None:
        propose(plan, _data(data), proposal, **options)
        say(wrote(proposal))
        _print_report(proposal_report(Proposal.read(proposal), proposal, plan.order.account), as_json)
        return
    price = ceil_dyadic(plan.loss.rho)
    # Only after other plans of the same records can the balance rise by another number than the cost of the plan.
    before = _spent(ledger_file, plan.order.account) if plan.publication.composed_with else None
    private_keys = PrivateKeys(keys, group_readable=group_readable_key)
    with contextlib.suppress(DataError):  # the release reports it, unless its answers are stored and need no data
        if private_keys.are_protected():
            private_keys.passphrase = _passphrase()
    dropped_records: list[Dropped] = []
    with progress(Message("terminal.progress.releasing")) as report_progress:
        done = release(
            plan,
            _data(data),
            **options,
            private_key=private_keys if keys else None,
            group_readable_key=group_readable_key,
            approve=approve,
            progress=report_progress,
            notice=say,
            dropped=partial(_keep_dropped, dropped_records, as_json),
        )
    with _after("The release is in place, and its charge is in the ledger."):
        already = Message("terminal.release.already", (Value("directory", str(output)),))
        say(already if done.charge is None else wrote(output))
        balance = _balance(ledger_file, plan.order.account)
        part = None if share is None else _balance(ledger_file, plan.order.account, share)
        rise = price if before is None or balance is None or balance.spent is None else balance.spent - before
        if period is not None:
            plan, rise = done.plan, Fraction(0) if done.charge is None else done.charge.rho
        answers = done.finite.values() if plan.questions else ()
        receipt = receipt_report(plan, answers, output, to_write(plan, chosen), rise, _label(ledger_file), balance)
        values = tuple(Value(key, x) for key, x in _dropped(dropped_records).items())
        parts = [] if part is None else [balance_section(None, part, ("share",))]
        sections = (*parts, *approval_section(done.charge), *superseded_section(done))
        _print_report(receipt.adding(*sections, Section(values=values)), as_json)


def series_status_command(plan_file: Path, series: Path, ledger_file: Path | str, as_json: bool) -> None:
    """Show the state of each period of a series."""
    plan = Plan.load(plan_file)
    _print_report(periods_report(plan, list_periods(plan, ledger=ledger_file, series=series)), as_json)


def series_write_command(
    plan_file: Path,
    period: str,
    series: Path,
    ledger_file: Path | str,
    output: Path,
    redraw: bool,
    share: str | None,
    as_json: bool,
) -> None:
    """Write the release of a period that was drawn."""
    plan = Plan.load(plan_file)
    with progress(Message("terminal.progress.writing")):
        done = drawn_period(
            plan,
            period,
            ledger=ledger_file,
            series=series,
            directory=output,
            redraw=redraw,
            share=share,
            notice=say,
        )
    say(wrote(output))
    if redraw and done.charge is not None:
        rho = Value("rho", rounded_up(done.charge.rho), ValueKind.COST)
        say(Message("terminal.series.redrawn", (rho, Value("period", period))))
    _print_report(release_report(done), as_json)


def tables_command(directory: Path, names: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """List tables, or print those that are named."""
    if show_all and names:
        raise click.UsageError(
            f"--all and names are given. --all lists all tables. Remove --all or the names. {UNWRITTEN}"
        )
    if len(names) > 1 and not as_json:
        raise click.UsageError(
            f"{len(names)} tables are named. A CSV file holds one table. Use `fitnoise write tables`, or --json. "
            f"{UNWRITTEN}"
        )
    with progress(Message("terminal.progress.rebuilding")):
        result = Release.read(directory)
        _check_names(result, names)
    if not names:
        _print_report(release_report(result, show_all=show_all), as_json)
    elif as_json:
        emit_json({"plan": result.plan.hash, "tables": [_table_document(result, name) for name in names]})
    else:
        emit_csv(csv_text(result[names[0]]))
        for line in _universe(result, names[0]):
            say(line)


def write_tables_command(
    directory: Path, output: Path, level: str | None, names: tuple[str, ...], as_json: bool
) -> None:
    """Write tables as CSV files."""
    with progress(Message("terminal.progress.rebuilding")):
        result = Release.read(directory)
        _check_names(result, names)
        files = _write_tables(result, names or to_write(result.plan, None), output, directory, level)
    for file in files:
        say(wrote(output / file))
    if as_json:
        emit_json({"plan": result.plan.hash, "directory": str(output), "files": files})


def write_covariances_command(directory: Path, output: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Write the covariances of tables as files of a new folder."""
    with progress(Message("terminal.progress.estimating")):
        result = Release.read(directory)
        _check_names(result, names)
        _check_outside(directory, output)
        texts = [*covariance_files(result, names)]
        write_texts(output, texts, say)
    for file, _ in texts:
        say(wrote(output / file))
    if as_json:
        emit_json({"plan": result.plan.hash, "directory": str(output), "files": [file for file, _ in texts]})


def ask_command(
    directory: Path,
    expression: str,
    by: tuple[str, ...],
    areas: Path | None,
    other: Path | None,
    sampling_errors: Path | None,
    bands: str | None,
    simultaneous: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Compute the requested numbers from a release, and show them with their intervals."""
    if as_csv and as_json:
        raise click.UsageError("--csv and --json are both given. Give one of them. Nothing was estimated.")
    if bands is not None and sampling_errors is None:
        raise click.UsageError(
            "--reliability-bands is given without --sampling-errors. It uses the margins of both errors. "
            "Give --sampling-errors, or remove it. Nothing was estimated."
        )
    rule, expression = None if bands is None else Bands.parse(bands), expression.strip()
    with progress(Message("terminal.progress.estimating")):
        release = Release.read(directory)
        place_areas = None if areas is None else read_areas(areas, release.plan.publication.domain)
        other_release = None if other is None else Release.read(other)
        result: LabelledNumbers = ask(expression, release, other_release, by=by, areas=place_areas)
        if sampling_errors is not None:
            result = result.with_sampling_error(sampling_errors, rule)
        frame = result.frame(simultaneous=simultaneous)
    for message in () if other_release is None else superseded_pairs((release, other_release)):
        say(message)
    if as_csv:
        # a CSV file has numbers alone, so the assumptions go next to it
        for message in (*result.assumptions, *public_statements(release, other_release)):
            say(message)
        emit_csv(csv_text(frame, fixed=()))
    else:
        report = answer_report(release, expression, result, frame, simultaneous=simultaneous, other=other_release)
        _print_report(report, as_json)


def combine_command(
    directories: tuple[Path, ...],
    same_records: bool,
    rules: Path | None,
    output: Path | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Combine releases, use rules, show what that gains, and write the tables, or one of them."""
    if output is not None:
        for directory in directories:
            _check_outside(directory, output)
        _check_made(output)
    if len(directories) == 1 and rules is None:
        raise single_release("another release with --same-records", "--impossible")
    if not same_records and len(directories) > 1:
        raise records_not_stated("--same-records", "fitnoise ask --other")
    with progress(Message("terminal.progress.combining")):
        stated = () if rules is None else load_rules(rules)
        releases = [*map(Release.read, directories)]
        # Before the long computation, which may fail for two releases of which one is enough.
        warnings = superseded_pairs(releases)
        for message in warnings:
            say(message)
        combination = Combination(releases, stated)
        if name is not None and name not in combination:
            raise unknown_table(name, list(combination), "No table was printed and nothing was written.")
        if output is not None:
            _write_made(combination, output)
    if output is not None:
        say(wrote(output))
    if name is not None and not as_json:
        # a CSV file has numbers alone, so the conditions go next to it
        for message in combination.conditions:
            if message not in warnings:
                say(message)
        emit_csv(csv_text(combination[name]))
    else:
        _print_report(combination_report(combination, output), as_json)


def integers_command(
    directory: Path,
    names: tuple[str, ...],
    with_release: tuple[Path, ...],
    at_most: tuple[str, ...],
    output: Path,
    simulations: int | None,
    as_json: bool,
) -> None:
    """Compute integer tables, write them, and print their distance from the release."""
    paths = [folder.resolve() for folder in (directory, *with_release)]
    repeated = next((path.name for i, path in enumerate(paths) if path in paths[:i]), None)
    if repeated is not None:
        raise click.UsageError(f"The folder {repeated!r} is given twice. Give each release once. {UNWRITTEN}")
    folders = {path.name: folder for path, folder in zip(paths, (directory, *with_release), strict=True)}
    if len(folders) <= len(with_release):
        raise click.UsageError(
            "Two folders of releases have one name. The names of folders distinguish the tables of releases. "
            f"Copy one of them to a folder with another name. {UNWRITTEN}"
        )
    for folder in folders.values():
        _check_outside(folder, output)
    _check_made(output)
    with progress(Message("terminal.progress.making_integers")):
        releases = {name: Release.read(folder) for name, folder in folders.items()}
        source = releases if with_release else releases.popitem()[1]
        tables = make_integer_tables(source, names or None, at_most=at_most, simulations=simulations)
        _write_made(tables, output)
    say(wrote(output))
    _print_report(integers_report(tables, output), as_json)


def _check_made(output: Path) -> None:
    """Refuse a place where tables made of releases cannot be written, before they are made."""
    if output.suffix.lower() == ENDING:
        check_report_place(output)
    elif output.suffix.lower() in FORMATS:
        check_export_place(output)
    else:
        check_new_folder(output)


def _write_made(tables: DerivedTables, output: Path) -> None:
    """Write tables made of releases, by the ending: a page, for other programs, or a folder of their own."""
    if output.suffix.lower() == ENDING:
        write_report(tables, output)
    elif output.suffix.lower() in FORMATS:
        export(tables, output)
    else:
        tables.write(output, notice=say)


def write_record_command(directory: Path, record_text: Path | None, output: Path | None, as_json: bool) -> None:
    """Describe a release for the registry of deployments."""
    record = registry.registry_record(Release.read(directory), None if record_text is None else load_words(record_text))
    to_fill = registry.missing(record)
    if output is not None:
        _check_outside(directory, output)
    document = {"record": registry.filled(record), "to_be_filled": to_fill}
    _hand_out_text(registry.as_yaml(record), document, output, as_json)
    if to_fill:
        say(Message("terminal.registry.to_fill", (Value("fields", to_fill),)))


def write_report_command(
    path: Path,
    output: Path,
    integers_folder: Path | None,
    combination: Path | None,
    with_release: tuple[Path, ...],
    language: str | None,
    totals: bool,
    bands: str | None,
    sampling_errors: tuple[str, ...],
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the report of a plan, of a release, or of tables derived from a release."""
    rule = None if bands is None else Bands.parse(bands)
    with progress(Message("terminal.progress.writing")):
        check_report_place(output)
        source, what = _read_source(path, output, integers_folder, combination, with_release)
        options: dict[str, Any] = {"language": language, "bands": rule, "totals": totals, "tables": names or None}
        write_report(what, output, **options, sampling_errors=_by_table(sampling_errors))
    say(wrote(output))
    if as_json:
        emit_json({"plan": (source if isinstance(source, Plan) else source.plan).hash, "file": str(output)})


def _by_table(files: Sequence[str]) -> dict[str, Path]:
    """Return the files of standard errors by table, from texts TABLE=FILE."""
    out: dict[str, Path] = {}
    for text in files:
        name, sign, file = text.partition("=")
        if not sign or name in out:
            fault = f"names the table {name!r} twice" if sign else "has no sign ="
            raise click.UsageError(
                f"--sampling-errors {text!r} {fault}. Give the file of each table once, as TABLE=FILE. {UNWRITTEN}"
            )
        out[name] = Path(file)
    return out


def _read(path: Path) -> Plan | Release:
    return Plan.load(path) if path.is_file() else Release.read(path)


def _derived_tables(
    source: Plan | Release, integers_folder: Path | None, combination: Path | None, with_release: Sequence[Path]
) -> list[DerivedTables]:
    """Return the tables derived from a release, read from their folders."""
    derived: list[DerivedTables] = []
    if isinstance(source, Release) and integers_folder is not None:
        derived.append(read_integer_tables(source, integers_folder, map(Release.read, with_release)))
    if isinstance(source, Release) and combination is not None:
        derived.append(read_combination([source, *map(Release.read, with_release)], combination))
    return derived


def _read_source(
    path: Path, output: Path, integers_folder: Path | None, combination: Path | None, with_release: Sequence[Path]
) -> tuple[Plan | Release, Plan | Release | DerivedTables]:
    """Return a plan or a release, and the object to write: the same object, or tables derived from the release."""
    folders = [x for x in (integers_folder, combination) if x is not None]
    if len(folders) > 1 or (with_release and not folders) or (folders and path.is_file()):
        raise click.UsageError(
            "The options --integers, --combination and --with-release do not fit together. A release takes "
            "--integers or --combination, with or without --with-release, or none of them. A plan takes none. "
            f"Remove some of them. {UNWRITTEN}"
        )
    for folder in (path, *folders, *with_release):
        _check_outside(folder, output)
    source = _read(path)
    (what,) = _derived_tables(source, integers_folder, combination, with_release) or (source,)
    if isinstance(what, IntegerTables):
        _check_integer_tables(what)
    return source, what


def _check_integer_tables(tables: IntegerTables) -> None:
    """Raise an error for integer tables that are not as they state."""
    problem = tables.check() or tables.check_rounded()
    if problem is not None:
        raise ReleaseError(
            "integer-tables-wrong",
            f"The integer tables are not as they state: {english(problem).rstrip('.')}.",
            "",
            "Make them again (`fitnoise integers`).",
            UNWRITTEN,
        )


def write_export_command(
    directory: Path,
    output: Path,
    integers_folder: Path | None,
    combination: Path | None,
    with_release: tuple[Path, ...],
    language: str | None,
    totals: bool,
    bands: str | None,
    sampling_errors: tuple[str, ...],
    licence: str | None,
    sdmx: bool,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write tables for other programs."""
    rule = None if bands is None else Bands.parse(bands)
    with progress(Message("terminal.progress.writing")):
        check_export_place(output)
        source, what = _read_source(directory, output, integers_folder, combination, with_release)
        if isinstance(source, Plan) or isinstance(what, Plan):
            raise ReleaseError(
                "plan-has-no-tables",
                f"{directory.name!r} is a plan, which has no tables.",
                "Tables of a release are exported.",
                "Give a release directory.",
                UNWRITTEN,
            )
        chosen = names or None
        options: dict[str, Any] = {"language": language, "bands": rule, "totals": totals, "tables": chosen}
        options |= {"licence": licence, "sdmx": sdmx, "sampling_errors": _by_table(sampling_errors)}
        export(what, output, **options, notice=say)
    say(wrote(output))
    if as_json:
        emit_json({"plan": source.plan.hash, "file": str(output)})


def write_microdata_command(
    directory: Path,
    integers_folder: Path,
    output: Path,
    seconds: float,
    batches: int | None,
    anyway: bool,
    as_json: bool,
) -> None:
    """Invent records from integer tables, write them, and print the warning and the distances."""
    check_limits(seconds, batches)
    check_microdata_place(output)
    for folder in (directory, integers_folder):
        _check_outside(folder, output)
    with progress(Message("terminal.progress.inventing")):
        advice = "Microdata are made of one release: make integer tables of this release alone (`fitnoise integers`)."
        tables = read_integer_tables(Release.read(directory), integers_folder, advice=advice)
        _check_integer_tables(tables)
        records = make_records(tables, seconds, batches, anyway=anyway)
        write_records(records, output)
    say(wrote(output))
    _print_report(microdata_report(records, output), as_json)


def verify_command(
    path: Path,
    ledger_file: Path | str | None,
    reports: tuple[Path, ...],
    integers_folder: Path | None,
    combination: Path | None,
    with_release: tuple[Path, ...],
    exports: tuple[Path, ...],
    microdata_file: Path | None,
    as_json: bool,
) -> bool:
    """Recompute every claim, and show the checks. Return True if all hold."""
    if exports and path.is_file():
        raise click.UsageError(
            f"{path.name!r} is a plan, and --export is given. A plan has no exports. Give a release directory. "
            "Nothing was verified."
        )
    if ledger_file is not None and not exists(ledger_file):
        raise missing_ledger(ledger_file, "Nothing was verified.")
    with progress(Message("terminal.progress.verifying")), contextlib.ExitStack() as stack:
        ledger = None if ledger_file is None else stack.enter_context(Ledger(ledger_file))
        checked = verify(
            path,
            ledger=ledger,
            integers=integers_folder,
            combination=combination,
            with_releases=with_release,
            microdata=microdata_file,
        )
        # A report or an export is compared only with a release that verifies.
        if (reports or exports) and checked.ok:
            sources = integers_folder, combination, with_release
            files: list[tuple[Path, tuple[Check, ...]]] = []
            if reports:
                source = _read(path)
                reported = [source, *_derived_tables(source, *sources)]
                files += [(x, (same(reported, x),)) for x in reports]
            if exports:
                own_release = Release.read(path)
                exported: list[Release | DerivedTables] = [own_release, *_derived_tables(own_release, *sources)]
                files += [(x, check_export(exported, x, contents)) for x in exports]
            without = [what for what, paths in ((REPORT, reports), (EXPORT, exports)) if paths]
            unchecked = tuple(x for x in checked.unchecked if x not in without)
            checked = Verification((*checked.checks, *checks_of_files(files)), unchecked)
    _print_report(verification_report(checked), as_json)
    if not checked.ok:
        say(Message("terminal.verify.failed"))
    return checked.ok


def ledger_show_command(
    file: Path | str,
    plan_files: tuple[Path, ...],
    delta: float | None,
    plot: Path | None,
    share: str | None,
    as_json: bool,
) -> None:
    """Show the balances and the entries, and on request the charges of plans and the epsilon of all releases."""
    if delta is not None and not 0 < delta < 1:
        raise click.UsageError(
            f"--delta is {delta!r}. It needs a number between 0 and 1. Give one, such as 1e-6. Nothing was changed."
        )
    if plot is not None:
        plots.check_place(plot)
    _check_ledger(file, "Make one with a release, or with `fitnoise ledger open`.")
    plans = [Plan.load(path) for path in plan_files]
    with progress(Message("terminal.progress.checking_chain")), Ledger(file) as ledger:
        count = ledger.verify()
        balances = [ledger.balance(a) for a in ledger.accounts()]
        entries = ledger.entries()
        head = ledger.head()
        shares = [ledger.balance(a, name) for a in ledger.accounts() for name in shares_of(entries, a)]
        plan_sections = [_remaining_releases(ledger, plan, share) for plan in plans] if len(plans) == 1 else []
        groups = (
            {b.account: ledger.groups(b.account) for b in balances} if delta is not None or plot is not None else {}
        )
    leftover_files = () if is_address(file) else leftovers(Path(file).absolute().parent)
    if len(plans) > 1:
        plan_sections = _rehearse_charges(file, list(zip(map(str, plan_files), plans, strict=True)), share)
    report = ledger_report(entries, balances, head, leftover_files, shares).adding(*plan_sections)
    if delta is not None or plot is not None:
        given_delta = 1e-6 if delta is None else delta
        with progress(Message("terminal.progress.adding_losses")):
            curves, epsilons = _curves(groups, given_delta)
            report = report.adding(*accounts_epsilon(balances, epsilons, given_delta))
            if plot is not None:
                plots.save(
                    plots.account_figure({f"{a.source} ({a.sentence})": c for a, c in curves.items()}, given_delta),
                    plot,
                )
        if plot is not None:
            say(wrote(plot))
    _print_report(report, as_json)
    if not as_json:
        say(_chain_message(count, head))


def ledger_cap_command(
    file: Path | str,
    rho: Fraction | None,
    epsilon: Fraction | None,
    mu: Fraction | None,
    reason: str | None,
    share_texts: tuple[str, ...],
    approval: str | None,
    source: str | None,
    unit: str | None,
    plan_file: Path | None,
    as_json: bool,
) -> None:
    """Set the cap of an account, or caps of its shares, and show the ledger."""
    shares = _parse_shares(share_texts)
    is_capped = any(limit is not None for limit in (rho, epsilon, mu))
    cap = _only_cap(rho, epsilon, mu) if is_capped or not shares else {}
    if (source is None) == (plan_file is None):
        raise click.UsageError(
            "--account or --plan is needed, and only one of them. A cap belongs to an account. Give the data source "
            "(--account), or a plan of the account (--plan). Nothing was changed."
        )
    if not exists(file):
        raise click.UsageError(
            f"There is no ledger {Path(file).name!r}. `fitnoise ledger open` makes one with the account of a plan. "
            "Nothing was changed."
        )
    plan_account = None if plan_file is None else _plan_account(plan_file, unit)
    with Ledger(file) as ledger:
        accounts = ledger.accounts()
        account = plan_account or _chosen(accounts, source or "", unit)
        _check_listed(account, accounts, is_new=False)
        _set_caps(ledger, account, cap, shares, reason or "", approval)
    _show_capped(file, as_json)


def ledger_open_command(
    file: Path | str,
    plan_file: Path,
    unit: str | None,
    rho: Fraction | None,
    epsilon: Fraction | None,
    mu: Fraction | None,
    reason: str | None,
    share_texts: tuple[str, ...],
    approval: str | None,
    as_json: bool,
) -> None:
    """Open a new account for a plan with a cap, print the source's earlier cost for it, and show the ledger."""
    cap, shares = _only_cap(rho, epsilon, mu), _parse_shares(share_texts)
    account = _plan_account(plan_file, unit)  # what names no account leaves no file
    with Ledger(file) as ledger:
        _check_listed(account, ledger.accounts(), is_new=True)
        earlier = sum(e.kind == "charge" and e.account.source == account.source for e in ledger.entries())
        _set_caps(ledger, account, cap, shares, reason or "", approval)
        with _after(CAPPED):
            spent = ledger.balance(account).spent
    if earlier and spent is not None:
        text_id = "terminal.ledger.earlier_release" if earlier == 1 else "terminal.ledger.earlier_releases"
        values = (
            Value("count", earlier),
            Value("source", account.source, ValueKind.CODE),
            Value("account", account.sentence, ValueKind.CODE),
            Value("rho", float(spent), ValueKind.NUMBER),
        )
        say(Message(text_id, values))
    _show_capped(file, as_json)


CAPPED = "The cap is set, and in the ledger."


def _show_capped(file: Path | str, as_json: bool) -> None:
    with _after(CAPPED):
        ledger_show_command(file, (), None, None, None, as_json)


def _parse_shares(texts: Sequence[str]) -> dict[str, Fraction]:
    """Return the caps of shares by name, or raise a usage error for a text that is not NAME=CAP, or a name twice."""
    shares: dict[str, Fraction] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or name in shares:
            raise click.UsageError(
                f"--share is {text!r}{', and the share has a cap already' if name else ''}. It needs a name and a cap, "
                "once for each share. Give --share team=0.02. Nothing was changed."
            )
        shares[name] = exact_number(number, "Nothing was changed.")
    return shares


def _set_caps(
    ledger: Ledger,
    account: Account,
    cap: Mapping[str, Fraction],
    shares: Mapping[str, Fraction],
    reason: str,
    approval: str | None,
) -> None:
    """Set the cap of an account, if one is given, and then those of shares, in the measure of the account's cap.

    approval: "required" or "none", as the first of these entries states it; None leaves it as it is.
    """
    requires = None if approval is None else approval == "required"
    if cap:
        ledger.set_cap(account, **cap, reason=reason, share=None, approval=requires)
    in_force = ledger.balance(account)
    measures = {"mu_squared": in_force.mu_squared_cap, "epsilon": in_force.epsilon_cap, "rho": in_force.cap}
    kind = next((key for key, limit in measures.items() if limit is not None), None)
    if shares and kind is None:
        raise click.UsageError(
            f"The account {account.source!r} ({account.sentence}) has no cap. A share is a part of a cap, in its "
            "measure. Give the cap, too: --rho, --epsilon or --mu. Nothing was changed."
        )
    done = "The cap of the account is set, and in the ledger." if cap else None
    for name, limit in shares.items():
        size = {str(kind): limit**2 if kind == "mu_squared" else limit}
        with _after(done):
            ledger.set_cap(account, **size, reason=reason, share=name, approval=None if done else requires)
        done = f"The caps before and that of the share {name!r} are set, and in the ledger."


def _only_cap(rho: Fraction | None, epsilon: Fraction | None, mu: Fraction | None) -> dict[str, Fraction]:
    """Return the only cap that is given, by its name in the ledger."""
    # Releases add their μ², so the ledger stores the square of a cap on μ.
    limits = {"rho": rho, "epsilon": epsilon, "mu_squared": None if mu is None else mu**2}
    caps = {kind: limit for kind, limit in limits.items() if limit is not None}
    if len(caps) != 1:
        raise click.UsageError(
            f"{len(caps) or 'No'} caps are given. A cap is on rho (--rho), pure epsilon (--epsilon) or mu (--mu). Give "
            "one of them. Nothing was changed."
        )
    return caps


def ledger_create_command(address: Path | str, role: str | None, is_printed: bool, as_json: bool) -> None:
    """Make a ledger in a database, or print the SQL that makes it."""
    statements = create(str(address), role, run=not is_printed)
    if as_json:
        emit_json({"statements": statements})
    elif is_printed:
        for statement in statements:
            emit(f"{statement};")
    else:
        emit(Message("terminal.ledger.created"))


def ledger_head_command(file: Path | str, as_json: bool) -> None:
    """Print the head of a ledger."""
    _check_ledger(file)
    with progress(Message("terminal.progress.checking_chain")), Ledger(file) as ledger:
        number, digest = ledger.head()
    if as_json:
        emit_json({"sequence": number, "digest": digest})
    else:
        emit(f"{number}:{digest}")


def ledger_verify_command(file: Path | str, head: str | None, as_json: bool) -> None:
    """Check the chain of a ledger, and that it has a head."""
    expected_head = None if head is None else _parse_head("--head", head, "Nothing was changed.")
    _check_ledger(file)
    with progress(Message("terminal.progress.checking_chain")), Ledger(file) as ledger:
        count = ledger.verify(expected_head)
        last = ledger.head()
    if as_json:
        emit_json({"entries": count, "head": {"sequence": last[0], "digest": last[1]}})
    else:
        emit(_chain_message(count, last))


def _parse_head(option: str, head: str, outcome: str) -> tuple[int, str]:
    """Return the head that `fitnoise ledger head` printed, or raise a usage error."""
    if not re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", head):
        raise click.UsageError(
            f"{option} is {head!r}. It needs the number and the digest of an entry. Give what `fitnoise ledger head` "
            f"printed. {outcome}"
        )
    number, _, digest = head.partition(":")
    return int(number), digest


def _expected_head(text: str) -> tuple[int, str]:
    """Return a head, or the one in a file."""
    head = read_text(Path(text)).strip() if ":" not in text and Path(text).is_file() else text
    return _parse_head("--expect-head", head, "Nothing was measured and nothing was charged.")


def _chain_message(count: int, head: tuple[int, str]) -> Message:
    """Return the message of an unbroken chain."""
    text_id = "terminal.ledger.entry" if count == 1 else "terminal.ledger.entries"
    values = (Value("count", count), Value("head", head[1][:12]))
    return Message(text_id, values) if count else Message("terminal.ledger.empty")


def name_ledger(file: Path | str) -> None:
    """Name the ledger that the environment chose, before anything is done with it."""
    say(Message("terminal.ledger.chosen", (Value("file", _label(file)),)))


def _label(ledger_file: Path | str) -> str:
    """Return the text that names a ledger in an output, without the host and the user of a URL."""
    text = str(ledger_file)
    return "postgresql://…" if is_address(ledger_file) and not text.startswith("env:") else text


def _check_ledger(file: Path | str, *advice: str) -> None:
    if not exists(file):
        raise missing_ledger(file, "Nothing was changed.", *advice)


def studio_command(folder: Path, language: str, data: tuple[str, ...], as_json: bool) -> None:
    """Serve a folder."""
    check_language(language, COMPLETE_LANGUAGES)
    try:
        from fitnoise_studio.serve import serve
    except ModuleNotFoundError as error:
        raise missing_package("Pages of the studio", str(error.name), "studio", "Nothing was opened.") from None
    serve(folder, data, language, as_json=as_json, show=emit if as_json else say)


def _write_plan(plan: Plan, output: Path | None) -> None:
    """If a place is given, write a plan there and print the place."""
    if output is not None:
        plan.save(output)
        say(wrote(output))


def _hand_out(plan: Plan, output: Path | None, as_json: bool, *further_sections: Section) -> None:
    """Write a plan, and show it with further sections."""
    _write_plan(plan, output)
    _print_report(plan_report(plan).adding(*further_sections, _file(output)), as_json)


def _print_report(report: Report, as_json: bool) -> None:
    """Show a report to people or to programs."""
    (show_document if as_json else show)(report)


def _file(output: Path | None) -> Section:
    """Return the section that names the file of a plan."""
    return Section(values=(Value("plan", None if output is None else str(output)),))


def _check_names(result: Release, names: Sequence[str]) -> None:
    tables = result.plan.publication.workload.tables
    for i, name in enumerate(names):
        if name in result.finite:
            raise ReleaseError(
                "question-in-place-of-table",
                f"{name!r} is a question, and no table.",
                "A question has one answer.",
                "Remove the name: the list of tables has the answer, and so has finite.csv.",
                UNWRITTEN,
            )
        if name not in result:
            raise unknown_table(name, tables.names, UNWRITTEN)
        if name in names[:i]:
            raise repeated_table(UNWRITTEN)


def _table_document(result: Release, name: str) -> dict[str, Any]:
    """Return the document of one table, with its numbers in full."""
    w, frame = result.plan.publication.workload, result[name]
    confidence = w[name].target.level(w.confidence)
    requested = result.plan.group(name).publication.workload[name]
    content = {
        "name": name,
        "statistic": english(*statistic(requested, w.domain)),
        "confidence": confidence,
        **condition_messages(result.plan),
        **shares(result.plan),
        **universe(requested, w.domain),
        "universe": universe_messages(result.plan, requested),
    }
    rows = frame.to_dict("records")
    # JSON has no NaN, which stands for the open end of a bin
    rows = [{k: None if isinstance(x, float) and math.isnan(x) else x for k, x in row.items()} for row in rows]
    return {**map_messages(content, english), "rows": rows}


def _universe(result: Release, name: str) -> list[Message]:
    """Return the lines below a table: the records that it counts, and the coding of values."""
    requested = result.plan.group(name).publication.workload[name]
    rules = Value("statistic", statistic(requested, result.plan.publication.domain), ValueKind.SENTENCES)
    return [*universe_messages(result.plan, requested), Message("terminal.tables.statistic", (rules,))]


def _check_outside(folder: Path, path: Path) -> None:
    """Refuse a place in the folder of a release, or of tables made of releases."""
    if folder.resolve() in (path.resolve(), *path.resolve().parents):
        raise ReleaseError(
            "place-inside-release",
            f"{str(path)!r} is the folder {folder.resolve().name!r}, or is inside it.",
            "A release and tables made of releases are never changed.",
            f"Choose a place outside {folder.resolve().name!r}.",
            UNWRITTEN,
        )


def _pieces(result: Release, name: str, level: str | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return the files of a table, without endings, and their rows.

    level: A level with a file for each place.
    """
    if level is None:
        yield from ((file, pd.DataFrame(complete_columns(columns))) for _, file, columns in result.files([name]))
    else:
        yield from ((slug(f"{name} {label}"), frame) for label, frame in result.tables_by_place(name, level))


def _write_tables(result: Release, names: Sequence[str], folder: Path, directory: Path, level: str | None) -> list[str]:
    """Write tables as CSV files, all or none; over no other file, and not into the release itself.

    level: A level of places; each table then has one file for each place.
    """
    _check_outside(directory, folder)
    files: list[str] = []
    try:
        with contextlib.ExitStack() as undo:
            if not folder.exists():
                folder.mkdir(parents=True)
                undo.callback(folder.rmdir)
            for name in names:
                for stem, frame in _pieces(result, name, level):
                    file = f"{stem}.csv"
                    if file in files:
                        raise ReleaseError(
                            "two-files-of-one-name",
                            f"Two places have files with the name {file!r}.",
                            "Each place needs a file of its own.",
                            "Write the table without --by.",
                            UNWRITTEN,
                        )
                    new_file(folder / file, csv_text(frame).encode())
                    undo.callback((folder / file).unlink)
                    files.append(file)
            undo.pop_all()
    except FileExistsError as error:
        raise existing_place(Path(error.filename).name, UNWRITTEN) from None
    except OSError as error:
        raise unwritable_place(repr(folder.name), error.strerror or type(error).__name__, UNWRITTEN) from None
    return files


@contextlib.contextmanager
def _after(done: str | None) -> Iterator[None]:
    """Replace the outcome of errors and interruptions by what was done before them; None: nothing was done."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if done is None:
            raise
        if is_interruption(error):  # or what an engine made of one
            raise KeyboardInterrupt(done) from None
        if isinstance(error, FitnoiseError):
            raise error.with_outcome(done) from error
        raise


def _balance(file: Path | str, account: Account, share: str | None = None) -> Quote | None:
    """Return the balance of an account or share after a release; None, with a word on stderr, if it cannot be read."""
    try:
        with Ledger(file) as ledger:
            return ledger.balance(account, share)
    except (FitnoiseError, OSError) as error:
        reason = error.reason if isinstance(error, FitnoiseError) else str(error)
        say(Message("terminal.release.unread_balance", (Value("reason", reason),)))
        return None


def _spent(file: Path | str, account: Account) -> Fraction | None:
    """Return the ρ that an account has spent: 0 without a ledger file, None if no bound is known."""
    if not exists(file):
        return Fraction(0)
    with Ledger(file) as ledger:
        return ledger.balance(account).spent


def _curves(
    groups: Mapping[Account, Sequence[ChargeGroup]], delta: float
) -> tuple[dict[Account, Curve], dict[Account, float | str]]:
    """Return the joint curve of each account that has one, and for every account its ε at δ.

    The reason as text takes the place of an ε that is not known.
    """
    curves: dict[Account, Curve] = {}
    epsilons: dict[Account, float | str] = {}
    for whose, charged in groups.items():
        try:
            joint_curve = curve(charged, whose)
            epsilons[whose] = joint_curve.epsilon(delta)
            curves[whose] = joint_curve
        except (LedgerError, ValueError) as error:
            epsilons[whose] = error.given if isinstance(error, LedgerError) else str(error)
    return curves, epsilons


def _remaining_releases(ledger: Ledger, plan: Plan, share: str | None) -> Section:
    """Return the section with the number of releases of a plan that the account and its share still allow."""
    order = plan.order
    quote = ledger.quote(
        order.account,
        order.ledger_loss(),
        also=order.losses_of_units(ledger.accounts()),
        composed_with=order.composed_with,
        share=share,
    )
    return more_section(quote, plan.loss, plan.publication.delta)


def _rehearse_charges(file: Path | str, plans: Sequence[tuple[str, Plan]], share: str | None) -> list[Section]:
    """Return the charges of plans with names, one after the other, and the balances of their accounts after them.

    A copy of the ledger in memory is charged, by the rules of the ledger. A charge that does not fit is left out.
    """
    with contextlib.closing(open_store(file)) as source, contextlib.closing(SqliteStore(":memory:")) as copy:
        with source.transaction(write=False), copy.transaction(write=True):
            for row in source.rows():
                copy.append(row)
            copy.commit()
        ledger, charges = Ledger.from_store(copy), list[tuple[str, Quote, Fraction | None]]()
        for name, plan in plans:
            order, loss = plan.order, plan.order.ledger_loss()
            also, others = order.losses_of_units(ledger.accounts()), order.composed_with
            quote = ledger.quote(order.account, loss, also=also, composed_with=others, share=share)
            charges.append((name, quote, loss.epsilon))
            if quote.fits:
                # Stands for an approval, which the account may require.
                approved = {"proposal": f"{len(charges):064}", "proposed_by": "proposer", "approved_by": "approver"}
                detail = order.detail() | approved | ({} if share is None else {"share": share})
                ledger.charge(order.account, loss, detail, also=also, composed_with=others)
        balances = [ledger.balance(a) for a in dict.fromkeys(quote.account for _, quote, _ in charges)]
    return charges_sections(charges, balances)


def _plan_account(plan_file: Path, unit: str | None) -> Account:
    """Return the account of a plan, or that of one of its units."""
    order = Plan.load(plan_file).order
    if unit is None:
        return order.account
    accounts = [order.account, *(account(order.source, u, order.domain) for u in order.units)]
    return _chosen(accounts, order.account.source, unit)


def _check_listed(account: Account, accounts: Sequence[Account], *, is_new: bool) -> None:
    """Refuse an account that a ledger has, if it is new, or else lacks."""
    if is_new == (account in accounts):
        advice = "Set its cap with `fitnoise ledger cap`" if is_new else "Open the account with `fitnoise ledger open`"
        raise click.UsageError(
            f"The ledger {'has' if is_new else 'has no'} account {account.source!r} ({account.sentence}). "
            f"Its accounts are: {_listed(accounts)}. "
            f"{advice}. Nothing was changed."
        )


def _chosen(accounts: Sequence[Account], source: str, unit: str | None) -> Account:
    """Return the only account of a source, or the one that `unit` names.

    `unit` is a unit as the ledger prints it, with or without the digits of its cells, or these digits alone.
    """
    candidates = [a for a in accounts if a.source == source]
    matches = [a for a in candidates if unit in {None, a.sentence, a.unit.account, a.digits}]
    if len(matches) == 1:
        return matches[0]
    if unit is None:
        reason = (
            f"--unit is not given. There are {len(candidates)} privacy units for {source!r}: "
            f"{_listed(candidates)}. Give --unit"
        )
    elif not matches:
        reason = (
            f"There is no account {source!r} ({unit}). The accounts are: {_listed(accounts)}. Name one of them, or "
            "open one with `fitnoise ledger open`"
        )
    else:
        reason = (
            f"{len(matches)} accounts have the unit {unit!r}, and their guarantees are about different cells: "
            f"{_listed(matches)}. Give --plan, or as --unit the digits in brackets"
        )
    raise click.UsageError(f"{reason}. Nothing was changed.")


def _listed(accounts: Sequence[Account]) -> str:
    return ", ".join(f"{a.source} ({a.sentence})" for a in accounts) or "none"


def _check_replaceable(path: Path) -> None:
    """Refuse to write over a file that is not a plan, or where nothing can be written."""
    check_plan_place(path)
    check_new_file(path, replaces=True)
