"""Public totals: prices, bounds and covariances without their sectors; releases that follow from answers and file."""

import contextlib
import hashlib
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space

import fitnoise as fn
from dense import kron, strategy_matrix, workload_matrix
from designs import cells_over, of_sectors
from fitnoise.algebra import rules
from fitnoise.errors import FitnoiseError, ReleaseError, SpecError, WorkloadError
from fitnoise.interfaces.cli import main
from fitnoise.kernel import noise
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.messages import english
from fitnoise.reading.release_files import to_json
from fitnoise.request.known_totals import KnownTotals, confirmation, parse_totals
from fitnoise.solving import sectors
from fitnoise.solving.sectors import CENTRE_BITS
from fitnoise_check import plan as checker
from fitnoise_check.exact import Wrong
from laws.releases import drawn_errors
from refused import refused
from replayed_noise import Replay
from tolerances import GAP, LOOSE, as_often_as
from zoo import REQUESTS

REPLACED = fn.PrivacyUnit(neighbours=Neighbours.REPLACE_ONE)
REGISTER = "Population register, 1 January 2026"
SENTENCE = "The numbers in totals.csv were public before and were not computed from these data."


def of_sizes(**sizes):
    return fn.Domain({a: fn.Categorical(list(range(n))) for a, n in sizes.items()})


def planned(domain, tables, public, **settings):
    """Return the plan of tables (attributes, variance); `public` names attributes, and None no totals."""
    statement = None if public is None else KnownTotals(tuple(public), REGISTER)
    return fn.plan(fn.Workload(domain, [fn.table(*a, variance=c) for a, c in tables]), public=statement, **settings)


def margin(x):
    return (x / 1.959963984540054) ** 2


STATES = (
    {"state": 51, "status": 4, "kids": 4, "self": 2},
    [
        (("state", "status"), margin(15)),
        (("state", "kids", "status"), margin(15)),
        (("state", "self"), margin(15)),
        (("state",), margin(100)),
    ],
)
PLACES = (
    {"block": 200, "race": 7, "sex": 2, "age": 10},
    [
        (("block",), margin(30)),
        (("block", "race"), margin(20)),
        (("block", "sex", "age"), margin(20)),
        (("race", "sex", "age"), margin(60)),
    ],
)
SMALL = [
    ({"a": 3, "b": 4}, [("a", 1), ("ab", 1)], "a", 0.5625),
    ({"a": 2, "b": 3}, [("ab", 1), ("b", 0.5), ("a", 1)], "a", 1.015873),
    ({"a": 2, "b": 2, "c": 3}, [("ab", 1), ("bc", 1), ("c", 0.3)], "a", 1.887249),
    ({"a": 2, "b": 2, "c": 3}, [("abc", 1), ("bc", 0.7)], "ab", 0.769601),
    *(({"a": n}, [("a", 1)], "", (1 - 1 / n) ** 2) for n in (2, 4, 10)),
]
EXAMPLES = [
    *SMALL,
    *((*STATES, public, 2 * rho) for public, rho in ((None, 0.019129), ((), 0.018954), (("state",), 0.012058))),
    (*STATES, ("state", "status"), 2 * 0.006936),
    *((*PLACES, public, 2 * rho) for public, rho in ((None, 0.010656), (("block",), 0.008328))),
]


@pytest.mark.parametrize(("sizes", "tables", "public", "cost"), EXAMPLES)
def test_public_totals_lower_the_price_as_computed_before(sizes, tables, public, cost):
    plan = planned(of_sizes(**sizes), tables, public)
    assert float(plan.loss.cost_squared) == pytest.approx(cost, rel=1e-4)
    assert plan.gap <= GAP
    repeated = fn.Plan.from_json(plan.to_json())
    assert (repeated.to_json(), repeated.publication) == (plan.to_json(), plan.publication)
    assert plan.table_part.relaxation <= 1


def of_cells(sizes, names):
    """Return the cell of each joint value of all attributes among those of some attributes, and their number."""
    cells = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    chosen = [i for i, a in enumerate(sizes) if a in names]
    shape = tuple(list(sizes.values())[i] for i in chosen)
    index = np.ravel_multi_index([cells[i] for i in chosen], shape) if chosen else np.zeros(cells.shape[1], int)
    return index, int(np.prod(shape, dtype=int))


def margins_of(sizes, tables):
    """Return all numbers of tables as queries of the joint cells."""
    return np.concatenate(
        [kron([np.eye(n) if a in displayed else np.ones((1, n)) for a, n in sizes.items()]) for displayed, _ in tables]
    )


@pytest.mark.parametrize(("sizes", "tables", "public", "cost"), SMALL)
def test_no_mechanism_with_the_totals_is_below_the_bound(sizes, tables, public, cost):
    """Any covariance of all numbers that meets the targets, and any use of the totals, costs the bound or more."""
    rng = np.random.default_rng(5)
    plan, queries = planned(of_sizes(**sizes), tables, public), margins_of(sizes, tables)
    targets = np.concatenate([np.full(len(margins_of(sizes, [t])), t[1]) for t in tables])
    index, count = of_cells(sizes, public)
    rows, scales = strategy_matrix(plan)
    pseudo_inverse = np.linalg.pinv(rows.astype(float) / scales[:, None])
    min_cost = cost * 4
    for fraction in (0, *rng.uniform(0, 1, 60)):
        directions = rng.normal(size=(len(queries),) * 2)
        covariance = (
            queries @ pseudo_inverse @ pseudo_inverse.T @ queries.T
            + 1e-7 * np.eye(len(queries))
            + fraction * directions @ directions.T / 50
        )
        covariance /= max(np.diag(covariance) / targets)
        means = np.stack([queries[:, index == f].mean(axis=1) for f in range(count)], axis=1)
        centred = queries - (means + fraction * rng.normal(size=means.shape) / 10)[:, index]
        min_cost = min(min_cost, np.einsum("ji,ji->i", centred, np.linalg.solve(covariance, centred)).max())
    assert plan.bound <= min_cost * (1 + 1e-6)
    # the plan itself is among these mechanisms, so that the bound is tight
    assert min_cost == pytest.approx(plan.bound, rel=1e-3)


@pytest.mark.parametrize(("sizes", "tables", "public", "cost"), SMALL)
def test_a_plan_measures_no_total(sizes, tables, public, cost):
    """Equal changes of all cells of a public cell change no measured integer; every other change does."""
    del cost
    plan = planned(of_sizes(**sizes), tables, public)
    rows, _ = strategy_matrix(plan)
    index, count = of_cells(sizes, public)
    assert not any(rows[:, index == f].sum(axis=1).any() for f in range(count))


@pytest.mark.parametrize(("sizes", "tables", "public", "cost"), SMALL)
def test_errors_are_those_of_least_squares_given_the_totals(sizes, tables, public, cost):
    del cost
    plan = planned(of_sizes(**sizes), tables, public)
    rows, scales = strategy_matrix(plan)
    pseudo_inverse = np.linalg.pinv(rows.astype(float) / scales[:, None])
    covariance = margins_of(sizes, tables) @ pseudo_inverse @ pseudo_inverse.T @ margins_of(sizes, tables).T
    part = plan.table_part
    names = [t.name for t in plan.publication.workload.tables]
    stated = np.concatenate([part.table_variances(name).ravel() for name in names])
    np.testing.assert_allclose(stated, np.diag(covariance), rtol=LOOSE, atol=1e-12)


cases = st.tuples(st.lists(st.integers(2, 3), min_size=1, max_size=3), st.integers(0, 2**32))


@given(cases)
def test_the_price_of_sectors_without_totals_is_that_of_all_neighbours(case):
    """Random integers on random sectors that are not public; all records, as Fractions."""
    sizes, seed = case
    rng = np.random.default_rng(seed)
    public = {a for a in range(len(sizes)) if rng.random() < 0.5}
    subsets = [[a for a in range(len(sizes)) if mask >> a & 1] for mask in range(2 ** len(sizes))]
    measured = [s for s in subsets if not public.issuperset(s) and rng.random() < 0.8]
    if not measured:
        return
    scales = {tuple(s): ([[int(rng.integers(1, 9))]], 1024 * float(rng.integers(1, 9))) for s in measured}
    by_size = {}
    for s, x in scales.items():
        by_size.setdefault(len(s), {})[s] = x
    design = of_sectors(cells_over(tuple(sizes)), *(([[1]], group) for group in by_size.values()))
    costs = [Fraction(0)] * int(np.prod(sizes))
    for s, (((mixing,),), scale) in scales.items():
        factors = [
            (np.array([[1, -1]]) if n == 2 else n * np.eye(n, dtype=int) - 1) if a in s else np.ones((1, n), int)
            for a, n in enumerate(sizes)
        ]
        for row in mixing * kron(factors):
            costs = [c + Fraction(int(x)) ** 2 / Fraction(scale) ** 2 for c, x in zip(costs, row, strict=True)]
    assert design.cost_squared(Neighbours.ADD_OR_REMOVE_ONE) == max(costs)


def test_the_program_without_fitnoise_agrees(tmp_path, capsys):
    (tmp_path / "plan.json").write_text(planned(of_sizes(**STATES[0]), STATES[1], ("state",)).to_json())
    assert checker.main(str(tmp_path / "plan.json")) == 0
    assert "bound as stated" in capsys.readouterr().out
    text = planned(of_sizes(a=2, b=3), [("ab", 1)], ()).to_json().encode()
    assert [*checker.check(text)][-1].startswith("  bound as stated")
    for other in (b'"by":["c"],', b'"by":[],"origin":"these data",'):
        with pytest.raises(Wrong, match="public totals"):
            [*checker.check(text.replace(b'"by":[],', other))]
    # no part measures an attribute of the totals that has a table of its own
    separate = planned(of_sizes(a=2, b=3), [("a", 1), ("b", 1)], ("a",)).to_json().encode()
    assert [*checker.check(separate)][-1].startswith("  bound as stated")
    one_value = planned(of_sizes(a=1, b=3), [("ab", 1)], ("a",), unit=REPLACED).to_json().encode()
    assert [*checker.check(one_value)][-1].endswith("not computed: an attribute of one value")
    # totals from elsewhere and replaced records: every two records are neighbours
    replaced = planned(of_sizes(a=2, b=3), [("ab", 1)], ("a",), unit=REPLACED).to_json().encode()
    assert [*checker.check(replaced)][-1].startswith("  bound as stated")


# --- releases ---------------------------------------------------------------------------------------------------------

DOMAIN = fn.Domain(
    state=fn.Categorical(["Ohio", "Iowa", "Utah"]),
    sex=fn.Categorical([1, 2], missing={"unknown": [""]}, if_missing="unknown"),
    status=fn.Categorical(["single", "married", "widowed", "other"]),
)
TABLES = [
    fn.table("state", margin=50),
    fn.table("status", "state", margin=15),
    fn.table("sex", "state", "status", margin=15),
    fn.table("sex", margin=15),
    fn.table(margin=20, name="all"),
]
BY_STATE = KnownTotals(("state",), REGISTER)
PLAN = fn.plan(fn.Workload(DOMAIN, TABLES), public=BY_STATE, source=fn.DataSource("people"))
COUNTS = np.random.default_rng(2).integers(20, 90, (3, 3, 4))
TOTALS = COUNTS.sum(axis=(1, 2))
TEXT = "number,state\n" + "".join(f"{n},{s}\n" for n, s in zip(TOTALS, ["Ohio", "Iowa", "Utah"], strict=True))


def release(folder, text=TEXT, data=COUNTS, plan=PLAN, name="out", file="totals.csv", encoding="utf-8", **options):
    (folder / file).write_text(text, encoding=encoding, newline="")
    given_options = {"public": folder / file, "public_confirm": SENTENCE} | options
    return fn.release(plan, data, ledger=folder / "ledger.db", directory=folder / name, **given_options)


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def files_without_charge(folder):
    """Return the files of a release, and release.json without the entry of its charge."""
    content = files(folder)
    document = json.loads(content.pop("release.json"))
    del document["ledger"]  # its digest covers the time and the salt of the charge
    return content, to_json(document)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("done")
    return folder, release(folder)


def test_tables_keep_the_totals_to_the_last_integer(done):
    _, result = done
    for name in result:
        frame = result[name]
        if "state" in frame:
            sums = frame.groupby("state", sort=False)["value"].sum()
            np.testing.assert_allclose(sums[["Ohio", "Iowa", "Utah"]], TOTALS, atol=1e-8)
        else:
            assert frame["value"].sum() == pytest.approx(TOTALS.sum(), abs=1e-8)
    assert result["state"]["value"].tolist() == TOTALS.tolist()
    assert not result["state"][["std_error", "moe"]].to_numpy().any()
    assert (result["sex by state by status"]["std_error"] > 0).all()


def test_questions_have_the_totals_without_error(done):
    _, result = done
    frame = result.count(by="state").frame()
    assert frame["value"].tolist() == TOTALS.tolist()
    assert not frame["std_error"].any()
    married = result.count(status="married", by="state")
    shares = (married / result.count(by="state")).frame()
    np.testing.assert_allclose(shares["value"], married.frame()["value"] / TOTALS)
    # one part of the ratio has noise
    widths = shares["high"] - shares["low"]
    np.testing.assert_allclose(widths, 2 * married.frame()["moe"] / TOTALS, rtol=1e-6)


def test_the_kernel_measures_nothing_of_the_totals(tmp_path):
    """The counts of a state rise by one in every cell: the exact answers stay."""
    larger = COUNTS + np.array([5, 0, 11])[:, None, None]
    answers = [
        PLAN.table_part.strategy.exact_answers(counted(x), PLAN.publication.adjacency, 10**6) for x in (COUNTS, larger)
    ]
    for one, other in zip(*answers, strict=True):
        assert one.tolist() == other.tolist()


def counted(counts):
    strategy = PLAN.table_part.strategy
    names = list(DOMAIN)
    return {
        m: counts.transpose([*(names.index(a) for a in m), *(i for i, a in enumerate(names) if a not in m)])
        .reshape(*(DOMAIN[a].size for a in m), -1)
        .sum(axis=-1)
        for m in strategy.margins()
    }


def test_a_release_does_not_depend_on_the_totals_of_the_data(tmp_path, monkeypatch):
    """Data of equal measured integers and other totals give the same release, byte for byte."""
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(7).discrete_gaussians)
    larger = COUNTS + np.array([5, 0, 11])[:, None, None]
    out = []
    for name, data in (("one", COUNTS), ("other", larger)):
        (tmp_path / name).mkdir()
        release(tmp_path / name, data=data)
        out.append(files_without_charge(tmp_path / name / "out"))
    assert out[0] == out[1]


def test_every_file_follows_from_the_answers_and_the_file(done, tmp_path):
    folder, result = done
    totals = parse_totals("totals.csv", TEXT, BY_STATE, DOMAIN)
    repeated = fn.Release(PLAN, result.answers, entry=result.entry, public_totals=totals)
    assert repeated == result
    repeated = fn.Release(PLAN, result.answers, charge=result.charge, public_totals=totals)
    repeated.write(tmp_path / "repeated")
    assert files(tmp_path / "repeated") == files(folder / "out")
    assert fn.Release.read(folder / "out") == result
    other = parse_totals("totals.csv", TEXT.replace(f"{TOTALS[0]},", f"{TOTALS[0] + 4},"), BY_STATE, DOMAIN)
    shifted = fn.Release(PLAN, result.answers, charge=result.charge, public_totals=other)
    assert shifted != result
    # a total that is off by d moves each of n interchangeable cells by d/n
    change = shifted["sex by state by status"]["value"] - result["sex by state by status"]["value"]
    np.testing.assert_allclose(
        change, np.where(result["sex by state by status"]["state"] == "Ohio", 4 / 12, 0), atol=1e-9
    )


def test_a_release_states_and_keeps_the_file(done):
    folder, result = done
    document = json.loads((folder / "out" / "release.json").read_text())
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    stated = document["public_totals"]
    assert (stated["file"], stated["sha256"]) == ("totals.csv", digest)
    assert document["spec"]["public"] == [{"by": ["state"], "source": REGISTER}]
    assert (folder / "out" / "public_totals.csv").read_text() == TEXT
    assert str(TOTALS[0]) not in PLAN.to_json()
    with Ledger(folder / "ledger.db") as book:
        detail = book.entries()[0].detail
    assert (detail["public_totals"], detail["confirmed"]) == (digest, SENTENCE)
    universe = " ".join(result["sex"].attrs["universe"])
    assert "intervals are right only if they are" in universe
    assert REGISTER in universe


def test_verification_recomputes_with_the_file(done, tmp_path):
    folder, _ = done
    assert fn.verify(folder / "out", ledger=folder / "ledger.db").ok
    content = files(folder / "out")
    altered = {
        "another file": {"public_totals.csv": TEXT.replace(f"{TOTALS[0]},", f"{TOTALS[0] + 1},").encode()},
        "another digest": {
            "release.json": content["release.json"].replace(
                hashlib.sha256(TEXT.encode()).hexdigest().encode(), b"0" * 64
            )
        },
        "no file": {"public_totals.csv": None},
        "no statement": {"release.json": without(content["release.json"], "public_totals")},
        "another form": {"release.json": content["release.json"].replace(b'"file": "totals.csv"', b'"file": 5')},
        "a further key": {
            "release.json": content["release.json"].replace(b'"file": "totals.csv"', b'"file": "a", "b": 1')
        },
    }
    for name, changes in altered.items():
        path = tmp_path / name
        for file, bytes_ in (content | changes).items():
            if bytes_ is not None:
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                (path / file).write_bytes(bytes_)
        assert not fn.verify(path).ok, name
        with pytest.raises(ReleaseError):
            fn.Release.read(path)


def without(text, key):
    document = json.loads(text)
    del document[key]
    return to_json(document).encode()


def test_the_ledger_must_name_the_file(done, tmp_path):
    """A release with another file and its digest verifies alone, and not with the ledger."""
    folder, result = done
    other = parse_totals("totals.csv", TEXT.replace(f"{TOTALS[0]},", f"{TOTALS[0] + 1},"), BY_STATE, DOMAIN)
    fn.Release(PLAN, result.answers, charge=result.charge, public_totals=other).write(tmp_path / "other")
    assert fn.verify(tmp_path / "other").ok
    checks = fn.verify(tmp_path / "other", ledger=folder / "ledger.db").checks
    assert [english(x.finding) for x in checks if not x.holds] == [
        "entry 1 of the ledger names another file of public totals, or none"
    ]


def test_the_command_asks_for_the_sentence(tmp_path, capsys):
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    (tmp_path / "totals.csv").write_text(TEXT)
    rows = np.repeat(np.argwhere(COUNTS >= 0), COUNTS.ravel(), axis=0)
    states, statuses = ["Ohio", "Iowa", "Utah"], ["single", "married", "widowed", "other"]
    lines = (f"{states[s]},{['1', '2', ''][x]},{statuses[m]}\n" for s, x, m in rows)
    (tmp_path / "people.csv").write_text("state,sex,status\n" + "".join(lines))
    command = ["release", str(tmp_path / "plan.json"), str(tmp_path / "people.csv")]
    command += ["--ledger", str(tmp_path / "ledger.db"), "-o", str(tmp_path / "out")]
    with pytest.raises(SystemExit):
        main([*command, "--public", str(tmp_path / "totals.csv")])
    assert confirmation("totals.csv", BY_STATE, "record") == SENTENCE
    assert f'"{SENTENCE}"' in capsys.readouterr().err
    assert not (tmp_path / "ledger.db").exists()
    confirmed = ["--public", str(tmp_path / "totals.csv"), "--public-confirm", SENTENCE]
    main([*command, *confirmed])
    assert "the totals by state were public before" in capsys.readouterr().out
    main(["ask", str(tmp_path / "out"), "count()", "--by", "state"])
    assert "intervals are right only if they are" in capsys.readouterr().out
    main(["ask", str(tmp_path / "out"), "count()", "--by", "state", "--csv"])
    assert "intervals are right only if they are" in capsys.readouterr().err
    main(["write", "record", str(tmp_path / "out"), "-o", str(tmp_path / "record.yaml")])
    assert 'unprotected_quantities: "the totals by state were public before' in (tmp_path / "record.yaml").read_text()
    write_release_without_totals(tmp_path)
    capsys.readouterr()
    main(["ask", str(tmp_path / "other"), "other.count()", "--other", str(tmp_path / "out")])
    assert "the totals by state were public before" in capsys.readouterr().out
    main(["write", "report", str(tmp_path / "out"), "-o", str(tmp_path / "page.html")])
    assert "intervals are right only if they are" in (tmp_path / "page.html").read_text()


def write_release_without_totals(folder):
    plan = fn.plan(fn.Workload(DOMAIN, TABLES), source=fn.DataSource("people"))
    fn.release(plan, COUNTS, ledger=folder / "ledger.db", directory=folder / "other")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"public": None, "public_confirm": None}, "public-file-misfit"),
        ({"public_confirm": None}, "public-not-confirmed"),
        ({"public_confirm": SENTENCE.replace("totals", "others")}, "public-not-confirmed"),
        ({"text": TEXT.replace("state", "place")}, "public-file-columns"),
        ({"text": TEXT + "5,Ohio,1\n"}, "public-row-length"),
        ({"text": TEXT.replace(f"{TOTALS[0]},", "1,000,")}, "public-row-length"),
        ({"text": TEXT + "\n"}, "public-row-length"),
        ({"file": "totals\n.csv"}, "public-file-name"),
        ({"text": TEXT.replace("Ohio", "\u00c4"), "encoding": "latin-1"}, "file-not-utf8"),
        ({"text": ""}, "public-file-columns"),
        ({"text": TEXT.replace("Ohio", 'Oh"io"').replace("number", '"number')}, "public-file-no-csv"),
        ({"text": TEXT.replace(str(TOTALS[0]), "-1")}, "public-number-unusable"),
        ({"text": TEXT.replace(str(TOTALS[0]), "1.0")}, "public-number-unusable"),
        ({"text": TEXT.replace(str(TOTALS[0]), "9" * 16)}, "public-number-unusable"),
        ({"text": TEXT + "5,Ohio\n"}, "public-cell-twice"),
        ({"text": TEXT.replace(f"{TOTALS[2]},Utah\n", "")}, "public-cell-missing"),
        ({"text": "number,state\n"}, "public-cell-missing"),
        ({"text": TEXT.replace("Iowa", "Ohio")}, "public-cell-twice"),
        ({"text": TEXT.replace("Iowa", "Idaho")}, "public-value-unknown"),
    ],
)
def test_a_wrong_file_is_refused_before_the_charge(tmp_path, options, code):
    with refused(f"release.{code}"):
        release(tmp_path, data="no such data.csv", **options)
    assert not (tmp_path / "ledger.db").exists()


def test_totals_above_exact_sums_are_refused():
    rows = "".join(f"{'9' * 15},{i}\n" for i in range(10))
    with refused("release.public-total-too-large"):
        parse_totals("t.csv", "number,a\n" + rows, KnownTotals(("a",), REGISTER), of_sizes(a=10))


def test_a_file_for_a_plan_without_public_totals_is_refused(tmp_path):
    without_public = fn.plan(fn.Workload(DOMAIN, TABLES), source=fn.DataSource("people"))
    with refused("release.public-file-misfit"):
        release(tmp_path, plan=without_public)
    with refused("release.public-file-misfit"):
        release(tmp_path, plan=without_public, public=None)
    answers = [np.zeros(n, dtype=np.int64) for n in PLAN.table_part.strategy.lengths]
    with refused("release.public-totals-misfit"):
        fn.Release(PLAN, answers)
    with refused("release.public-totals-misfit"):
        fn.Release(without_public, answers, public_totals=parse_totals("t.csv", TEXT, BY_STATE, DOMAIN))


def test_codes_labels_and_missing_values_name_cells():
    sex = KnownTotals(("sex", "state"), REGISTER)
    rows = [(x, s) for x in ("unknown", "2", "1") for s in ("Utah", "Ohio", "Iowa")]
    text = "\ufeffsex,number,state\r\n" + "".join(f"{x},{i},{s}\r\n" for i, (x, s) in enumerate(rows))
    assert parse_totals("t.csv", text, sex, DOMAIN).numbers.tolist() == [[7, 8, 6], [4, 5, 3], [1, 2, 0]]
    truth = fn.Domain(a=fn.Categorical([True, False]))
    totals = parse_totals("t.csv", "a,number\nFalse,1\nTrue,2\n", KnownTotals(("a",), REGISTER), truth)
    assert totals.numbers.tolist() == [2, 1]
    total = parse_totals("t.csv", "number\n12\n", KnownTotals((), REGISTER), truth)
    assert total.numbers == 12
    with refused("release.public-cell-missing"):
        parse_totals("t.csv", "number\n", KnownTotals((), REGISTER), truth)


def test_a_text_that_is_a_code_and_another_label_names_no_cell():
    crossed = fn.Domain(a=fn.Categorical({1: "2", 2: "1"}))
    with refused("release.public-value-ambiguous"):
        parse_totals("t.csv", totals_text({"1": 5, "2": 6}), KnownTotals(("a",), REGISTER), crossed)
    domain = fn.Domain(a=fn.Categorical({1: "1", 2: "two"}))
    for rows in ({"1": 5, "2": 6}, {"1": 5, "two": 6}):
        assert parse_totals("t.csv", totals_text(rows), KnownTotals(("a",), REGISTER), domain).numbers.tolist() == [
            5,
            6,
        ]


def totals_text(rows):
    return "a,number\n" + "".join(f"{a},{n}\n" for a, n in rows.items())


def test_an_absent_row_is_named():
    with refused("release.public-cell-missing") as caught:
        parse_totals(
            "t.csv", "a,b,number\n0,0,1\n1,1,1\n0,1,1\n", KnownTotals(("b", "a"), REGISTER), of_sizes(a=2, b=2)
        )
    assert "no row for b = 0, a = 1" in str(caught.value)


draws = st.tuples(st.lists(st.integers(1, 3), min_size=2, max_size=3), st.integers(0, 2**32))


@settings(max_examples=20)
@given(draws)
def test_counts_by_public_attributes_are_the_totals_bit_by_bit(case):
    """A question of public attributes has the integers of the file, for any answers and from every table."""
    lengths, seed = case
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abc", [*lengths, 2][:3], strict=False)) | {"z": 2}
    public = tuple(rng.permutation(list(sizes)[:-1])[: rng.integers(0, 3)].tolist())
    domain = of_sizes(**sizes)
    displayed = rng.permutation(list(sizes)).tolist()
    plan = planned(domain, [(tuple(displayed), 30.0), (("z",), 7.0)], public)
    totals = rng.integers(0, 1000, [sizes[a] for a in public])
    rows = "".join(",".join(map(str, (*cell, totals[cell]))) + "\n" for cell in np.ndindex(*totals.shape))
    file = parse_totals("t.csv", ",".join((*public, "number")) + "\n" + rows, plan.publication.public, domain)
    answers = [rng.integers(-(10**7), 10**7, n) for n in plan.table_part.strategy.lengths]
    result = fn.Release(plan, answers, public_totals=file)
    for names in {public, public[1:], public[:1], ()}:
        counts = result.count(by=list(names))
        summed = totals.sum(axis=tuple(i for i, a in enumerate(public) if a not in names))
        assert np.array_equal(np.asarray(counts.value), summed)
        assert not np.any(counts.std_error)


def test_an_interrupted_release_is_finished_with_its_own_file(tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    release_with_answers = fn.Release._fill
    calls = []

    def fill(self, *args, **kwargs):
        calls.append(args)
        return release_with_answers(self, *args, **kwargs) if len(calls) == 1 else stop()

    monkeypatch.setattr(fn.Release, "_fill", fill)
    with pytest.raises(KeyboardInterrupt, match="answers are kept"):
        release(tmp_path)
    monkeypatch.undo()
    with refused("ledger.charged-with-other-totals"):
        release(tmp_path, text=TEXT.replace(f"{TOTALS[0]},", f"{TOTALS[0] + 1},"))
    finished = release(tmp_path)
    with Ledger(tmp_path / "ledger.db") as book:
        assert len(book.charges(PLAN.order.account, PLAN.order.plan)) == 1
    assert fn.verify(tmp_path / "out", ledger=tmp_path / "ledger.db").ok
    # in its place, the release of this file is the requested one, and that of another file is not
    assert release(tmp_path) == finished
    with refused("ledger.released-before", "release.place-exists", "release.place-not-empty"):
        release(tmp_path, text=TEXT.replace(f"{TOTALS[0]},", f"{TOTALS[0] + 1},"))
    with refused("ledger.released-before"):
        release(tmp_path, name="second")


def test_intervals_hold_as_often_as_they_say():
    """10,000 releases with the sampled noise: as often as stated, numbers are within their margins."""
    domain = of_sizes(state=3, sex=2)
    workload = fn.Workload(domain, [fn.table("state", "sex", margin=9), fn.table("sex", margin=9)])
    plan = fn.plan(workload, public=KnownTotals(("state",), REGISTER))
    part = plan.table_part
    lengths, names = part.strategy.lengths, workload.tables.names
    ends = np.cumsum(lengths)[:-1]
    units = (np.split(row, ends) for row in np.eye(sum(lengths), dtype=np.int64))
    # the errors of the numbers for an error of one in each answer: without records, totals are 0
    effects = np.stack([first_numbers(RebuiltTables(part, x, np.zeros(3)), names) for x in units])
    scales = np.repeat(
        np.concatenate([x for x, _ in part.strategy.runs]), np.concatenate([n for _, n in part.strategy.runs])
    )
    noises = noise.discrete_gaussians(scales, np.full(len(scales), 10_000)).reshape(len(scales), -1).astype(float)
    margins = np.array([part.table_margins(name).ravel()[0] for name in names])
    assert as_often_as(np.abs(noises.T @ effects) <= margins, 0.95)


def first_numbers(rebuilt, names):
    return [rebuilt.table(name).ravel()[0] for name in names]


# --- what public totals do not fit ------------------------------------------------------------------------------------

TABLES_OF_TWO = [fn.table("state", "sex", margin=9)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"unit": fn.PrivacyUnit("person", 2, id="id")}, "public-unsupported"),
        ({"unit": fn.PrivacyUnit("person", 2, once_per=["sex"])}, "public-unsupported"),
        ({"source": fn.DataSource("x", outside_domain=fn.OutsideDomain.DROP)}, "public-unsupported"),
        ({"privacy": fn.Privacy.PURE}, "public-unsupported"),
        ({"objective": fn.Objective(fn.Goal.TOTAL_ERROR)}, "public-unsupported"),
        ({"cell_budgets": fn.CellBudgets(("sex",), (1, 0.5, 0.5))}, "public-unsupported"),
        ({"series": "state"}, "public-unsupported"),
        ({"small_database": fn.SmallDatabase(9), "budget": fn.Budget(rho=1)}, "public-unsupported"),
    ],
)
def test_settings_that_change_what_totals_count_are_refused(options, code):
    with refused(f"spec.{code}", key="public"):
        fn.plan(fn.Workload(DOMAIN, TABLES_OF_TWO), public=BY_STATE, **options)


def test_further_tables_rules_and_earlier_plans_are_refused():
    workload = fn.Workload(DOMAIN, TABLES_OF_TWO)
    further = fn.Publication(fn.Workload(DOMAIN, [fn.table("sex", margin=9)]))
    ruled = DOMAIN.without(state="Ohio", status="other")
    for options in (
        {"workload": workload, "further_tables": (further,)},
        {"workload": workload, "composed_with": ("0" * 64,)},
        # rules that drop records
        {"workload": fn.Workload(ruled, TABLES_OF_TWO), "source": fn.DataSource("x", outside_domain="drop")},
        {"workload": fn.Workload(ruled, TABLES_OF_TWO), "source": fn.DataSource("x", outside_rules="drop")},
    ):
        with refused("spec.public-unsupported", key="public"):
            fn.Publication(public=BY_STATE, **options)


@pytest.mark.parametrize(
    ("tables", "attributes", "code"),
    [
        ([fn.table("state", groups={"sex": {"all": [1, 2, "unknown"]}}, margin=9)], ["state"], "workload"),
        (TABLES_OF_TWO, ["status"], "public-attribute-not-shown"),
        (TABLES_OF_TWO, ["county"], "public-attribute-not-shown"),
        (TABLES_OF_TWO, ["state", "sex"], "public-knows-all-tables"),
    ],
)
def test_tables_that_totals_do_not_fit_are_refused(tables, attributes, code):
    code = "workload.public-knows-all-tables" if code == "workload" else f"spec.{code}"
    with refused(code):
        fn.plan(fn.Workload(DOMAIN, tables), public=KnownTotals(tuple(attributes), REGISTER))


def test_records_replaced_by_any_other_need_tables_value_by_value():
    """The centres of totals from elsewhere then change the cost of two records of different public cells."""
    replaced = fn.PrivacyUnit(neighbours=Neighbours.REPLACE_ONE)
    with refused("spec.public-unsupported", key="public"):
        structured(("f",), unit=replaced)
    assert structured(("f",), tables=[fn.table("f", "e", variance=1)], unit=replaced).gap <= GAP
    ruled = fn.Workload(DOMAIN.without(state="Ohio", status="other"), TABLES_OF_TWO)
    with refused("spec.public-unsupported", key="public"):
        fn.plan(ruled, public=BY_STATE, unit=replaced)


def test_a_matrix_of_queries_has_no_public_totals():
    workload = fn.matrix_workload(np.eye(4)[:2], variances=9)
    with refused("spec.public-with-matrix", key="public"):
        fn.plan(workload, public=KnownTotals((), REGISTER))


def test_places_are_no_attributes_of_totals():
    geo = fn.Hierarchy(["region", "district"], [("n", "n1"), ("n", "n2"), ("s", "s1"), ("s", "s2")])
    domain = fn.Domain(geo=geo, sex=fn.Categorical(["f", "m"]))
    workload = fn.Workload(domain, [fn.table("region", "sex", margin=9), fn.table("district", margin=9)])
    for name in ("region", "geo"):
        with refused("spec.public-attribute-not-shown") as caught:
            fn.plan(workload, public=KnownTotals((name,), REGISTER))
        assert "a table shows, without levels and amounts: ['sex']" in str(caught.value)
    # totals of another attribute work
    plan = fn.plan(workload, public=KnownTotals(("sex",), REGISTER))
    assert plan.table_part.mechanism.name == "fit-for-use"
    totals = parse_totals("t.csv", "sex,number\nf,8\nm,4\n", KnownTotals(("sex",), REGISTER), domain)
    answers = [np.zeros(n, dtype=np.int64) for n in plan.table_part.strategy.lengths]
    result = fn.Release(plan, answers, public_totals=totals)
    assert result["region by sex"]["value"].tolist() == [4, 2, 4, 2]
    assert result["district"]["value"].tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("name", ["fit-for-use-by-axis", "fit-for-use-by-level", "fit-for-use-by-place"])
def test_other_mechanisms_are_refused(name):
    with refused("plan.mechanism-does-not-suit") as caught:
        fn.plan(fn.Workload(DOMAIN, TABLES_OF_TWO), public=BY_STATE, mechanism=name)
    assert "totals of some attributes are public" in str(caught.value)


def test_noise_of_two_kinds_is_not_compared():
    with refused("plan.comparison-with-public-totals"):
        fn.compare(fn.Publication(fn.Workload(DOMAIN, TABLES_OF_TWO), public=BY_STATE))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"attributes": ("a", "a")}, "public-attributes-unusable"),
        ({"attributes": ("number",)}, "public-attributes-unusable"),
        ({"source": ""}, "public-source-unusable"),
        ({"source": " x"}, "public-source-unusable"),
        ({"source": "x" * 501}, "public-source-unusable"),
        ({"source": "two\nlines"}, "public-source-unusable"),
        ({"origin": "both"}, "public-origin-unknown"),
    ],
)
def test_statements_are_checked(arguments, code):
    with refused(f"spec.{code}"):
        KnownTotals(**({"attributes": ("a",), "source": REGISTER} | arguments))


SPEC = """
[[public]]
by = ["a"]
source = "register"
origin = "elsewhere"

[domain.a]
type = "categorical"
codes = [1, 2]

[domain.b]
type = "categorical"
codes = [1, 2, 3]

[[tables]]
attributes = ["a", "b"]
margin = 9
"""


def test_a_specification_states_public_totals():
    publication = fn.Spec.from_toml(SPEC).publication()
    assert publication.public == KnownTotals(("a",), "register")
    assert fn.Spec.from_publication(publication).publication() == publication
    assert fn.Spec.from_toml(fn.Spec.from_publication(publication).to_toml()).publication() == publication
    with refused("spec.public-several", key="public"):
        fn.Spec.from_toml(SPEC + '[[public]]\nby = ["b"]\nsource = "register"\n').publication()
    with refused("spec.public-within-misfit", key="privacy.within"):
        fn.Spec.from_toml(SPEC.replace("elsewhere", "these data")).publication()


def test_nothing_is_proven_of_mechanisms_that_are_not_linear():
    assert PLAN.table_part.unbiased_bound is None
    assert PLAN.table_part.proof.separate_rho() > PLAN.rho


# --- totals with structured attributes --------------------------------------------------------------------------------

ORDERED = fn.Domain(f=fn.Categorical(["p", "q", "r"]), e=fn.Categorical([0, 1]), x=fn.Ordered(0, 3))
ORDERED_TABLES = [
    fn.table("f", cumulative="x", variance=1, name="f and x"),
    fn.table(cumulative="x", variance=0.4, name="x"),
    fn.table("f", variance=0.2, name="f"),
    fn.table("f", "e", cumulative="x", variance=2, name="all"),
    fn.table("e", "x", variance=1.5, name="e and x"),
]


def structured(public, domain=ORDERED, tables=ORDERED_TABLES, **options):
    return fn.plan(fn.Workload(domain, tables), public=KnownTotals(public, REGISTER), **options)


def test_a_prefix_with_public_totals_has_the_price_of_the_dense_problem():
    plan = structured(("f",))
    assert float(plan.loss.cost_squared) == pytest.approx(1.9665907, rel=1e-6)
    assert plan.bound == pytest.approx(1.9665907, rel=1e-6)
    assert plan.gap <= GAP


PREFIX = fn.table(cumulative="x", variance=1)
THREE_TARGETS = fn.table("x", variance=fn.ByAttribute("x", [1, 4, 25]))


@pytest.mark.parametrize(
    ("table", "shares"), [(PREFIX, [0.375, 0.625, 1]), (THREE_TARGETS, [0.467129, 0.282871, 0.25])]
)
def test_a_wrong_total_moves_numbers_by_the_centre(table, shares):
    plan = structured((), fn.Domain(x=fn.Ordered(0, 2)), [table])
    answers = [np.zeros(n, dtype=np.int64) for n in plan.table_part.strategy.lengths]
    name = plan.publication.workload.tables[0].name
    one, other = (RebuiltTables(plan.table_part, answers, np.array(float(n))).table(name) for n in (100, 107))
    np.testing.assert_allclose((other - one) / 7, shares, atol=1e-6)


def centred_to(rows, index):
    """Return rows less their means over the cells of each public total."""
    total = np.zeros((len(rows), index.max() + 1))
    np.add.at(total.T, index, rows.T)
    return rows - (total / np.maximum(np.bincount(index), 1))[:, index]


def drawn_publication(rng, *, has_bands=False):
    """Return a domain, with rules in half of all cases, its tables, and the attributes of public totals.

    With `has_bands`, a further attribute `b` reads the column of `x`.
    """
    last = int(rng.integers(1, 4))
    bands = {"b": fn.Binned([1], column="x")} if has_bands else {}
    domain = fn.Domain(
        f=fn.Categorical(["p", "q", "r"][: rng.integers(2, 4)]),
        e=fn.Categorical([0, 1]),
        g=fn.Categorical(["u", "v", "w"]),
        x=fn.Ordered(0, last),
        **bands,
    )
    if rng.random() < 0.5:
        domain = domain.without(f="p", g="u")
        domain = domain.without(g="v", x=0) if rng.random() < 0.5 else domain
    tables = []
    for i in range(rng.integers(1, 5)):
        displayed, views = [a for a in domain if rng.random() < 0.5], {}
        if "x" in displayed and rng.random() < 0.5:
            displayed.remove("x")
            views[rng.choice(["cumulative", "ranges"])] = "x"
        if "g" in displayed and rng.random() < 0.3:
            displayed.remove("g")
            views["groups"] = {"g": {"one": ["u", "v"], "any": ["u", "v", "w"]}}
        tables.append(fn.table(*displayed, variance=float(rng.uniform(0.5, 4)), name=f"t{i}", **views))
    used = {a for t in tables for a in t.attributes}
    return domain, tables, tuple(rng.permutation([a for a in domain if a in used and rng.random() < 0.5]).tolist())


def by_attributes(counts, domain, names):
    """Return counts by some attributes, in order."""
    axes = [list(domain).index(a) for a in names]
    shape = [domain[a].size for a in names]
    return counts.transpose([*axes, *(i for i in range(len(domain)) if i not in axes)]).reshape(*shape, -1).sum(axis=-1)


def possible_cells(domain):
    """Return True for each joint cell that is in the list of every joint axis."""
    out, index = np.ones([domain[a].size for a in domain], dtype=bool), np.indices([domain[a].size for a in domain])
    for joint in domain.axes.joint.values():
        listed = np.zeros([domain[a].size for a in joint.names], dtype=bool)
        listed[tuple(np.array(joint.cells).T)] = True
        out &= listed[tuple(index[list(domain).index(a)] for a in joint.names)]
    return out


def margins_counted(counts, domain, margins):
    """Return the counts by the axes of each margin, joint axes among them."""
    index, out = np.indices(counts.shape).reshape(counts.ndim, -1), {}
    for margin in margins:
        places, shape = [], []
        for a in margin:
            joint = domain.axes.joint.get(a)
            columns = [index[list(domain).index(name)] for name in (joint.names if joint else [a])]
            if joint:
                cells = {cell: i for i, cell in enumerate(joint.cells)}
                columns = [
                    np.array([cells.get(cell, 0) for cell in zip(*map(np.ndarray.tolist, columns), strict=True)])
                ]
            places += columns
            shape.append(len(joint.cells) if joint else domain[a].size)
        flat = np.ravel_multi_index(places, shape) if places else np.zeros(counts.size, dtype=int)
        out[margin] = np.bincount(flat, counts.ravel(), minlength=int(np.prod(shape))).astype(np.int64).reshape(shape)
    return out


def drawn_plan(rng):
    """Return a plan of a random publication, or None; its tables; and the attributes of its totals."""
    domain, tables, public = drawn_publication(rng)
    # all tables may follow from the totals, or a table count no possible record
    with contextlib.suppress(SpecError, WorkloadError):
        return structured(public, domain, tables), tables, public
    return None, tables, public


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_structured_totals_follow_the_definition(seed):
    """Ranges, groups, joint cells with rules: price, answers, variances, sums and the checker, against all cells."""
    rng = np.random.default_rng(seed)
    plan, tables, public = drawn_plan(rng)
    if plan is None:
        return
    part, domain, names = plan.table_part, plan.publication.domain, [t.name for t in tables]
    assert plan.gap <= GAP
    assert fn.Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    assert [*checker.check(plan.to_json().encode())][-1].startswith("  bound as stated")
    possible = possible_cells(domain)
    counts = np.where(possible, rng.integers(0, 50, possible.shape), 0)

    def answers(x):
        counted = margins_counted(x, domain, part.strategy.margins())
        return part.strategy.exact_answers(counted, plan.publication.adjacency, 10**6)

    totals = by_attributes(counts, domain, public)
    lines = [",".join(map(str, [*(domain[a].cell_names[i] for a, i in zip(public, c, strict=True)), totals[c]]))
             for c in np.ndindex(*totals.shape)]  # fmt: skip
    file = parse_totals("t.csv", "\n".join([",".join([*public, "number"]), *lines]), plan.publication.public, domain)
    exact, queries = answers(counts), workload_matrix(plan.publication.workload)
    rebuilt = RebuiltTables(part, exact, file.numbers)
    numbers = np.concatenate([rebuilt.table(name).ravel() for name in names])
    np.testing.assert_allclose(numbers, queries @ counts.ravel(), atol=1e-6)
    # the measured rows, from data of one record
    cells = np.flatnonzero(possible)
    units = (np.eye(1, counts.size, i, dtype=int).reshape(counts.shape) for i in cells.tolist())
    rows = np.array([np.concatenate(answers(x)) for x in units]).T.astype(float)
    rows /= np.concatenate([np.repeat(s, n) for s, n in part.strategy.runs])[:, None]
    assert (rows**2).sum(axis=0).max() == pytest.approx(float(plan.loss.cost_squared), rel=1e-9)
    shape = [domain[a].size for a in public]
    places = [np.indices(counts.shape)[list(domain).index(a)].ravel()[cells] for a in public]
    index = np.ravel_multi_index(places, shape) if public else np.zeros(len(cells), dtype=int)
    # no row keeps a sign on the cells of a public total
    assert all((rows[:, index == f].min(axis=1) <= 0).all() for f in set(index.tolist()) if not public)
    solution = centred_to(queries[:, cells].astype(float), index) @ np.linalg.pinv(centred_to(rows, index), rcond=1e-9)
    stated = np.concatenate([part.table_variances(name).ravel() for name in names])
    np.testing.assert_allclose(stated, (solution**2).sum(axis=1), rtol=LOOSE, atol=1e-7)
    # for any answers, counts by public attributes are the integers of the file
    result = fn.Release(plan, [y + rng.integers(-(10**6), 10**6, len(y)) for y in exact], public_totals=file)
    for names_left in {public, public[1:], public[:1], ()}:
        with contextlib.suppress(ReleaseError):
            counted = result.count(by=list(names_left))
            assert np.array_equal(np.asarray(counted.value), by_attributes(counts, domain, names_left))
            assert not np.any(counted.std_error)


def test_a_row_that_measures_totals_is_found_by_the_program_without_fitnoise():
    document = json.loads(structured(("f",)).to_json())
    group = next(g for g in document["tables"][0]["strategy"] if g["attributes"] == [[]])
    group["basis"] = [[x + 10**9 for x in row] for row in group["basis"]]
    with pytest.raises(Wrong, match="measures public totals"):
        [*checker.check(json.dumps(document).encode())]
    with refused("plan.public-total-measured"):
        fn.Plan.from_json(json.dumps(document))


@pytest.mark.parametrize("name", [x for x in REQUESTS if x != "fit-for-use"])
def test_the_program_without_fitnoise_refuses_public_totals_of_other_mechanisms(name):
    """fitnoise refuses such a plan as well."""
    document = json.loads(fn.plan(REQUESTS[name]()).to_json())
    document["spec"]["public"] = [{"by": [], "source": REGISTER}]
    with pytest.raises(Wrong, match="public totals need Gaussian noise on sectors"):
        [*checker.check(json.dumps(document).encode())]
    with pytest.raises(FitnoiseError):
        fn.Plan.from_json(json.dumps(document))


TALL = [fn.table("f", ranges={"x": "all"}, variance=1, name="f and x")]


def test_a_tall_table_within_public_cells_needs_memory_for_all_its_rows(monkeypatch):
    """Rows are centred one by one, so the error comes before an array that the memory cannot hold."""
    domain = fn.Domain(f=fn.Categorical(["p", "q"]), x=fn.Ordered(0, 79))
    monkeypatch.setattr(sectors, "physical_memory", lambda: 5 * 10**6)
    with refused("workload.too-little-memory") as caught:
        structured(("f",), domain, TALL)
    assert "further_tables" not in str(caught.value)
    # by all values of x no row is centred
    monkeypatch.setattr(sectors, "physical_memory", lambda: 10**9)
    plan = structured(("x",), domain, TALL, gap=1e-3)
    dense_if_small = {2: rules.dense}
    monkeypatch.setattr(rebuilding.rules, "dense", lambda view: dense_if_small[view.shape[0]](view))
    answers = [np.zeros(n, dtype=np.int64) for n in plan.table_part.strategy.lengths]
    numbers = RebuiltTables(plan.table_part, answers, np.arange(80.0)).with_sums(0)
    sums = np.concatenate([np.cumsum(np.arange(i, 80)) for i in range(80)])
    assert numbers[-1].tolist() == [*sums, sums.sum()]
    np.testing.assert_allclose(numbers[0], numbers[-1] / 2)


@pytest.mark.parametrize(("excluded", "is_slack"), [(["v", "w"], True), (["w"], False)])
def test_a_cell_of_few_records_may_cost_less(excluded, is_slack):
    """Rules leave the cells of public totals unequal: a slack one gets no weight, and the price stays true."""
    domain = fn.Domain(f=fn.Categorical(["p", "q"]), g=fn.Categorical(["u", "v", "w"]))
    for value in excluded:
        domain = domain.without(f="q", g=value)
    plan = structured(("f",), domain, [fn.table("f", "g", variance=1), fn.table("g", variance=0.5)])
    assert plan.gap <= GAP
    profile = plan.table_part.strategy.profile()
    assert (float(min(profile)) < 0.9 * float(max(profile))) is is_slack
    assert [*checker.check(plan.to_json().encode())][-1].startswith("  bound as stated")


def test_a_number_in_a_cell_that_no_record_has_is_an_error_of_the_file():
    domain = fn.Domain(f=fn.Categorical(["p", "q"]), g=fn.Categorical(["u", "v"])).without(f="q", g="v")
    stated = KnownTotals(("f", "g"), REGISTER)
    domain = fn.plan(fn.Workload(domain, [fn.table("f", "g", variance=1)])).publication.domain
    text = "f,g,number\np,u,3\np,v,4\nq,u,5\nq,v,{}\n"
    assert parse_totals("t.csv", text.format(0), stated, domain).numbers.tolist() == [[3, 4], [5, 0]]
    with refused("release.public-cell-impossible"):
        parse_totals("t.csv", text.format(1), stated, domain)


def test_plans_with_centres_are_not_refined():
    with refused("plan.refine-with-public-totals"):
        structured(("f",), refine=True)
    # without a centre they are
    assert structured(("f",), tables=[fn.table("f", "e", variance=1)], refine=True).gap <= GAP


def test_a_structured_release_does_not_depend_on_the_totals_of_the_data(tmp_path, monkeypatch):
    """Data of equal measured integers and other totals give the same release, byte for byte."""
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(7).discrete_gaussians)
    plan = structured(("f",), tables=[fn.table("f", cumulative="x", variance=90), fn.table("x", variance=40)])
    counts = np.random.default_rng(5).integers(20, 90, (3, 2, 4))
    adjacency, strategy = plan.publication.adjacency, plan.table_part.strategy
    # a change of data that no measured integer shows: a multiple of the weights of the centres
    change = unmeasured_change(plan)
    answers = [
        strategy.exact_answers(margins_counted(x, ORDERED, strategy.margins()), adjacency, 10**9)
        for x in (counts, counts + change)
    ]
    for one, other in zip(*answers, strict=True):
        assert one.tolist() == other.tolist()
    assert (change.sum(axis=(1, 2)) > 0).all()
    text = "f,number\n" + "".join(f"{a},{n}\n" for a, n in zip("pqr", counts.sum(axis=(1, 2)), strict=True))
    out = []
    for name, data in (("one", counts), ("other", counts + change)):
        (tmp_path / name).mkdir()
        release(tmp_path / name, text, data, plan)
        out.append(files_without_charge(tmp_path / name / "out"))
    assert out[0] == out[1]


def unmeasured_change(plan):
    """Return whole numbers of records, by f, e and x, that change no measured integer."""
    (basis,) = {g.basis.tobytes(): g.basis for g in plan.table_part.strategy.groups}.values()
    ((*null,),) = null_space(basis.astype(float)).T
    weights = np.rint(np.array(null) / sum(null) * 2**CENTRE_BITS).astype(int)
    assert not (basis @ weights).any()
    return np.array([1, 2, 3])[:, None, None] * np.array([1, 0])[:, None] * weights


@pytest.mark.slow
@pytest.mark.parametrize("public", [("f",), ("x",), ("f", "x")])
def test_intervals_of_structured_tables_hold_as_often_as_they_say(public):
    """10,000 draws of the sampled noise: numbers are within their margins as often as stated."""
    errors, margins = drawn_errors(structured(public).table_part, np.zeros([ORDERED[a].size for a in public]))
    inside = np.abs(errors) <= margins + 1e-9
    for j in np.flatnonzero(margins > 1e-6).tolist():
        assert as_often_as(inside[:, j], 0.95)
    assert inside[:, margins <= 1e-6].all()
