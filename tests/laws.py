"""Laws: what every member of a zoo must obey. A new member costs a line in zoo.py."""

import contextlib
import copy
import functools
import inspect
import itertools
import json
import math
import re
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import fitnoise as fn
from dense import (
    cell_order,
    dense_bound,
    layouts,
    numbers_by_least_squares,
    pair_costs,
    rebuilt_tables,
    shared_out,
    split,
    strategy_matrix,
    workload_matrix,
    workload_variances,
)
from designs import domain_of, possible_cells, steps_of
from fitnoise import messages
from fitnoise.algebra import rules
from fitnoise.errors import DataError, FitnoiseError
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.pages import fragments
from fitnoise.interfaces.render import document, lines, readable
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.codings import DROPPED, OUTSIDE, cell_of, without_cell
from fitnoise.kernel.counting import Counter, HistogramCounter, Tally, maximal, open_counter
from fitnoise.kernel.designs import linear
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.designs.margins import NOISE_VARIANCE, PureStrategy
from fitnoise.kernel.designs.products import ProductStrategy
from fitnoise.kernel.designs.trees import TreeStrategy
from fitnoise.kernel.domain import attribute_document
from fitnoise.kernel.exact_powers import exp_below
from fitnoise.kernel.units import DataSource, OutsideDomain
from fitnoise.mechanisms import rebuilding as reconstruct
from fitnoise.mechanisms._base import UNBIASED
from fitnoise.mechanisms.laplace import planning as pure_planning
from fitnoise.planning.plan import Plan
from fitnoise.request.publication import Goal
from fitnoise.request.targets import TargetKind
from fitnoise.solving import p_identity
from fitnoise.solving.certificates import lower_bound
from headed import html_tables
from records import SECRET
from refused import refused
from replayed_noise import Replay, law
from tolerances import EXACT, GAP, LOOSE

DROP, REFUSE = OutsideDomain.DROP, OutsideDomain.REFUSE


def check_operator(a, rng):
    """Adjoint, linearity, dense agreement, norms, Gram, row variances: on vectors and on several columns at once."""
    m, n = a.shape
    x, x2, y = rng.normal(size=n), rng.normal(size=n), rng.normal(size=m)
    matrix = rules.dense(a)
    assert matrix.shape == (m, n)
    np.testing.assert_allclose(a.mv(x), matrix @ x, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(a.mv(2 * x - x2), 2 * a.mv(x) - a.mv(x2), rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(y @ a.mv(x), a.rmv(y) @ x, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(a.T.mv(y), matrix.T @ y, rtol=EXACT, atol=EXACT)
    assert a.T.shape == (n, m)
    np.testing.assert_array_equal(a.T.T.mv(x), a.mv(x))
    columns = rng.normal(size=(n, 3))
    np.testing.assert_allclose(a.mv(columns), matrix @ columns, rtol=EXACT, atol=EXACT)
    rows = rng.normal(size=(m, 2))
    np.testing.assert_allclose(a.rmv(rows), matrix.T @ rows, rtol=EXACT, atol=EXACT)
    for operator, form in ((a, matrix), (a.T, matrix.T)):
        np.testing.assert_allclose(rules.dense(operator), form, rtol=EXACT)
        np.testing.assert_allclose(rules.gram(operator), form.T @ form, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(rules.column_norms(operator), (form**2).sum(axis=0), rtol=EXACT)
        np.testing.assert_allclose(rules.row_norms(operator), (form**2).sum(axis=1), rtol=EXACT)
        w, s = rng.normal(size=(len(form), 3)), rng.normal(size=(form.shape[1], form.shape[1], 2))
        weighted, variances = rules.weighted_gram(operator, w), rules.row_variances(operator, s)
        assert weighted.dtype == variances.dtype == np.float64
        expected = np.stack([form.T @ np.diag(column) @ form for column in w.T], axis=-1)
        np.testing.assert_allclose(weighted, expected, rtol=EXACT, atol=EXACT)
        expected = np.stack([np.diag(form @ s[..., c] @ form.T) for c in range(2)], axis=-1)
        np.testing.assert_allclose(variances, expected, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(
            np.einsum("ikc,ikd->cd", weighted, s), np.einsum("jc,jd->cd", w, variances), rtol=EXACT, atol=EXACT
        )
        np.testing.assert_allclose(rules.weighted_gram(operator, w[:, 0]), weighted[..., 0], rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(rules.row_variances(operator, s[..., 0]), variances[:, 0], rtol=EXACT, atol=EXACT)


def check_plan(plan, gap=GAP):
    """Certificate, targets, exact price and document, against dense matrices."""
    d, publication = plan.decomposition, plan.publication
    workload, budget, objective = publication.workload, publication.budget, publication.objective
    assert 0 < plan.bound <= plan.objective_value <= plan.bound * (1 + gap)
    assert plan.gap == pytest.approx(plan.objective_value / plan.bound - 1, abs=1e-15)
    if objective.goal is not Goal.TOTAL_ERROR:
        assert (plan.variances <= d.variances * plan.relaxation * (1 + 1e-15)).all()
    if budget is None:
        assert plan.relaxation <= 1
    elif budget.pure is not None:
        assert budget.pure * (1 - Fraction(1, 2**30)) <= plan.exact_epsilon <= budget.pure
    else:
        assert plan.exact_rho <= plan.exact_weighted_cost / 2 <= budget.gaussian_rho
        assert float(plan.exact_weighted_cost / 2) == pytest.approx(float(budget.gaussian_rho), rel=1e-8)
        assert budget.epsilon is None or plan.epsilon(budget.delta) <= budget.epsilon * (1 + EXACT)
    assert plan.exact_rho <= plan.exact_cost / 2
    assert Fraction(plan.rho) >= plan.exact_rho
    if plan.exact_epsilon is None:
        assert plan.exact_rho == plan.exact_cost / 2
        assert plan.mu**2 == pytest.approx(plan.cost_squared, rel=EXACT)
    else:
        assert plan.exact_epsilon**2 == plan.exact_cost
        assert Fraction(plan.epsilon()) >= plan.exact_epsilon
        assert special.ndtr(-plan.mu / 2) >= special.expit(-plan.epsilon()) * (1 - EXACT)
        assert plan.mu**2 <= math.pi * plan.rho * (1 + EXACT)
    prices = sum(t.price for t in plan.tables)
    assert 0 <= prices <= 1 if objective.goal is Goal.HYBRID else prices == pytest.approx(1)

    parsed = Plan.from_json(plan.to_json())
    assert parsed.to_json() == plan.to_json()
    assert (parsed.hash, parsed.exact_cost, parsed.bound) == (plan.hash, plan.exact_cost, plan.bound)
    assert parsed.publication == publication or workload.tables[0].matrix is not None

    check_price(plan)
    check_accuracy(plan)

    # the bound is the dense dual bound at the same weights, spread evenly over exchangeable values
    proven = lower_bound(d, plan.evidence, plan.terms)
    assert plan.bound == pytest.approx(proven / (1 if budget is None else plan.relaxation), rel=EXACT)
    squared = plan.evidence.pairs is not None or any(not isinstance(x.queries, np.ndarray) for x in layouts(d))
    rounding = 1e-6 if d.query_shift or squared else LOOSE
    assert proven == pytest.approx(dense_bound(plan, plan.evidence, plan.terms), rel=rounding)


def cell_budgets(plan):
    """r of every cell (exchangeable…, structured…)."""
    domain, budgets = plan.publication.workload.domain, plan.publication.cell_budgets
    r = np.ones(domain.shape)
    if budgets is not None:
        for index in np.ndindex(*domain.shape):
            here = [(index[list(domain).index(a)], domain[a].size) for a in budgets.attributes]
            r[index] = budgets.values[int(np.ravel_multi_index([x for x, _ in here], [n for _, n in here]))]
    merge = cell_order(plan)
    return merge @ r.ravel() / merge.sum(axis=1)


def check_price(plan):
    """The exact price is what the columns of the integer strategy say, equal for all exchangeable values."""
    d, unit = plan.decomposition, plan.publication.unit
    rows, scales = strategy_matrix(plan)
    assert len(rows) == plan.noisy_answers
    if isinstance(plan.strategy, PureStrategy):
        check_pure_price(plan, rows)
        return
    by_scale = {s: rows[scales == s] for s in set(scales.tolist())}
    cells = rows.shape[1]
    parts = [(1 / Fraction(s) ** 2, (x**2).sum(axis=0)) for s, x in by_scale.items()]
    profile = [sum(f * int(squares[i]) for f, squares in parts) for i in range(cells)]
    for z in range(cells // d.cells):
        assert tuple(profile[z * d.cells : (z + 1) * d.cells]) == plan.strategy.profile()
    step = max(profile)
    if unit.neighbours is fn.Neighbours.REPLACE_ONE:
        multiple = math.lcm(*((1 / Fraction(s) ** 2).denominator for s in by_scale))
        gram = sum(int(multiple / Fraction(s) ** 2) * (x.T @ x) for s, x in by_scale.items())
        has_replacements = plan.publication.source.drops or unit.max_records > 1
        step = max(Fraction(int(pair_costs(gram).max()), multiple), step if has_replacements else 0)
    assert step * unit.cost_factor() == plan.exact_cost
    r = cell_budgets(plan)
    if plan.publication.cell_budgets is None:
        assert plan.terms.relative is None
        assert plan.exact_weighted_cost == plan.exact_cost
    else:
        np.testing.assert_array_equal(np.tile(plan.terms.relative, cells // d.cells), r)
        counted = [(x, Fraction(y)) for x, y in zip(profile, r, strict=True) if x > 0]
        assert plan.exact_weighted_cost == max(x / y for x, y in counted) * unit.cost_factor()


def check_pure_price(plan, rows):
    """ε is the largest ℓ1 distance of columns over the scale, ρ half the largest squared ℓ2 distance; both exact."""
    d, unit, rate = plan.decomposition, plan.publication.unit, 1 / Fraction(plan.strategy.scale)
    sums = [int(x) for x in np.abs(rows).sum(axis=0)]
    for z in range(len(sums) // d.cells):
        assert [(x * rate) ** 2 for x in sums[z * d.cells : (z + 1) * d.cells]] == list(plan.strategy.profile())
    step = max(sums)
    assert plan.strategy.step(fn.Neighbours.ADD_OR_REMOVE_ONE) == step
    distance = max(int(np.abs(a - b).sum()) for a in rows.T for b in rows.T)
    assert plan.strategy.step(fn.Neighbours.REPLACE_ONE) == distance
    if unit.neighbours is fn.Neighbours.REPLACE_ONE:
        step = max(distance, step if plan.publication.source.drops or unit.max_records > 1 else 0)
    assert plan.exact_epsilon == step * rate * unit.max_records
    gram = rows.T @ rows
    square = int(gram.diagonal().max())
    if unit.neighbours is fn.Neighbours.REPLACE_ONE:
        both = int(pair_costs(gram).max())
        square = max(both, square if plan.publication.source.drops or unit.max_records > 1 else 0)
    assert square * (rate * unit.max_records) ** 2 / 2 == plan.exact_rho


def check_accuracy(plan):
    """Achieved variances are those of generalised least squares with the same measurements, and add up as stated."""
    publication, c = plan.publication, workload_variances(plan.publication.workload)
    stated = check_variances(plan)
    goal, terms = publication.objective.goal, plan.terms
    assert terms.factor == publication.unit.cost_factor()
    value = float(plan.exact_weighted_cost)
    pure = isinstance(plan.strategy, PureStrategy)
    if pure:
        value /= NOISE_VARIANCE
    if goal is Goal.FIT_FOR_USE:
        assert terms.weights is terms.trade is None
    else:
        omega = publication.objective.weights.for_targets(c)
        np.testing.assert_allclose(shared_out(plan, terms.weights), omega, rtol=EXACT)
        assert terms.trade == publication.objective.total_error_weight
        value += (terms.trade or 0) * float(omega @ stated)
    assert plan.objective_value == pytest.approx(value, rel=EXACT)
    if goal is Goal.TOTAL_ERROR:
        assert omega @ stated == pytest.approx(omega @ c * plan.relaxation, rel=EXACT)
    else:
        assert (stated <= c * plan.relaxation * (1 + 1e-12)).all()
        has_plain_margins = [
            t.target.kind in (TargetKind.MARGIN, TargetKind.MAX_DEVIATION) for t in publication.workload.tables
        ]
        if pure and any(has_plain_margins):
            assert (stated / c).max() <= plan.relaxation * (1 + EXACT)
        else:
            assert (stated / c).max() == pytest.approx(plan.relaxation, rel=EXACT)


def check_variances(plan):
    """The variances that are stated, number by number: those of generalised least squares."""
    gls = (numbers_by_least_squares(plan) ** 2).sum(axis=1)
    stated = np.concatenate([plan.table_variances(t.name).ravel() for t in plan.publication.workload.tables])
    np.testing.assert_allclose(stated, gls, rtol=1e-5 if plan.decomposition.query_shift else LOOSE)
    return stated


class AtEnds(Counter):
    """Counts of records whose amounts are all at a knot: of each 1 − j at the first knot and J_s at each other one."""

    drops = False

    def __init__(self, counts, domain):
        categorical = {
            a: fn.Categorical(list(range(domain[a].size))) if a in domain.steps else domain[a] for a in domain
        }
        self._counted, self._steps = HistogramCounter(counts, fn.Domain(categorical)), domain.steps

    def check(self, attributes):
        self._counted.check(attributes)

    def count(self, margins, progress=None):
        at_knots = {a: np.cumsum((0, *pieces)).tolist() for a, pieces in self._steps.items()}
        return in_moments(self._counted.count(margins, progress), self._steps, at_knots)


def in_moments(counts, steps, codes):
    """Return counts by the step of amounts as a counter has them: 1 − j at the first knot and J_s at each other one.

    codes: Steps that have counts, in order; the cells without a knot come after them.
    """
    for margin, a in [(m, a) for m in counts for a in m if a in steps]:
        axis, values = margin.index(a), np.moveaxis(counts[margin], margin.index(a), 0)
        n, ends = len(codes[a]), np.cumsum((0, *steps[a])).tolist()
        rows = [[1 - j for j in codes[a]]]
        rows += [[min(max(j - x, 0), y - x) for j in codes[a]] for x, y in itertools.pairwise(ends)]
        counts[margin] = np.concatenate([np.stack([np.tensordot(row, values[:n], 1) for row in rows]), values[n:]])
        counts[margin] = np.ascontiguousarray(np.moveaxis(counts[margin], 0, axis))
    return counts


def counts_of(design, table):
    """Return the counts for a design, from records by their values and by the steps of their amounts."""
    steps = steps_of(design)
    counts = HistogramCounter(table, domain_of(design)).count(list(design.margins()))
    return in_moments(counts, steps, {a: range(sum(pieces) + 1) for a, pieces in steps.items()})


def counter_of_counts(counts, domain):
    """Return a counter of all cells of a domain. For amounts it has the ends, which arrays do not give the product."""
    return (AtEnds if domain.steps else HistogramCounter)(counts, domain)


def measured(plan, counts, noise):
    with fn.Ledger(":memory:") as ledger:
        counter = counter_of_counts(counts, plan.publication.workload.domain)
        return measuring.measure(plan.order, counter, ledger, noise=noise)


def by_command(*command):
    """Run the command line with any exit code."""
    with contextlib.suppress(SystemExit):
        main(command)


def released(plan, data, **options):
    """A release charged to a ledger that is forgotten afterwards: for tests only."""
    with tempfile.TemporaryDirectory() as folder:
        return fn.release(plan, data, ledger=Path(folder) / "ledger.db", **options)


def answered(plan, number=0):
    """Return a release with arbitrary answers, without a measurement."""
    outputs = [min(number, m.outputs - 1) for m in plan.finite]
    return fn.Release(plan, [np.full(n, number) for p in plan.groups for n in p.strategy.lengths], outputs=outputs)


@contextlib.contextmanager
def hardly_searched():
    """Plans for pure noise are made in a fraction of the time, and are none the less private or proven."""
    with pytest.MonkeyPatch.context() as here:
        here.setattr(pure_planning, "KIND_STARTS", 1)
        here.setattr(p_identity, "SCREENING", 5)
        here.setattr(p_identity, "SHARPNESS", p_identity.SHARPNESS[-2:])
        yield


def planned_quickly(workload, **options):
    """Return a plan for pure noise after a short search, for laws that hold for any plan."""
    with hardly_searched():
        return fn.plan(workload, privacy="pure", **options)


def check_mechanism(plan, rng):
    """Exact transforms, neighbours, unbiased consistent tables, exact covariances; where values are biased it says so.

    Of tables of one part, answered by any mechanism.
    """
    workload = plan.publication.workload
    domain = workload.domain
    counts = rng.integers(0, 50, size=domain.shape)
    for size in plan.table_part.sizes:
        counts = rng.multinomial(size.records - 1, np.full(domain.size, 1 / domain.size)).reshape(domain.shape)
    check_variances(plan)
    check_part(plan.table_part)
    quiet = measured(plan, counts, Replay())
    shift = plan.decomposition.query_shift

    # without noise, every table is the truth
    truth = workload_matrix(workload) @ counts.ravel()
    rebuilt = rebuilt_tables(plan, quiet.answers[0])
    flat = np.concatenate([rebuilt[t.name].ravel() for t in workload.tables])
    np.testing.assert_allclose(flat, truth, atol=LOOSE * max(1, np.abs(truth).max()) + shift * counts.sum())

    # a record more moves the answers by exactly the profile of its cell, and by no more than what is charged
    rows, _ = strategy_matrix(plan)
    merge = cell_order(plan)
    profile = plan.strategy.profile()
    one_record = max(profile)
    scales = plan.strategy.scales
    for cell in rng.choice(domain.size, size=min(5, domain.size), replace=False):
        one_more = counts.copy()
        one_more.flat[cell] += 1
        other = measured(plan, one_more, Replay())
        distance = Fraction(0)
        power = 1 if isinstance(plan.strategy, PureStrategy) else 2
        for s, y, y2 in zip(scales, split(plan, quiet.answers[0]), split(plan, other.answers[0]), strict=True):
            distance += (
                sum(Fraction(abs(int(b) - int(a))) ** power for a, b in zip(y, y2, strict=True)) / Fraction(s) ** power
            )
        distance = distance ** (2 // power)
        cell_index = int(np.flatnonzero(merge[:, cell])[0])
        if isinstance(
            plan.strategy, (ProductStrategy, TreeStrategy)
        ):  # their loss counts every record as the costliest
            assert distance <= one_record
        else:
            assert distance == profile[cell_index % plan.decomposition.cells] <= one_record
    # the transforms are the dense integer strategy
    exact = rows @ (merge @ counts.ravel()).astype(object)
    assert [int(x) for y in quiet.answers[0] for x in y] == [int(x) for x in exact]

    # replayed noise is added as it is
    replay = Replay(3)
    noisy = measured(plan, counts, replay)
    pairs = zip(quiet.answers[0], noisy.answers[0], strict=True)
    assert [int(b) - int(a) for y, z in pairs for a, b in zip(y, z, strict=True)] == replay.drawn

    # any linear combinations have the covariance of the dense computation
    combos = []
    for _ in range(2):
        names = rng.choice(len(workload.tables), size=min(2, len(workload.tables)), replace=False)
        combos.append({workload.tables[i].name: rng.normal(size=workload.tables[i].shape(domain)) for i in names})
    W = numbers_by_least_squares(plan)
    f, h = (
        np.concatenate([np.ravel(c.get(t.name, np.zeros(t.shape(domain)))) for t in workload.tables]) @ W
        for c in combos
    )
    expected, size = f @ h, np.sqrt((f @ f) * (h @ h))
    assert reconstruct.covariance(plan, *combos) == pytest.approx(expected, abs=1e-5 * size)

    # biased numbers come in addition to the unbiased ones, and are declared as biased
    biased = plan.table_part.mechanism.biased(plan.table_part, noisy.answers[0])
    says = plan.table_part.mechanism.describe_bias(plan.table_part)
    words = messages.english(*says).split()
    assert plan.table_part.mechanism.unbiased == (biased is None) == (says == (UNBIASED,)) == ("biased" not in words)


def check_part(part):
    """No value is below the bound that is proven, both are recomputed, and a part that is written is read back."""
    assert 0 < part.bound <= part.objective_value
    assert part.certificate == part.mechanism.certificate(part)
    assert part.loss == part.design.loss(part.publication.adjacency)
    assert not part.publication.budget or part.exact_weighted_cost / 2 <= part.publication.budget.gaussian_rho
    document = json.loads(json.dumps(part.document()))
    parsed = type(part).read(part.mechanism, part.publication, document)
    assert parsed.document() == document
    assert same(parsed.design, part.design)


def check_answer(part):
    """Check a question: its stated cost, which is at most the requested one, and its hit rate from all outputs."""
    assert part.exact_epsilon == part.design.loss(part.publication.adjacency).epsilon <= part.query.epsilon
    parsed = type(part).read(part.publication, part.query, json.loads(json.dumps(part.document())))
    assert (parsed.document(), parsed.summary) == (part.document(), part.summary)
    if part.summary.rank_moe is not None:
        check_ranks(part)
        return
    rows = []
    for result in part.mechanism.graph.results:
        replay = Replay()
        part.design.draw((np.atleast_1d(part.mechanism.index_of(result)),), replay)
        (drawn_law,) = replay.laws
        row = law(*drawn_law)
        rows.append([Fraction(x) / sum(row) for x in row])
    right = sum(max(column) for column in zip(*rows, strict=True)) / len(rows)
    assert part.summary.hit_rate == pytest.approx(float(right), rel=EXACT)


def check_ranks(part):
    """Check that the margin of ranks holds for every database of at most the declared number of records."""
    mechanism, summary = part.mechanism, part.summary
    assert (summary.hit_rate, summary.mae, summary.rmse, summary.moe, summary.leakage) == (None,) * 5
    for x in itertools.product(range(part.query.people + 1), repeat=mechanism.graph.n):
        replay = Replay()
        part.design.draw((np.array(mechanism.index_of(x)),), replay)
        (drawn_law,) = replay.laws
        n, upto = sum(x), np.cumsum(x)
        row = law(*drawn_law)
        target_rank = part.query.quantile_level * n
        distances = [max(int(c) - count - target_rank, target_rank - int(c)) for c, count in zip(upto, x, strict=True)]
        hits = sum(w for d, w in zip(distances, row, strict=True) if d <= summary.rank_moe)
        assert n > part.query.people or hits >= summary.confidence * sum(row)


def check_report(report):
    """Plain numbers, none lost as JSON, every word seen as text; and what is shown of one key is what programs get."""
    content = document(report)
    check_plain(content)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    text = lines(report)
    assert all(line.isprintable() for line in text)
    assert all(line.isascii() for line in lines(report, "ascii"))
    assert "" not in text[:1] + text[-1:]
    texts = iter(content["sentences"])
    for section in report.sections:
        inner = functools.reduce(lambda here, step: here[step], section.place, content)
        for message in section.messages:
            assert next(texts) == {"id": message.id, "text": messages.english(message)}
            assert any(line.endswith(readable(messages.english(message))) for line in text)
            check_in_every_language(message)
        for value in section.values:
            assert value.spoken or inner[value.key] == as_read(plain(value.given))
        for table in section.tables:
            assert {len(row) for row in (*table.rows, *table.foot)} <= {len(table.columns)}
            rows = [[ENGLISH_OF_TERMINALS.kind(c.kind, x) for c, x in row] for row in table.cells]
            seen = [[*map(ENGLISH_OF_TERMINALS.heading, table.headings)], *rows] if table.rows and rows[0] else []
            assert all(any(in_order(words, line) for line in text) for words in seen)
            assert len(inner[table.key]) >= len(table.rows)
    check_headings(report)


ENGLISH = messages.translator("en")
ENGLISH_OF_TERMINALS = messages.translator("en", typeset=False)


def status_of(plan):
    """Return the ids of the status of a plan or a part, without the prefix that they share."""
    return [message.id.removeprefix("report.status.") for message in plan.status]


KINDS_BY_KEY = {
    "factors": messages.ValueKind.PRODUCT,
    "rules": messages.ValueKind.SENTENCES,
    "guess": messages.ValueKind.CHANCE,
}
"""The kinds of values of stored statements that are neither text nor numbers to six digits."""

KINDS_OF_CONDITIONS = dict.fromkeys(("column", "value", "values"), messages.ValueKind.CODE)
"""The kinds of values of the conditions on records."""


def is_statement(stated):
    """Return True if a part of a stored document names a message."""
    return isinstance(stated, dict) and str(stated.get("id")).startswith("report.")


def message_of(stated):
    """Return the message that a stored document names by its id and values."""
    if isinstance(stated, list):
        return [message_of(x) for x in stated]
    if not is_statement(stated):
        return stated
    number = messages.ValueKind.NUMBER
    kinds = {k: number if type(x) in (int, float) else messages.ValueKind.TEXT for k, x in stated.items()}
    kinds |= KINDS_OF_CONDITIONS if stated["id"].startswith("report.condition.") else KINDS_BY_KEY
    values = (messages.Value(k, message_of(x), kinds[k]) for k, x in stated.items() if k != "id")
    return messages.Message(stated["id"], tuple(values))


def in_words(stated):
    """Return a stored document with the English text in place of each statement."""
    if is_statement(stated):
        return messages.english(message_of(stated))
    if isinstance(stated, dict):
        return {key: in_words(x) for key, x in stated.items()}
    return [in_words(x) for x in stated] if isinstance(stated, list) else stated


NAMES_OF_PUBLISHER = {"name", "title", "source", "account", "written", "series", "attributes"}
"""Keys of stored documents with names of the publisher, such as the share "county in state" of two levels."""

VALUES_OF_PUBLISHER = {"attribute", "attributes", "amounts", "cells", "classes", "column", "question", "factors"}
VALUES_OF_PUBLISHER |= {"value", "values", "unit", "source"}
"""Keys of statements whose texts the publisher chose: names and values of the data."""


def check_no_sentences(stored, key=""):
    """A stored document holds ids and numbers: no text has two words, except names and titles of the publisher."""
    if is_statement(stored):
        check_in_every_language(message_of(stored))
        texts = messages.catalogue("en")
        assert stored.keys() - {"id"} == set(re.findall(r"\{(\w+)\}", texts[stored["id"]])), stored
    if isinstance(stored, dict):
        for inner_key, inner in stored.items():
            free = inner_key in ("spec", "not_counted") or (is_statement(stored) and inner_key in VALUES_OF_PUBLISHER)
            if not free and inner_key not in NAMES_OF_PUBLISHER:
                check_no_sentences(inner, inner_key)
    elif isinstance(stored, list):
        for inner in stored:
            check_no_sentences(inner, key)
    else:
        assert not isinstance(stored, str) or len(stored.split()) < 2, (key, stored)


def check_in_every_language(message):
    """Each value that a text names is a value of its message, and no text is joined from parts."""
    for code in messages.LANGUAGES:
        language = messages.translator(code)
        named = set(re.findall(r"\{(\w+)\}", language.texts[message.id]))
        assert named <= {v.key for v in message.values}, message.id
        assert language.write(message)
    for value in message.values:
        if isinstance(value.given, messages.Message):
            check_in_every_language(value.given)


def plain(given):
    """A value as documents have it: messages in English."""
    if isinstance(given, messages.Message):
        return messages.english(given)
    if isinstance(given, Mapping):
        return {key: plain(x) for key, x in given.items()}
    return [plain(x) for x in given] if isinstance(given, list | tuple) else given


def check_headings(report):
    """On a page, every cell of a table that people see is the value of its column."""
    seen = [t for s in report.sections for t in s.tables if t.rows and t.headings]
    for table, (heads, rows) in zip(seen, html_tables(fragments.report(report)), strict=True):
        columns = [(j, c) for j, c in enumerate(table.columns) if c.heading is not None]
        assert heads == [ENGLISH.heading(c.heading) for _, c in columns]
        expected = [[ENGLISH.kind(c.kind, row[j]) for j, c in columns] for row in (*table.rows, *table.foot)]
        blank = [[text.replace("\u202f", " ") for text in row] for row in rows]
        assert blank == [[readable(text.replace("\u202f", " ")).strip() for text in row] for row in expected]


def check_plain(value):
    """Check that a document has only plain JSON values: no scalars of NumPy, no fractions, nothing infinite."""
    assert type(value) in (bool, int, float, str, list, dict, type(None))
    assert not isinstance(value, float) or math.isfinite(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_plain(inner)


def as_read(value):
    return json.loads(json.dumps(value))


def in_order(word_list, line):
    """Return True if a line has all words, one after the other."""
    start = 0
    for word in word_list:
        start = line.find(word, start)
        if start < 0:
            return False
        start += len(word)
    return True


# --- designs ------------------------------------------------------------------------------------------------------

DATABASES = 250
"""Largest number of databases that a law enumerates; of more it takes those in one cell and some others."""


def check_design(design, adjacency, rng, *, exact=True):
    """Check the loss, which is the largest difference of neighbours in units of the noise, and the protocol.

    exact: True if the loss of added noise is also at most that difference; for many scales it is rounded up.
    """
    domain = domain_of(design)
    check_loss(design, adjacency, rng, exact=exact)
    table = databases(design, adjacency, rng)[-1]
    answers, replay = replayed(design, adjacency, table)

    # the counts are sufficient, and the design reads all of them
    counts = counts_of(design, table)
    for held in (counts, {m: counts[m] for m in maximal(counts)}):
        watched = Watched(Tally(held))
        repeated = design.draw(design.exact_answers(watched, adjacency, 2**40), Replay())
        assert watched.asked == set(counts)
        assert same(repeated, answers)

    # how wide integers are depends on what is declared; what does not fit wraps around
    if not replay.laws:
        cell_steps = math.prod(map(sum, steps_of(design).values()))
        huge = rng.integers(0, 2**61 // domain.size // cell_steps, size=domain.size)
        (truth, _), *others = (replayed(design, adjacency, huge, records=n) for n in (2**62, 2**40, 1))
        assert all(y.dtype.kind == "O" and all(type(v) is int for v in y) for y in truth)
        for n, (noisy, _) in zip((2**40, 1), others, strict=True):
            small, _ = replayed(design, adjacency, table, records=n)
            assert [y.dtype for y in noisy] == [y.dtype for y in small]
            assert all(same(y, in_ring(z, y.dtype)) for y, z in zip(noisy, truth, strict=True))

    # the copy: the same integers, without the values computed from them
    fresh = poisoned(design).without_cache(adjacency)
    assert same(fresh, design)
    assert fresh.loss(adjacency) == design.loss(adjacency)
    assert same(replayed(fresh, adjacency, table)[0], answers)

    # for no other domain, and serialised without floats
    steps, further = steps_of(design), {} if isinstance(design, AnswerDesign) else dict(design.structure.structured)
    sizes = {a: x.size for a, x in domain.items()} | further
    design.check(sizes, steps)
    for a in set(sizes) - {"unused"}:
        for other in (sizes | {a: sizes[a] + 1}, {b: n for b, n in sizes.items() if b != a}):
            with refused("plan.made-for-another-domain"):
                design.check(other, steps)
    json.loads(json.dumps(design.ledger_detail(adjacency)), parse_float=pytest.fail)


def check_loss(design, adjacency, rng, *, exact=False):
    """For all neighbouring tables of a few records, with the same draws: nothing differs by more than what is lost."""
    tables, seed, loss = databases(design, adjacency, rng), int(rng.integers(2**31)), design.loss(adjacency)
    assert loss.by_cell == adjacency.by_cell
    runs = [replayed(design, adjacency, x, seed) for x in tables]
    answers, replay = runs[0]
    for others, source in runs:
        assert [(y.dtype, y.shape) for y in others] == [(y.dtype, y.shape) for y in answers]
        assert source.requests == replay.requests
    surplus = np.array([np.maximum(x - tables, 0).sum(axis=1) for x in tables])  # records one has and the other has not
    steps = surplus + surplus.T if adjacency.by_cell else np.maximum(surplus, surplus.T)
    is_near = steps <= adjacency.records
    if adjacency.pattern:  # an upper bound, of those who all come, or go, where none is replaced
        fits, exact = np.array([fits_pattern(design, adjacency.pattern, x - tables) for x in tables]), False
        is_near &= fits & fits.T & (not adjacency.by_cell or np.minimum(surplus, surplus.T) == 0)
    if replay.laws:
        rows = [law(*run.laws[0]) for _, run in runs]
        assert len(set(rows)) > 1
        assert {len(row) for row in rows} == {design.mechanism.outputs}  # a reader knows how many there are
        bound = exp_below(loss.epsilon)
        for one, other in {(rows[i], rows[j]) for i, j in np.argwhere(is_near)}:
            scaled, right = bound.denominator * sum(other), bound.numerator * sum(one)
            assert all(x * scaled <= y * right for x, y in zip(one, other, strict=True))
        return
    check_noise(design, adjacency, loss, tables, is_near, runs, exact=exact)


def fits_pattern(design, pattern, additional):
    """Return True for each row of additional records, (count, cells), that keeps to a pattern.

    Attributes outside the design's domain distinguish any two records.
    """
    domain = domain_of(design)
    cells = np.maximum(additional, 0).reshape(-1, *domain.shape)

    def largest_cells(*names):
        others = tuple(1 + i for i, a in enumerate(domain) if a not in names)
        return cells.sum(axis=others).reshape(len(additional), -1)

    fits = np.ones(len(additional), dtype=bool)
    for names, cap in pattern.caps:
        fits &= largest_cells(*names).max(axis=1) <= cap if set(names) <= set(domain) else True
    for a in set(pattern.fixed) & set(domain):
        fits &= (largest_cells(a) > 0).sum(axis=1) <= 1
    for a, n in pattern.separation:
        held = largest_cells(a) > 0 if a in domain else np.zeros((len(additional), n), dtype=bool)
        for k in range(1, n):
            fits &= ~(held[:, k:] & held[:, :-k]).any(axis=1)
    return fits


def check_noise(design, adjacency, loss, tables, is_near, runs, *, exact):
    """Check for added noise that the loss, and the loss by cell, is the largest distance of the answers."""
    kinds, scales, sizes = zip(*runs[0][1].requests, strict=True)
    assert [len(y) for y in runs[0][0]] == list(design.lengths)
    assert np.array_equal(np.repeat(scales, sizes), np.repeat(design.scales, design.portions))
    (kind,) = set(kinds)
    if kind == "gaussian":
        assert loss.precision == 1 / min(map(Fraction, scales)) ** 2  # the finest noise, which says how far δ is proven
        check_moves(design, adjacency, tables, is_near, runs, (2, loss.rho, loss.axes, loss.costs), exact=exact)
        return
    axes, epsilons = design.structure.structured, [adjacency.records * root(x) for x in design.profile()]
    check_moves(design, adjacency, tables, is_near, runs, (1, loss.epsilon, axes, epsilons), exact=exact)
    assert loss.max_cell_rho == 0
    products = [m.rows.astype(object).T @ m.rows.astype(object) for m in design.measured]
    exact = exact and (adjacency.by_cell or min(x.min() for x in products) >= 0)
    check_moves(design, adjacency, tables, is_near, runs, (2, loss.rho, loss.axes, loss.implied_rho), exact=exact)


def check_moves(design, adjacency, tables, is_near, runs, stated, *, exact):
    """Check stated costs against the distances of answers.

    stated: the power of the distance (1 for |s|/t, 2 for half its square), the cost, some axes, and the cost by cell.
    """
    power, total, axes, costs = stated
    _, scales, sizes = zip(*runs[0][1].requests, strict=True)
    rates = [1 / Fraction(s) if power == 1 else 1 / (2 * Fraction(s) ** 2) for s in scales]
    unit = math.lcm(*(x.denominator for x in rates))
    weights = np.repeat(np.array([int(x * unit) for x in rates], dtype=object), sizes)
    flat = np.array([[int(v) for y in noisy for v in y] for noisy, _ in runs], dtype=object)
    pairs = [(i, j) for i, j in np.argwhere(is_near) if i < j]
    distances = [np.abs(flat[i] - flat[j]) ** power @ weights for i, j in pairs]
    slack = Fraction(len(set(scales)) > linear.EXACT_SCALES, 2**80)

    def is_cost_right(cost, moves):
        """Return True if a cost is at least every move, and if exact at most the largest."""
        largest = Fraction(int(max(moves)), unit)
        return largest <= cost and (not exact or cost <= largest * (1 + slack))

    assert is_cost_right(total, distances)
    if not adjacency.by_cell:
        return
    # records in one cell cost the part of that cell, and others at most their costliest part
    names = list(domain_of(design))
    places = np.array(list(np.ndindex(*domain_of(design).shape)))[:, [names.index(a) for a, _ in axes]]
    shape, keys = [n for _, n in axes], [a for a, _ in axes]
    which = [{index_in(shape, y) for y in possible_cells(design, keys, x)} for x in places.tolist()]
    cell_moves = [[] for _ in costs]
    for (i, j), moves in zip(pairs, distances, strict=True):
        cells = set().union(*(which[x] for x in np.flatnonzero(tables[i] != tables[j])))
        assert moves <= max(costs[c] for c in cells) * unit
        if len(cells) == 1:
            cell_moves[cells.pop()].append(moves)
    assert all(map(is_cost_right, costs, cell_moves))


def index_in(shape, position):
    """Return the index of the joint cell, in C order."""
    return int(np.ravel_multi_index(position, shape)) if shape else 0


def databases(design, adjacency, rng):
    """All tables of a few records, (count, cells), or some of them; of a question as many as it is for."""
    cells = domain_of(design).size
    people = design.query.people if isinstance(design, AnswerDesign) else None
    max_people = people or adjacency.records
    numbers = [max_people] if adjacency.fixes_size else list(range(max_people + 1))
    if math.comb(cells + max_people, max_people) <= DATABASES:
        placed = [x for n in numbers for x in itertools.combinations_with_replacement(range(cells), n)]
    else:
        placed = [(cell,) * n for n in numbers for cell in range(cells)]
        placed += [tuple(sorted(rng.integers(cells, size=n).tolist())) for n in rng.choice(numbers, 40)]
    background = 0 if people else rng.integers(0, 9, cells)
    return background + np.stack([np.bincount(np.array(x, dtype=int), minlength=cells) for x in dict.fromkeys(placed)])


def replayed(design, adjacency, table, seed=None, records=2**40):
    """Return noisy answers from a replayed noise source, and this source.

    The function checks that each draw was added, or is the answer.
    """
    counts = counts_of(design, table)
    before = {m: x.copy() for m, x in counts.items()}
    exact, replay = design.exact_answers(Tally(counts), adjacency, records), Replay(seed)
    truth = [y.astype(object) for y in exact]
    noisy = design.draw(exact, replay)
    noise = np.split(np.array(replay.drawn, dtype=object), np.cumsum([len(y) for y in noisy])[:-1])
    for y, x, z in zip(noisy, truth, noise, strict=True):
        assert same(y, in_ring(z if replay.laws else x + z, y.dtype))
    assert same(counts, before)
    return noisy, replay


def in_ring(x, dtype):
    """Whole numbers as a type holds them: as they are, or modulo 2⁶⁴."""
    return x if dtype.kind == "O" else np.array([(v + 2**63) % 2**64 - 2**63 for v in x], dtype=np.int64)


class Watched:
    """Counts that write down which of them are looked at."""

    def __init__(self, tally):
        self.tally, self.asked = tally, set()

    def __getitem__(self, margin):
        self.asked.add(margin)
        return self.tally[margin]


def root(square):
    """Return the exact root of the square of a fraction."""
    result = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    assert result**2 == square
    return result


def same(one, other):
    """Return True if two values are equal in all parts, including the types of arrays and of fields."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def poisoned(design):
    """A copy of which everything that may be computed of its integers was computed before, and wrongly."""
    out = copy.deepcopy(design)
    todo = [out]
    for x in todo:
        if is_dataclass(x):
            todo += [getattr(x, f.name) for f in fields(x)]
            wrong = [a for a, kind in inspect.getmembers_static(type(x)) if isinstance(kind, cached_property)]
            vars(x).update(dict.fromkeys(wrong, "wrong"))
        elif isinstance(x, tuple):
            todo += x
    return out


# --- counting ---------------------------------------------------------------------------------------------------


def check_attribute(sample):
    """Every value falls into the cell declared for it; published values have places, and declarations documents."""
    a = sample.attribute
    assert a.size == len(sample.cells) == len(a.values)
    for cell, values in enumerate(sample.cells):
        for v in values:
            assert a.cell(v) == cell, repr(v)
    for v in sample.outside:
        assert a.cell(v) is None, repr(v)
    assert [a.position(v) for v in a.values] == list(range(a.size))
    document = attribute_document(a)
    assert json.loads(json.dumps(document)) == document
    assert (document["type"], document["column"]) == (a.kind, a.column)


def in_cells(records):
    """The cell of every record by attribute, below 0 where it has none, in plain Python."""
    codings = {a: records.domain[a].coding for a in records.values}
    return {a: np.array([cell_of(codings[a], v) for v in records.values[a]], dtype=int) for a in codings}


def counted(domain, cells, margins):
    """Count by the definition, margin by margin, the records whose used attributes are all inside the domain."""
    used = sorted({a for m in margins for a in m})
    inside = np.all([cells[a] >= 0 for a in used], axis=0) if used else np.ones(len(next(iter(cells.values()))), bool)
    out = {}
    for m in margins:
        out[m] = np.zeros(tuple(domain[a].size for a in m), dtype=np.int64)
        np.add.at(out[m], tuple(cells[a][inside] for a in m), 1 if m else inside.sum())
    return out


def same_counts(got, expected):
    assert list(got) == list(expected)
    for m, table in expected.items():
        assert got[m].dtype == np.int64
        np.testing.assert_array_equal(got[m], table, err_msg=str(m))


def leaks_nothing(error):
    assert "nothing was" in str(error).lower()
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert error.__context__ is None  # a suppressed context would still be in the chain of errors


def check_counter(source, records, folder, *, by_one_attributes=None):
    """Check that counts are those of the records in their declared cells.

    The policy drops or reports values outside the domain. The check takes single attributes (`by_one_attributes`,
    or all), and all jointly. A dropped record is in no table.
    """
    cells = in_cells(records)
    domain = fn.Domain({a: records.domain[a] for a in cells})  # attributes that drop records are always read
    data = source.make(replace(records, domain=domain), folder)
    everything = tuple(cells)
    for policy in (DROP, REFUSE):
        counter = open_counter(data, domain, DataSource(table=source.table, outside_domain=policy))
        dropped_codes = {DROPPED, OUTSIDE} if policy is DROP else {DROPPED}
        dropping = [a for a in domain if dropped_codes & without_cell(domain[a].coding)]
        assert counter.drops == bool(dropping)
        is_inside = ~np.any([np.isin(c, list(dropped_codes)) for c in cells.values()], axis=0)
        rest = {a: c[is_inside] for a, c in cells.items()}
        by_one = [[(a,), ()] for a in (cells if by_one_attributes is None else by_one_attributes)]
        for margins in [*by_one, [everything, (), everything[::-1], everything[:1], everything]]:
            used = [a for a in cells if any(a in m for m in margins)]
            counter.check(used)
            bad = {a: n for a in domain if a in {*used, *dropping} and (n := int((rest[a] < 0).sum()))}
            if not bad:
                same_counts(counter.count(margins), counted(domain, rest, margins))
                continue
            done = []
            with pytest.raises(DataError) as caught:
                counter.count(margins, done.append)
            assert 1 not in done
            where = ", ".join(f"{n} in the column {domain.column(a)!r} (attribute {a!r})" for a, n in bad.items())
            assert caught.value.code == "data.records-outside-domain"
            assert caught.value.given.endswith(f"outside the domain: {where}.")
            assert "nothing was charged" in str(caught.value)
            leaks_nothing(caught.value)


# --- documents ----------------------------------------------------------------------------------------------------


def check_document(document, read, write, *, covered=(), is_sole=False):
    """Check that a document reads back unchanged, and that each alteration is refused or written again.

    One leaf of every kind, without regard to its place in lists, is altered in several ways. So nothing in a document
    is ignored or mistaken for something else, and damage raises an error of fitnoise.

    covered: Leaves that other checks cover. is_sole: True if only this document is correct in its place.
    """
    value = copy.deepcopy(document)
    assert same_json(write(read(value)), document)
    assert same_json(value, document)
    for kind, altered in alterations(document):
        try:
            rewritten = write(read(altered))
        except FitnoiseError:
            continue
        assert kind in covered or not (is_sole or same_json(rewritten, document)), (
            f"{'/'.join(kind)} is ignored in {altered}"
        )


def alterations(document):
    """Other documents, each with the kind of the leaf that is altered in it, or of the object with a key too much."""
    seen = set()
    for path, value in places(document):
        kind = tuple("*" if isinstance(step, int) else step for step in path)
        if kind in seen:
            continue
        seen.add(kind)
        if isinstance(value, dict) and (value or not path):
            yield (*kind, "more"), put(document, (*path, "more"), 1)
        if path:
            yield kind, put(document, path, None, drop=True)
            has_content = isinstance(value, (dict, list)) and value
            for other in () if has_content else (x for x in others(value) if not same_json(x, value)):
                yield kind, put(document, path, other)


def places(document, path=()):
    """Every place of a document with what is there, from the outside inwards."""
    stack = [(path, document)]
    while stack:  # as deep as a document may be
        path, here = stack.pop()
        yield path, here
        steps = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        stack += [((*path, step), here[step]) for step in reversed(steps)]


def others(leaf):
    """Return other values for a leaf: another value, another type of the same look, nothing."""
    kinds = {
        bool: lambda x: [not x, int(x)],
        int: lambda x: [x + 1, 2 * x + 3, -x - 1, str(x), float(x), True],
        float: lambda x: [1.5 * x + 1, -x - 1, str(x), math.nan],
        str: lambda x: [x + "x", x + "1", "", 0, [x]],
    }
    return [*kinds.get(type(leaf), lambda _: [0, "x", [1]])(leaf), {}, *([None] if leaf is not None else [])]


def put(document, path, value, *, drop=False):
    """The document with another value at a place, or with none there; all other parts are shared."""
    out = here = copy.copy(document)
    for step in path[:-1]:
        here[step] = here = copy.copy(here[step])
    if drop:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return out


def same_json(one, other):
    """Equal as texts: true is not 1, and 1 not 1.0; the order of keys has a meaning."""
    return json.dumps(one) == json.dumps(other)
