"""Counts that are made where the data are, and released elsewhere: the same, for one plan, and read by who may."""

import json
import stat
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise import publishing
from fitnoise.engines import open_counter
from fitnoise.interfaces.cli import _run
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.counting import SealedCounter, maximal, sealed
from fitnoise.kernel.counting import keys as key_files
from fitnoise.kernel.counting.keys import PrivateKeys
from fitnoise.kernel.domain import axis_key
from fitnoise.kernel.ledger import Ledger
from fitnoise.planning.plan import Plan
from fitnoise.request.documents import Spec
from refused import refused
from replayed_noise import Replay

SPEC = """
title = "Visits"

[data]
source = "visits"
outside_domain = "drop"
where = { kind = "a", year = { at_least = 2020 } }

[privacy]
unit = "person"
id = "person"
max_records = 2
once_per = ["age"]

[domain.town]
type = "hierarchy"
levels = ["region", "town"]
places = [["n", "b"], ["n", "c"], ["s", "d"]]

[domain.age]
type = "ordered"
low = 0
high = 2
missing = { "not said" = [-1] }

[domain.year]
type = "ordered"
low = 2020
high = 2022

[domain.pay]
type = "amount"
low = 0
high = 4
step = 1

[[tables]]
attributes = ["age", "region"]
margin = 9

[[tables]]
attributes = ["town"]
sum = "pay"
margin = 30

[[questions]]
name = "some"
query = "median"
attribute = "year"
people = 60
epsilon = "1/2"

[[questions]]
name = "persons with more"
query = "left_out"
people = 50
epsilon = "1/4"
"""


def visits(n=80, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "person": rng.integers(0, n // 3, n),
            "kind": rng.choice(["a", "a", "b"], n),
            "year": rng.integers(2019, 2023, n),
            "town": rng.choice(["b", "c", "d", "elsewhere"], n),
            "age": rng.integers(-1, 3, n),
            "pay": rng.integers(0, 6, n),
        }
    )


@pytest.fixture(scope="module")
def plan():
    return fn.plan(Spec.from_toml(SPEC).publication())


@pytest.fixture
def keys(tmp_path):
    return fn.new_keys(tmp_path / "own.key")


@pytest.fixture
def sealed_path(tmp_path, plan, keys):
    return fn.count(plan, visits(), tmp_path / "counts.sealed", public_key=keys[1])


def opened(plan, path, key=None):
    publication = plan.publication
    private_keys = None if key is None else PrivateKeys([key])
    return open_counter(path, publication.domain.axes, publication.source, publication.unit.bound, keys=private_keys)


def answers(plan, counter):
    source = Replay(3)
    with Ledger(":memory:") as ledger:
        measurement = measuring.measure(plan.order, counter, ledger, noise=source)
    return [[np.asarray(y).tolist() for y in part] for part in measurement.answers], source.requests, source.laws


@pytest.mark.no_cover
def test_what_is_released_of_sealed_counts_is_what_is_released_of_the_data(tmp_path, plan, keys, sealed_path):
    """Tables, sums, levels, missing values, conditions, a bound, a median, and of how many records are left out."""
    expected = answers(plan, opened(plan, visits()))
    assert answers(plan, opened(plan, sealed_path, keys[0])) == expected
    assert answers(plan, opened(plan, visits(seed=2))) != expected
    plain_path = fn.count(plan, visits(), tmp_path / "counts.plain", unsealed=True)
    assert answers(plan, opened(plan, plain_path)) == expected
    sealed_again = fn.count(plan, plain_path, tmp_path / "again.sealed", public_key=keys[1])  # sealed later
    assert answers(plan, opened(plan, sealed_again, keys[0])) == expected


@pytest.mark.no_cover
def test_each_release_of_sealed_counts_is_charged_and_counting_is_not(tmp_path, plan, keys, sealed_path):
    for i in (1, 2):
        where = {"ledger": tmp_path / "l.db", "directory": tmp_path / f"r{i}"}
        release = fn.release(plan, sealed_path, private_key=keys[0], again=True, **where)
        assert release.plan.hash == plan.hash
        with Ledger(tmp_path / "l.db") as ledger:
            assert fn.verify(tmp_path / f"r{i}", ledger=ledger).ok
            charged = [e for e in ledger.entries() if e.kind == "charge"]
        assert [e.account for e in charged] == [plan.order.account] * i


@pytest.mark.no_cover
def test_the_file_tells_nothing_but_to_who_may_open_it(tmp_path, plan, keys, sealed_path):
    """Its length is that of the plan, for any data; and two of the same counts have nothing in common."""
    empty = fn.count(plan, visits()[:0], tmp_path / "empty.sealed", public_key=keys[1])
    larger = fn.count(plan, pd.concat([visits()] * 40), tmp_path / "more.sealed", public_key=keys[1])
    same = fn.count(plan, visits(), tmp_path / "same.sealed", public_key=keys[1])
    texts = [p.read_bytes() for p in (sealed_path, empty, larger, same)]
    assert len({len(x) for x in texts}) == 1
    start = len(sealed.SEALED)
    assert len({x[:start] for x in texts}) == 1
    assert len({x[start + 12 : start + 44] for x in texts}) == 4
    plain_text = fn.count(plan, visits(), tmp_path / "plain", unsealed=True).read_bytes()
    counts = plain_text[len(sealed.UNSEALED) + 32 :]
    assert len(texts[0]) == start + 4 + 88 + 24 + 16 + len(counts)
    assert all(counts[i : i + 8] not in texts[0] for i in range(32, len(counts), 8))
    if sys.platform != "win32":
        for path in (sealed_path, tmp_path / "plain", keys[0]):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def check_refused(code, plan, *data, **how):
    with refused(code) as caught:
        opened(plan, *data, **how)
    assert "Nothing was " in str(caught.value)


def test_what_was_altered_or_is_for_another_key_is_refused(tmp_path, plan, keys, sealed_path):
    text, other = sealed_path.read_bytes(), fn.new_keys(tmp_path / "other.key")
    changed = tmp_path / "changed"
    for i in (len(sealed.SEALED) + 40, len(text) // 2, len(text) - 1):
        changed.write_bytes(text[:i] + bytes([text[i] ^ 1]) + text[i + 1 :])
        check_refused("data.sealed-counts-not-opened", plan, changed, keys[0])
    changed.write_bytes(text[:-8])
    check_refused("data.sealed-counts-not-opened", plan, changed, keys[0])
    check_refused("data.sealed-counts-for-other-keys", plan, sealed_path, other[0])
    check_refused("data.sealed-counts-need-key", plan, sealed_path)
    plain_path = fn.count(plan, visits(), tmp_path / "plain", unsealed=True)
    text = plain_path.read_bytes()
    changed.write_bytes(text[:-1] + bytes([text[-1] ^ 1]))
    check_refused("data.counts-altered", plan, changed)
    changed.write_bytes(text[:-8])
    check_refused("data.counts-altered", plan, changed)
    check_refused("data.counts-not-sealed", plan, plain_path, keys[0])
    check_refused("data.key-without-sealed-counts", plan, visits(), keys[0])
    check_refused("data.key-without-sealed-counts", plan, opened(plan, visits()), keys[0])


def test_counts_that_were_made_up_are_refused_where_they_fit_no_plan(tmp_path, plan):
    plain_counts = opened(plan, fn.count(plan, visits(), tmp_path / "plain", unsealed=True))
    margins = measuring._counter_margins(measuring._required_margins(plan.order))
    counts = plain_counts.count(margins)
    for body in (b"", bytes(7), bytes(12)):
        (tmp_path / "short").write_bytes(
            sealed.UNSEALED + sealed.hashlib.sha256(32 * b"x" + body).digest() + 32 * b"x" + body
        )
        check_refused("data.counts-cut-off", plan, tmp_path / "short")
    fewer = {m: x for m, x in counts.items() if m != margins[0]}
    (tmp_path / "fewer").write_bytes(sealed.sealed(plain_counts.fingerprint, fewer, None, None))
    other = opened(plan, tmp_path / "fewer")
    with Ledger(":memory:") as ledger, refused("data.counts-of-other-tables"):
        measuring.measure(plan.order, other, ledger)
    (tmp_path / "unasked").write_bytes(sealed.sealed(plain_counts.fingerprint, counts, None, None))
    with Ledger(":memory:") as ledger:
        with refused("data.left-out-not-counted"):
            measuring.measure(plan.order, opened(plan, tmp_path / "unasked"), ledger)
        assert ledger.entries() == []
    reports = []
    assert plain_counts.count(margins[::-1], reports.append).keys() == counts.keys()
    assert reports == [1.0]
    plain_counts.check(["anything"])
    assert maximal(margins) == margins


def test_counts_of_places_nested_otherwise_are_of_another_plan():
    """The key of a hierarchy is that of its leaves: two nestings of them have one key, and other counts by region."""
    domains = [
        fn.Domain(town=fn.Hierarchy(["region", "town"], list(zip(regions, "abcd", strict=True))))
        for regions in ("nsss", "nnns")
    ]
    order = fn.plan(fn.Workload(domains[0], [fn.table("region", margin=9)])).order
    other = replace(order, domain=domains[1].axes)
    assert order.domain.sizes == other.domain.sizes
    assert axis_key(order.domain, "town") == axis_key(other.domain, "town")
    assert measuring._counts_fingerprint(order) != measuring._counts_fingerprint(other)


def test_counts_are_of_one_plan_and_of_all_that_decides_what_is_counted(tmp_path, plan, sealed_path, keys):
    """Counts of another plan are refused even with the same tables, or with an equal hash and other counts."""
    other = fn.plan(
        Spec.from_toml(SPEC.replace("Visits", "More visits").replace("margin = 30", "margin = 31")).publication()
    )
    with (
        Ledger(tmp_path / "l.db") as ledger,
        refused("data.counts-of-another-plan"),
    ):
        fn.release(other, sealed_path, private_key=keys[0], ledger=ledger)
    order = plan.order
    publication = plan.publication
    sources = [
        replace(publication.source, where={"kind": "a", "year": {"at_least": 2021}}),
        replace(publication.source, where={"kind": ["a", "b"], "year": {"at_least": 2020}}),
        replace(publication.source, outside_domain="refuse"),
    ]
    domain = fn.Domain({a: fn.Ordered(0, 3) if a == "age" else publication.domain[a] for a in publication.domain})
    orders = [replace(order, source=s) for s in sources]
    orders += [
        replace(order, unit=replace(publication.unit, max_records=3)),
        replace(order, unit=replace(publication.unit, id="p")),
    ]
    orders += [replace(order, designs=order.designs[:1]), replace(order, plan="0" * 64)]
    fingerprints = [measuring._counts_fingerprint(x) for x in orders]
    assert domain.sizes == publication.domain.sizes
    fingerprints += [
        measuring._counts_fingerprint(replace(order, domain=domain.axes)),
        measuring._counts_fingerprint(order),
    ]
    assert len(set(fingerprints)) == len(fingerprints)
    sealed_counts = opened(plan, sealed_path, keys[0])
    assert sealed_counts.fingerprint == fingerprints[-1]
    assert (sealed_counts.drops, sealed_counts.bound, sealed_counts.where) == (
        True,
        publication.unit.bound,
        publication.source.conditions,
    )
    with Ledger(":memory:") as ledger:
        for wrong in orders[-2:]:
            with refused("data.counts-of-another-plan"):
                measuring.measure(wrong, sealed_counts, ledger)
        assert ledger.entries() == []


def test_what_cannot_be_released_is_not_counted(tmp_path, plan, keys):
    """The rules of a release apply before a record is read; if the data do not fit, no file is written."""
    costly = replace(plan.order, limits=(fn.Budget(rho=1e-9).limit("cap"),))
    counter = opened(plan, visits())
    with refused("plan.plan-above-limit"):
        measuring.sealed(costly, counter, None)
    with refused("plan.composed-plans-with-id"):
        measuring.sealed(replace(plan.order, composed_with=("1" * 64,)), counter, None)
    with refused("data.bound-differs"):
        measuring.sealed(replace(plan.order, unit=replace(plan.publication.unit, id="p")), counter, None)
    with refused("data.column-missing"):
        fn.count(plan, visits().drop(columns="pay"), tmp_path / "none", public_key=keys[1])
    assert not (tmp_path / "none").exists()


# --- keys, files, words -----------------------------------------------------------------------------------------------


def test_keys_are_what_they_are_called(tmp_path, plan, keys, sealed_path, monkeypatch):
    private, public = keys
    odd = tmp_path / "odd.key"
    digits = private.read_text().strip().removeprefix(key_files.PRIVATE)
    texts = [
        "",
        "key",
        digits,
        key_files.PRIVATE,
        key_files.PRIVATE + digits[:-2],
        key_files.PRIVATE + "é" * 32,
        "x" * 2000,
    ]
    for text in (*texts, key_files.PRIVATE + "g" * 64):
        odd.write_text(text, encoding="utf-8")
        odd.chmod(0o600)
        check_refused("data.key-file-invalid", plan, sealed_path, odd)
    check_refused("data.key-of-other-kind", plan, sealed_path, public)
    check_refused("data.key-file-not-read", plan, sealed_path, tmp_path / "gone.key")
    with refused("data.key-of-other-kind"):
        fn.count(plan, visits(), tmp_path / "c", public_key=private)
    odd.write_text("")
    with refused("data.key-file-invalid"):
        fn.count(plan, visits(), tmp_path / "c", public_key=odd)
    if sys.platform != "win32":
        private.chmod(0o640)
        check_refused("data.private-key-exposed", plan, sealed_path, private)
        private.chmod(0o600)
    for path in keys:
        with refused("release.place-exists"):
            fn.new_keys(path if path == private else tmp_path / "own.key")
    before = public.read_text()
    private.rename(tmp_path / "moved.key")
    with refused("release.place-exists"):
        fn.new_keys(private)
    assert (public.read_text(), private.exists()) == (before, False)
    with refused("release.folder-not-writable"):
        fn.new_keys(tmp_path / "nowhere" / "own.key")
    monkeypatch.setitem(sys.modules, "nacl.public", None)
    check_refused("data.pynacl-missing", plan, sealed_path, tmp_path / "moved.key")
    for make in (
        lambda: fn.new_keys(tmp_path / "new.key"),
        lambda: key_files.seal([bytes(32)], b""),
        lambda: key_files.read_public_key(public),
    ):
        with refused("data.pynacl-missing"):
            make()
    assert not (tmp_path / "new.key").exists()


def test_an_interruption_between_two_keys_leaves_none(tmp_path, monkeypatch):
    replace = publishing.replace_file

    def interrupted(path, *options):
        if path.suffix == ".pub":
            raise KeyboardInterrupt
        replace(path, *options)

    monkeypatch.setattr(publishing, "replace_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fn.new_keys(tmp_path / "own.key")
    assert not list(tmp_path.iterdir())


def test_a_file_is_made_or_not_and_what_is_none_is_no_counts(tmp_path, plan, keys, sealed_path):
    for how in ({}, {"unsealed": True, "public_key": keys[1]}):
        with refused("release.sealed-or-unsealed"):
            fn.count(plan, visits(), tmp_path / "c", **how)
    with refused("release.place-exists"):
        fn.count(plan, visits(), sealed_path, unsealed=True)
    with refused("release.folder-not-writable"):
        fn.count(plan, visits(), tmp_path / "nowhere" / "c", unsealed=True)
    with refused("data.table-of-sealed-counts"):
        fn.release(plan, sealed_path, ledger=tmp_path / "l.db", private_key=keys[0], table="visits")
    assert not (tmp_path / "l.db").exists()
    (tmp_path / "short").write_bytes(sealed.SEALED[:9])
    assert [sealed.is_sealed(x) for x in
            (sealed_path, str(sealed_path), tmp_path / "short", tmp_path, tmp_path / "no", 3)] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
    with refused("data.counts-file-not-read"):
        SealedCounter(tmp_path / "gone", plan.publication.domain.axes, plan.publication.source)


def test_on_the_command_line(tmp_path, monkeypatch, plan, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(plan.to_json())
    visits().to_csv("visits.csv", index=False)
    assert _run(["count", "keys", "own.key", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)
    key_id = key_files.key_id(key_files.read_public_key("own.key.pub"))
    assert names == {"private": "own.key", "public": "own.key.pub", "id": key_id}
    command = ["count", "plan.json", "visits.csv", "-o"]
    assert _run([*command, "counts.sealed", "--public-key", "own.key.pub", "--json"]) == 0
    output = capsys.readouterr()
    dropped = {"records": 30, "dropped": 8, "attributes": {"town": 8}, "without_id": 0}
    expected = {"plan": plan.hash, "file": "counts.sealed", "sealed": True, "keys": [key_id], "dropped": dropped}
    assert json.loads(output.out) == expected
    assert "wrote counts.sealed, which holds exact counts, sealed" in output.err
    assert _run([*command, "counts.plain", "--unsealed"]) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert "wrote counts.plain, which holds exact counts: keep it as the data are kept" in output.err
    release = ["release", "plan.json", "counts.sealed", "--ledger", "l.db", "-o", "r"]
    assert _run(release) == 6
    assert "Give the private key (--key)." in capsys.readouterr().err
    assert _run([*release, "--key", "own.key"]) == 0
    assert _run(["verify", "r", "--ledger", "l.db"]) == 0
    assert _run([*command, "more"]) == 8
    assert "[release.sealed-or-unsealed]" in capsys.readouterr().err
    assert Plan.from_json((tmp_path / "r" / "plan.json").read_text()).hash == plan.hash
