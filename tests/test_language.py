"""Tests of the program that checks words: each fault is found where it stands, and each right use is not."""

import subprocess

import pytest

import language
from language import Counts, RefusedWords

REFUSED = RefusedWords()
WORD = "told"
"""A word that every kind of text refuses."""


def uses_of(folder, text, name="planted.py"):
    """Return the measure, kind, line and word of each use in a file with this text."""
    path = folder / name
    path.write_text(text, "utf-8")
    return [(use.measure, use.kind, use.line, use.text) for use in language.measure(path, REFUSED)[1]]


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("def {word}_price():\n    pass\n", "name", 1),
        ("x = 1\n{WORD}_PRICE = 2\n", "name", 2),
        ("class Price{Word}:\n    pass\n", "name", 1),
        ("def price(is_{word}): ...\n", "name", 1),
        ("def price():\n    {word} = 1\n    {word} = 2\n", "local", 2),
        ("def price():\n    '''Return the price.\n\n    A price\n    is {word}.\n    '''\n", "doc", 5),
        ("x = '# no comment'\ny = 1  # the price is {word}\n", "doc", 2),
        ("raise DataError('{word}')\n", "error", 1),
        ("self.error(x, f'the {{x}} is {word}')\n", "error", 1),
        ("x = 'a price that is {word}'\n", "text", 1),
    ],
)
def test_planted_word_is_found_at_its_line(tmp_path, source, kind, line):
    text = source.format(word=WORD, Word=WORD.title(), WORD=WORD.upper())
    assert uses_of(tmp_path, text) == [("words", kind, line, WORD)]


@pytest.mark.parametrize(
    ("name", "page", "line"),
    [
        ("page.md", "# Prices\n\n```\n{word}\n```\n\nThe price is\n{word}.\n", 8),
        ("page.toml", "[price]\nreader = 'The price is {word}.'\n", 1),
        ("page.ipynb", '{{"cells": [{{"cell_type": "markdown", "source": ["Prices\\n", "are {word}.\\n"]}}]}}', 2),
    ],
)
def test_planted_word_of_a_page_is_found_outside_code(tmp_path, name, page, line):
    assert uses_of(tmp_path, page.format(word=WORD), name) == [("words", "page", line, WORD)]


@pytest.mark.parametrize(
    "source",
    [
        "def retold(): ...\n",
        f"x = {WORD}\n",
        f"x = '{WORD}'\n",
        f"def price():\n    '''Return the price of a `{WORD}` table.'''\n",
        "def price():\n    '''Return the least whole number.'''\n",
        f"def price():\n    '''Return the price.\n\n    >>> {WORD}(1)\n    1\n    '''\n",
        "def price(at_most, solve_least_squares): ...\n",
        "of_tables = 1\n",
        "class AtMost: ...\n",
    ],
)
def test_right_use_is_not_reported(tmp_path, source):
    assert uses_of(tmp_path, source) == []


def test_public_key_is_right_in_its_file_only(tmp_path, monkeypatch):
    monkeypatch.setattr(language, "ROOT", tmp_path)
    keys = tmp_path / "public_keys.tsv"
    keys.write_text(f"# name, files, reason\n{WORD}\ta.py b.py\ta key\n")
    refused = RefusedWords(public_keys=keys)
    counts = {}
    for name in ("a.py", "b.py", "c.py"):
        text = f"def price():\n    {WORD} = 1\n" if name == "b.py" else f"class Price:\n    {WORD}: int\n"
        (tmp_path / name).write_text(text)
        counts[name] = language.measure(tmp_path / name, refused)[0]
    assert [x.kinds.total() for x in counts.values()] == [0, 1, 1]  # a local variable is no key
    assert language.unused_keys(counts, refused) == [f"public_keys.tsv: b.py has no refused name {WORD}: remove it."]


def test_every_public_key_excuses_a_name():
    files = {file for _, file in REFUSED.public_keys}
    counts = {file: language.measure(language.ROOT / file, REFUSED)[0] for file in files}
    assert language.unused_keys(counts, REFUSED) == []


def test_complete_name_is_refused_where_its_part_is_not(tmp_path):
    assert uses_of(tmp_path, "def of(): ...\n") == [("words", "name", 1, "=of")]


def test_file_name_is_a_name(tmp_path):
    assert uses_of(tmp_path, "", "told.py") == [("words", "name", 1, "told")]


@pytest.mark.parametrize("word", language.CLAUSES)
def test_docstring_that_opens_with_a_clause_is_found(tmp_path, word):
    source = f"def price():\n    pass\n\n\ndef cost():\n    '''{word} counts.'''\n"
    assert ("openings", "doc", 6, word) in uses_of(tmp_path, source)


def test_docstring_that_opens_with_a_verb_is_right(tmp_path):
    assert uses_of(tmp_path, "def cost():\n    '''Return the cost. That counts.'''\n") == []


@pytest.mark.parametrize(("length", "count"), [(25, 0), (26, 1)])
def test_long_sentence_is_found_in_docstring_and_page(tmp_path, length, count):
    sentence = f"Count {' '.join(['records'] * (length - 1))}."
    expected = [("sentences", "doc", 3, f"{length} words")] * count
    assert uses_of(tmp_path, f"def cost():\n    '''Count.\n    {sentence}'''\n") == expected
    assert uses_of(tmp_path, f"Prices.\n\n{sentence} End.\n\n| a | {sentence} |\n", "page.md") == [
        (measure, "page", line, text) for measure, _, line, text in expected
    ]


@pytest.mark.parametrize(
    ("subject", "is_right"),
    [
        ("kernel: charge each release once", True),
        ("docs: bring examples up to date", True),
        ("build: process", True),
        ("kernel: " + "charge " * 9 + "x", True),
        ("kernel: " + "charge " * 9 + "xx", False),
        ("kernel: charge each release once.", False),
        ("kernel: Charge each release once", False),
        ("kernel: charges each release once", False),
        ("kernel: charged each release once", False),
        ("kernel: charging each release once", False),
        ("kitchen: charge each release once", False),
        ("Charge each release once", False),
    ],
)
def test_commit_subject(subject, is_right):
    assert (language.check_subject(subject) is None) == is_right


def test_subjects_are_read_from_a_checkout_that_has_the_base(tmp_path, monkeypatch, capsys):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    monkeypatch.setattr(language, "ROOT", tmp_path)
    assert language.main(["--subjects"]) == 0  # no checkout, as in a source distribution
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "History is left as it was.")
    assert language.main(["--subjects"]) == 0  # a checkout without the base
    monkeypatch.setattr(language, "BASE", git("rev-parse", "HEAD").strip())
    git("commit", "-q", "--allow-empty", "-m", "kernel: charge each release once")
    assert language.main(["--subjects"]) == 0
    git("commit", "-q", "--allow-empty", "-m", "A release is charged once")
    assert language.main(["--subjects"]) == 1
    assert capsys.readouterr().out.startswith("commit subject 'A release is charged once': not of the form")


def planted(**numbers):
    """Return counts of all areas with these numbers of refused words."""
    areas = {area: Counts() for area in language.AREAS}
    for area, number in numbers.items():
        areas[area].kinds["doc"] = number
    return areas


@pytest.fixture
def allowances(tmp_path):
    """A file that allows 10 refused words in each area, and nothing else."""
    path = tmp_path / "allowances.tsv"
    path.write_text("# words\n" + "".join(f"{area}\t10\t0\t0\n" for area in language.AREAS))
    return path


def test_count_that_differs_from_its_allowance_fails(allowances):
    allowed = language.read_allowances(allowances)
    areas = planted(**dict.fromkeys(language.AREAS, 10))
    assert language.compare(areas, allowed) == []
    areas["kernel"].kinds["name"] = 1
    areas["docs"].kinds["doc"] = 7
    areas["tests"].openings["What"] = 1
    above, opening, below = language.compare(areas, allowed)
    assert above.startswith("kernel: 11 words, and 10 are allowed")
    assert opening.startswith("tests: 1 openings, and 0 are allowed")
    assert below == "docs: 7 words: lower the allowance from 10 to 7 (--lower)."


def test_lower_never_raises_an_allowance(allowances):
    language.lower(planted(**dict.fromkeys(language.AREAS, 10) | {"kernel": 11, "docs": 7}), allowances)
    allowed = {area: row["words"] for area, row in language.read_allowances(allowances).items()}
    assert allowed == dict.fromkeys(language.AREAS, 10) | {"docs": 7}
    assert allowances.read_text().startswith("# words\nkernel\t10\t0\t0\n")


def test_lower_resolves_a_merge_with_the_lower_numbers(allowances):
    text = allowances.read_text()
    sides = "<<<<<<< one\nkernel\t8\t0\t0\n=======\nkernel\t9\t0\t0\n>>>>>>> two\n"
    allowances.write_text(text.replace("kernel\t10\t0\t0\n", sides))
    with pytest.raises(ValueError, match="run --lower"):
        language.read_allowances(allowances)
    language.lower(planted(**dict.fromkeys(language.AREAS, 10)), allowances)
    assert allowances.read_text() == text.replace("kernel\t10", "kernel\t8")


def test_every_area_has_files_and_an_allowance():
    assert set(language.read_allowances()) == set(language.AREAS)
    roots = [*(language.ROOT / name for name in ("src", "packages", "tests", "docs")), language.ROOT / "README.md"]
    assert {area for area, _ in language.files_of(roots)} >= set(language.AREAS) - {"benchmarks"}


def test_listing_names_file_line_and_plain_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(language, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "planted.py").write_text("x = 1\n" + f"def {WORD}(): ...\n")
    assert language.main(["--list", str(tmp_path)]) == 0
    line = f"tests/planted.py:2: words, name: {WORD} → reported, printed, distinguished, parsed | {WORD}\n"
    assert capsys.readouterr().out == line


def test_program_follows_its_rules(capsys):
    here = language.ROOT / "tests"
    assert language.main(["--list", str(here / "language.py"), str(here / "test_language.py")]) == 0
    assert capsys.readouterr().out == ""
