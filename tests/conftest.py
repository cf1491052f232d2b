"""Shared by all tests: one BLAS thread (many are slower on two cores), plans of the zoo made once.

Fixtures import what they need themselves, so that a file of tests imports only what its own tests ask for.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gc
import importlib
import pkgutil
import zlib
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import zoo

settings.register_profile(  # how long an example takes, or is drawn, says how busy the machine is
    "fitnoise", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fitnoise")

gc.set_threshold(5000, 10, 10)  # seeking garbage took two fifths of the time in which tests are collected

KERNEL = {
    "test_accounting", "test_amounts", "test_amounts_within_cuts", "test_arguments", "test_arrays", "test_axes",
    "test_by_class",
    "test_checks", "test_claims", "test_class_axes", "test_clusters", "test_codings", "test_composition",
    "test_conditions", "test_counting", "test_counting_margins", "test_counting_tables",
    "test_databases", "test_dates",
    "test_designs",
    "test_dropped", "test_dropped_by_rules",
    "test_domain", "test_formats", "test_exact", "test_finite_graphs", "test_finite_lazy", "test_finite_mechanisms",
    "test_finite_queries", "test_hierarchies", "test_immutable", "test_kept", "test_keys",
    "test_ledger", "test_ledger_steps", "test_losses",
    "test_margins", "test_measure", "test_merge",
    "test_noise", "test_number_of_records", "test_order", "test_parts",
    "test_patterns", "test_periods", "test_persons", "test_privacy",
    "test_products", "test_promises", "test_ranks", "test_sealed", "test_selections", "test_sets",
    "test_shares",
    "test_stores", "test_strategy", "test_tally", "test_trees", "test_units", "test_within", "test_witness",
}  # fmt: skip
"""Whose fast tests take every branch of the kernel; all others run untraced, at full speed. So do those of them that
are marked `no_cover`: tracing takes as long as the test, and others take the same branches. Engines are not traced."""


def trace(config, *, on):
    """Trace the code from here on, or stop tracing; traced code, pytest too, takes several times as long."""
    if controller := coverage_controller(config):
        (controller.resume if on else controller.pause)()


def coverage_controller(config):
    return getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    if coverage_controller(session.config):
        kernel = importlib.import_module("fitnoise.kernel")
        modules = [module.name for module in pkgutil.walk_packages(kernel.__path__, f"{kernel.__name__}.")]
        for name in (*modules, *(f"zoo.{file}" for file in zoo.ROOMS)):
            importlib.import_module(name)  # here, where lines that run once are traced
    trace(session.config, on=False)


def pytest_addoption(parser):
    parser.addoption("--sample", action="store_true", help="run one case of each test, always the same")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if config.getoption("sample"):
        cases = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        items[:] = [
            cases_of_test[zlib.crc32(name.encode()) % len(cases_of_test)] for name, cases_of_test in cases.items()
        ]
    for item in items:
        if item.path.stem not in KERNEL or item.get_closest_marker("slow"):
            item.add_marker("no_cover")


def pytest_collection_finish():
    gc.freeze()  # what tests share is not looked through again whenever garbage is sought


def pytest_unconfigure():
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test is traced with what is set up for it."""
    if item.get_closest_marker("no_cover"):
        return (yield)
    trace(item.config, on=True)
    try:
        return (yield)
    finally:
        trace(item.config, on=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    """After a test that it leaves out, the plugin goes on tracing."""
    try:
        return (yield)
    finally:
        if item.get_closest_marker("no_cover"):
            trace(item.config, on=False)


@pytest.fixture
def without_noise(monkeypatch):
    """Releases with Gaussian noise say the truth."""
    from fitnoise.kernel import noise
    from replayed_noise import Replay

    monkeypatch.setattr(noise, "discrete_gaussians", Replay().discrete_gaussians)


@pytest.fixture(scope="session")
def started():
    from fitnoise.engines import sources

    with sources.engine() as connection:
        connection.execute("SET threads = 1")
        yield connection


@pytest.fixture
def in_pieces(monkeypatch):
    """PostgreSQL reads tables of a few records in pieces, as it does large ones: by lines, where those have pages."""
    from fitnoise.engines import databases, statements
    from fitnoise.engines.dialects import DIALECTS

    postgresql = DIALECTS["postgresql"]
    pages = postgresql.pages.replace("pg_relation_size(c.oid) / CAST(current_setting('block_size') AS int)", "5")
    lines = replace(postgresql, page="CAST('(0,{n})' AS tid)", pages=pages)
    monkeypatch.setattr(databases, "DIALECTS", {**DIALECTS, postgresql.name: lines})
    for limit, value in {"_PAGES": 1, "_PLACES": 2**62, "_GROUPS": 2**62}.items():
        monkeypatch.setattr(statements, limit, value)


@pytest.fixture
def one_duckdb(started, monkeypatch):
    """Starting DuckDB takes ten times longer than counting a few records: tests may share one."""
    from fitnoise.engines import duck, frames, record_files

    @contextmanager
    def engine(_=None):
        try:
            yield started
        finally:
            started.execute("DETACH DATABASE IF EXISTS source")

    for room in (duck, record_files, frames):
        monkeypatch.setattr(room, "engine", engine)


@pytest.fixture
def one_engine(one_duckdb, in_pieces, monkeypatch):
    """Trying an engine takes ten times longer, too."""
    from fitnoise.engines import sql

    monkeypatch.setattr(sql, "refuse_unless_right", lambda *_, **__: None)


@pytest.fixture
def counted_once(monkeypatch):
    """Count each set of margins once for tests that release it many times, because they examine the noise alone."""
    from fitnoise.engines import duck

    counts, count = {}, duck.DuckCounter.count

    def counted(self, margins, progress=None):
        key = tuple(margins)
        if key not in counts:
            counts[key] = count(self, margins, progress)
        return counts[key]

    monkeypatch.setattr(duck.DuckCounter, "count", counted)
    monkeypatch.setattr(duck.DuckCounter, "check", lambda *_: None)


@pytest.fixture
def rehearsed_once(monkeypatch):
    """Read back and rehearse each plan once for tests that release it many times, because they examine the noise."""
    from fitnoise import publishing

    for name in ("read_back", "_rehearse"):
        monkeypatch.setattr(publishing, name, cache(getattr(publishing, name)))


@pytest.fixture
def hardly_searched():
    """For tests of what is done with plans, and not of how good those for pure noise are."""
    from laws.plans import hardly_searched

    with hardly_searched():
        yield


@pytest.fixture(scope="session")
def right():
    """Return the set of engines, with the ways of counting, that counted known records as declared."""
    return set()


@pytest.fixture
def tried_once(right, monkeypatch):
    """An engine that was right is not tried again: Spark takes ten seconds for it, and 60 MB for a minute more."""
    from fitnoise.engines import engine_check, sql

    def tried(fetch, d, what, **how):
        if (key := (d.name, *sorted(how.items()))) not in right:
            engine_check.refuse_unless_right(fetch, d, what, **how)
            right.add(key)

    monkeypatch.setattr(sql, "refuse_unless_right", tried)


@pytest.fixture
def standing_still(monkeypatch):
    """The clock and the salt of a charge, which the digest in a release covers: the same for all releases of a test."""
    from fitnoise.kernel import measure as measuring
    from fitnoise.kernel.ledger import rules as ledgers

    monkeypatch.setattr(measuring, "token_hex", lambda n: "00" * n)
    monkeypatch.setattr(ledgers, "datetime", SimpleNamespace(now=lambda zone: datetime(2026, 1, 1, tzinfo=zone)))


def pytest_generate_tests(metafunc):
    """Give each member of the zoo to the tests that ask for one."""
    for name, members in (("any_plan", "WORKLOADS"), ("any_request", "REQUESTS")):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, list(getattr(zoo, members)), indirect=True)


@cache
def zoo_plan(name):
    import fitnoise as fn

    return fn.plan(zoo.WORKLOADS[name](), gap=1e-6)


@pytest.fixture
def any_plan(request):
    return zoo_plan(request.param)


@cache
def request_plan(name):
    import fitnoise as fn

    return fn.plan(zoo.REQUESTS[name]())


@pytest.fixture
def any_request(request):
    return request.param, request_plan(request.param)


@pytest.fixture
def rng(request):
    """Reproducible per test: seeded by the test's own name."""
    return np.random.default_rng(list(request.node.nodeid.encode()))
