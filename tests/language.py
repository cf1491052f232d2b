"""Check the words of the project: names, docstrings, comments, errors, pages and commit subjects.

Start it as `python tests/language.py MODE`:

* without a mode, it prints the counts of each area;
* `--list [PATH]...` prints each use in these files or folders, with the plain words;
* `--check` compares the counts with the allowances, and fails if one differs;
* `--lower` writes lower counts into the allowances, and never a higher one;
* `--subjects` checks the subjects of the commits since `BASE`.

`make check` runs `--check` and `--subjects`. The exit status is 1 if a check failed, and otherwise 0.

An *area* is a package of `src/fitnoise`, its other files (top), the studio, or the laboratory. The tests, the
benchmarks and the documentation (docs) are areas too. The other Markdown files are the area pages.

`data/language/refused.tsv` lists the refused words, each with the kinds of text that refuse it:

* `name`: a class, function, parameter, field, constant or file;
* `local`: a variable inside a function;
* `doc`: a docstring or comment;
* `error`: a string of a `raise` statement, or of a call that ends in "error";
* `text`: another string of two words or more;
* `page`: Markdown outside code, or a text of the English catalogue.

`data/language/public_keys.tsv` lists the names that stay, because they are keys of specifications or documents.

The program does not read code in backticks, nor formulas.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import statistics
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFUSED = ROOT / "tests" / "data" / "language" / "refused.tsv"
PUBLIC_KEYS = ROOT / "tests" / "data" / "language" / "public_keys.tsv"
ALLOWANCES = ROOT / "tests" / "data" / "language" / "allowances.tsv"
BASE = "1bf35360a988ac05fadbd498c49d32972de8a233"
"""The last commit whose subject is history; later subjects follow the rules."""

KINDS = ("name", "local", "doc", "error", "text", "page")
MEASURES = ("words", "openings", "sentences")
PACKAGES = (
    "kernel", "algebra", "request", "solving", "mechanisms", "planning", "reading",
    "engines", "interfaces", "studio", "laboratory",
)  # fmt: skip
AREAS = (*PACKAGES, "top", "tests", "benchmarks", "docs", "pages")
SUBJECT_AREAS = (*PACKAGES, "docs", "tests", "build")
CLAUSES = ("What", "Whether", "That", "Of")
OPENINGS = (*CLAUSES, "How", "Which", "Where", "When", "Who", "Whose", "By", "From", "In", "None")
"""First words of a docstring that begin a clause instead of a phrase; the check counts those in `CLAUSES`."""

MAX_SENTENCE_WORDS = 25
MAX_SUBJECT_LETTERS = 72

CODE = re.compile(r"(?::\w+:)?``?[^`]*``?|\{[^{}]*\}|\$[^$]*\$|https?:\S+")
NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
STRING_OR_COMMENT = re.compile(
    r"""(?P<quote>\"\"\"|\'\'\')(?:\\.|[^\\])*?(?P=quote)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>\#.*?)$""",
    re.S | re.M,
)
NEW_UNIT = re.compile(r"\s*(?:[-*#|>+]|\d+\.\s|[\w*, ]{1,40}:(?:\s|$)|:\w+:)")
"""A line that begins a text of its own: a list entry, heading, table row, or the entry of an argument."""
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”)*_]*\s+")
SUBJECT = re.compile(rf"(?:{'|'.join(SUBJECT_AREAS)}): ([a-z][\w-]*)(?: .*)?(?<![.\s])")
NO_IMPERATIVE = re.compile(r"(?!(?:bring|feed|need|embed|speed|seed|shed)$)\w+(?:ing|ed|[^s]s)")


@dataclass(frozen=True)
class Piece:
    """A text of one kind at a line of a file. Line breaks stay in it, so that each word has its line."""

    line: int
    kind: str
    text: str
    is_docstring: bool = False
    is_prose: bool = False


@dataclass(frozen=True)
class Word:
    """A refused word with its mark, the plain words for it, and a pattern of uses that are right."""

    text: str
    advice: str
    right: re.Pattern[str] | None


@dataclass(frozen=True)
class Use:
    """A place where the rules are broken. `measure` is the allowance that counts it."""

    line: int
    measure: str
    kind: str
    text: str
    advice: str


@dataclass
class Counts:
    """The numbers of one area, or of several added up."""

    files: int = 0
    lines: int = 0
    comments: int = 0
    docstrings: int = 0
    openings: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    public_keys: set[tuple[str, str]] = field(default_factory=set)

    def add(self, other: Counts) -> None:
        for name in ("files", "lines", "comments", "docstrings"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.openings += other.openings
        self.kinds += other.kinds
        self.lengths += other.lengths
        self.public_keys |= other.public_keys

    @property
    def allowances(self) -> dict[str, int]:
        """The three counts that an allowance bounds."""
        openings = sum(self.openings[x] for x in CLAUSES)
        sentences = sum(n > MAX_SENTENCE_WORDS for n in self.lengths)
        return dict(zip(MEASURES, (self.kinds.total(), openings, sentences), strict=True))


class RefusedWords:
    """The table of refused words, by kind and mark, and the public keys that stay, each with its file."""

    def __init__(self, path: Path = REFUSED, public_keys: Path = PUBLIC_KEYS) -> None:
        rows = [line.split("\t") for line in public_keys.read_text("utf-8").splitlines() if not line.startswith("#")]
        self.public_keys = {(key, file) for key, files, _ in rows for file in files.split()}
        self.words: dict[tuple[str, str, str], Word] = {}
        for line in path.read_text("utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            text, kinds, advice, right = [*line.split("\t"), "", ""][:4]
            mark, bare = (text[0], text[1:]) if text[0] in "^=" else ("", text)
            for kind in kinds.split(","):
                if kind not in KINDS:
                    raise ValueError(f"{path.name}: {kind!r} is not a kind of text; use one of {', '.join(KINDS)}")
                key = (kind, mark, bare.lower())
                self.words[key] = Word(text, advice, re.compile(right, re.I) if right else None)

    @cached_property
    def patterns(self) -> dict[tuple[str, str], re.Pattern[str]]:
        """For each kind of running text, the pattern that finds its refused words, longest first."""
        patterns = {}
        for kind in KINDS[2:]:
            for mark, start in (("", ""), ("^", r"\A")):
                texts = sorted((t for k, m, t in self.words if (k, m) == (kind, mark)), key=len, reverse=True)
                choices = "|".join(re.escape(t).replace(r"\ ", r"\s+") for t in texts) or "(?!)"
                patterns[kind, mark] = re.compile(rf"{start}(?<![\w-])(?:{choices})(?![\w-])", re.I)
        return patterns

    def find(self, piece: Piece) -> Iterator[tuple[int, Word, str]]:
        """Yield the refused words of a piece, each with its line and the text around it."""
        if piece.kind in ("name", "local"):
            parts = [part.lower() for part in NAME_PARTS.findall(piece.text)]
            keys = [(piece.kind, "", part) for part in dict.fromkeys(parts)] + [(piece.kind, "=", "_".join(parts))]
            for word in (self.words[key] for key in keys if key in self.words):
                if not (word.right and word.right.search(piece.text)):
                    yield piece.line, word, piece.text
            return
        text = without_code(piece.text)
        flat = text.replace("\n", " ")
        for mark in ("", "^") if piece.is_docstring else ("",):
            for match in self.patterns[piece.kind, mark].finditer(text):
                word = self.words[piece.kind, mark, " ".join(match[0].lower().split())]
                right = word.right.finditer(flat) if word.right else ()
                if not any(r.start() <= match.start() < r.end() for r in right):
                    around = flat[max(0, match.start() - 40) : match.end() + 40]
                    yield piece.line + text.count("\n", 0, match.start()), word, around


def without_code(text: str) -> str:
    """Return the text with a backtick for each code, formula and address, and with all its line breaks."""
    return CODE.sub(lambda match: "`" + "\n" * match[0].count("\n"), text)


def texts_of_tree(tree: ast.Module) -> Iterator[Piece]:
    """Yield each name at its definition, the docstrings by paragraph, and the other strings."""
    todo: list[tuple[ast.AST, set[str] | None, bool]] = [(tree, None, False)]
    while todo:
        node, variables, in_error = todo.pop()  # variables: those of a function so far, or None
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Piece(node.lineno, "name", node.name)
            variables = None if isinstance(node, ast.ClassDef) else set()
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield Piece(node.lineno, "name", node.arg)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store) and (variables is None or node.id not in variables):
                yield Piece(node.lineno, "name" if variables is None else "local", node.id)
                if variables is not None:
                    variables.add(node.id)
            continue
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and (in_error or " " in node.value.strip()):
                yield Piece(node.lineno, "error" if in_error else "text", node.value)
            continue
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number, text in paragraphs_of(node.value.value):
                yield Piece(node.lineno + number, "doc", text, is_docstring=number == 0, is_prose=True)
            continue
        function = getattr(node, "func", None)
        callee = getattr(function, "attr", None) or getattr(function, "id", "")
        in_error = in_error or isinstance(node, ast.Raise) or callee.endswith("rror")
        todo += [(child, variables, in_error) for child in reversed(list(ast.iter_child_nodes(node)))]


def paragraphs_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the texts between empty lines, each with the number of its first line; fenced code and sessions are out."""
    lines, fenced, start = [], False, 0
    for number, line in enumerate((*text.split("\n"), "")):
        is_fence = line.lstrip().startswith(("```", "~~~"))
        fenced ^= is_fence
        if line.strip() and not (fenced or is_fence):
            start = start if lines else number
            lines.append(line.strip() if lines else line.lstrip())
        elif lines:
            if not lines[0].startswith(">>>"):
                yield start, "\n".join(lines)
            lines = []


def comments_of(source: str) -> Iterator[tuple[int, bool, str]]:
    """Yield each comment: its line, whether it has the line for itself, and its text."""
    line, seen = 1, 0
    for match in STRING_OR_COMMENT.finditer(source):
        if match["comment"]:
            line += source.count("\n", seen, match.start())
            seen = match.start()
            start = source.rfind("\n", 0, seen) + 1
            yield line, not source[start:seen].strip(), match["comment"].lstrip("# ")


def pieces_of_python(path: Path, source: str) -> tuple[list[Piece], int]:
    """Return the texts of a Python file and its number of comments."""
    tree, comments = ast.parse(source), list(comments_of(source))
    pieces = list(texts_of_tree(tree))
    if not path.stem.startswith("__"):
        pieces.append(Piece(1, "name", path.stem))
    block: list[str] = []
    for i, (line, is_full_line, text) in enumerate(comments):
        block.append(text)
        if not (is_full_line and comments[i + 1 : i + 2] and comments[i + 1][:2] == (line + 1, True)):
            pieces.append(Piece(line + 1 - len(block), "doc", "\n".join(block)))
            block = []
    return pieces, len(comments)


def pieces_of_page(path: Path, source: str) -> list[Piece]:
    """Return the texts of a page: Markdown, a notebook, or a file of the English catalogue."""
    if path.suffix == ".toml":
        return [Piece(1, "page", text, is_prose=True) for text in texts_of(tomllib.loads(source))]
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(source)["cells"] if cell["cell_type"] == "markdown"]
        source = "\n\n".join("".join(cell["source"]) for cell in cells)
    return [Piece(number + 1, "page", text, is_prose=True) for number, text in paragraphs_of(source)]


def texts_of(value: object) -> Iterator[str]:
    """Yield the texts of a catalogue."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from texts_of(entry)


def sentences_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the sentences of a paragraph: line within it, number of words, text. Tables and headings have none."""
    units: list[tuple[int, str]] = []
    for number, line in enumerate(without_code(text).split("\n")):
        if NEW_UNIT.match(line) or not units:
            units.append((number, line))
        else:
            units[-1] = (units[-1][0], f"{units[-1][1]}\n{line}")
    for number, unit in units:
        if unit.startswith(("|", "#")):
            continue
        start = 0
        for end in [*(m.end() for m in SENTENCE_END.finditer(unit)), len(unit)]:
            length = sum(bool(re.search(r"[\w`]", word)) for word in unit[start:end].split())
            if length:
                yield number + unit.count("\n", 0, start), length, " ".join(unit[start:end].split())
            start = end


def area_of(path: Path) -> str | None:
    """Return the area of a file, or None for a file that no rule reads."""
    is_read = path.suffix in (".py", ".md", ".ipynb") or (path.suffix == ".toml" and path.parent.name == "en")
    if not is_read or not path.is_relative_to(ROOT):
        return None
    parts = path.relative_to(ROOT).parts
    for folder, area in (("fitnoise_studio", "studio"), ("fitnoise_lab", "laboratory"), ("fitnoise_check", "docs")):
        if folder in parts:
            return area
    if parts[:2] == ("src", "fitnoise"):
        return parts[2] if parts[2] in PACKAGES else "top"
    if parts[0] in ("tests", "benchmarks", "docs"):
        return parts[0]
    return "pages" if (len(parts) == 1 or parts[0] == "packages") and path.suffix == ".md" else None


def files_of(paths: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the files below these paths, each with its area."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            area = area_of(file) if file.is_file() else None
            if area:
                yield area, file


def measure(path: Path, refused: RefusedWords) -> tuple[Counts, list[Use]]:
    """Return the counts of a file, and the uses that break a rule."""
    source = path.read_text("utf-8")
    counts = Counts(files=1)
    if path.suffix == ".py":
        pieces, counts.comments = pieces_of_python(path, source)
        counts.lines = source.count("\n")
    else:
        pieces = pieces_of_page(path, source)
    file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    uses = []
    for piece in pieces:
        for line, word, context in refused.find(piece):
            if piece.kind == "name" and (piece.text, file) in refused.public_keys:
                counts.public_keys.add((piece.text, file))
                continue
            counts.kinds[piece.kind] += 1
            uses.append(Use(line, "words", piece.kind, word.text, f"{word.advice} | {context}"))
        if piece.is_docstring:
            opening = re.match(r"\w*", piece.text)[0]
            counts.docstrings += 1
            counts.openings[opening] += opening in OPENINGS
            if opening in CLAUSES:
                uses.append(Use(piece.line, "openings", "doc", opening, "an imperative or a noun phrase"))
        for line, length, text in sentences_of(piece.text) if piece.is_prose else ():
            counts.lengths.append(length)
            if length > MAX_SENTENCE_WORDS:
                uses.append(Use(piece.line + line, "sentences", piece.kind, f"{length} words", text[:90]))
    return counts, sorted(uses, key=lambda use: (use.line, use.measure, use.text))


def count_areas(refused: RefusedWords) -> dict[str, Counts]:
    """Return the counts of every area of the project."""
    areas = {area: Counts() for area in AREAS}
    folders = [ROOT / name for name in ("src", "packages", "tests", "benchmarks", "docs")]
    roots = [*folders, *sorted(ROOT.glob("*.md"))]
    for area, file in files_of([path for path in roots if path.exists()]):
        areas[area].add(measure(file, refused)[0])
    return areas


def table_of(areas: dict[str, Counts]) -> str:
    """Return the table of all areas: files, openings, sentences, comments, and refused words by kind."""
    total = Counts()
    for counts in areas.values():
        total.add(counts)
    rows = [("area", "files", "openings", "sentences", "comments", *KINDS, "all")]
    for area, c in {**areas, "all": total}.items():
        opening = sum(c.openings[x] for x in CLAUSES), c.openings.total()
        shares = [f"{100 * n / c.docstrings:.0f}" if c.docstrings else "–" for n in opening]
        deciles = statistics.quantiles(c.lengths, n=10, method="inclusive") if len(c.lengths) > 1 else [0.0] * 9
        long = 100 * c.allowances["sentences"] / max(1, len(c.lengths))
        rows.append((
            area, str(c.files), f"{shares[0]} ({shares[1]}) %", f"{deciles[4]:.0f} / {deciles[8]:.0f} / {long:.0f} %",
            f"{100 * c.comments / c.lines:.1f} %" if c.lines else "–",
            *(str(c.kinds[kind]) for kind in KINDS), str(c.kinds.total()),
        ))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    note = (
        "openings: docstrings that start with What, Whether, That or Of; in brackets, with another such word too\n"
        f"sentences: words, median / 90th percentile / share over {MAX_SENTENCE_WORDS}; then refused words by kind\n"
    )
    lines = (
        "  ".join(x.ljust(w) if i == 0 else x.rjust(w) for i, (x, w) in enumerate(zip(r, widths, strict=True)))
        for r in rows
    )
    return note + "\n".join(lines) + "\n"


def read_allowances(path: Path = ALLOWANCES, *, merging: bool = False) -> dict[str, dict[str, int]]:
    """Read the allowances. While merging, the lines of both sides count, and of two numbers the lower one."""
    allowed: dict[str, dict[str, int]] = {}
    for line in path.read_text("utf-8").splitlines():
        if not line or line.startswith("#") or (merging and re.match(r"<{7}|={7}|>{7}|\|{7}", line)):
            continue
        area, *numbers = line.split("\t")
        if area not in AREAS or len(numbers) != len(MEASURES) or (area in allowed and not merging):
            raise ValueError(f"{path.name}: {line!r} is not one area with {', '.join(MEASURES)}; run --lower")
        row = dict(zip(MEASURES, map(int, numbers), strict=True))
        allowed[area] = {m: min(n, allowed.get(area, row)[m]) for m, n in row.items()}
    if missing := set(AREAS) - set(allowed):
        raise ValueError(f"{path.name}: no line for {', '.join(sorted(missing))}")
    return allowed


def compare(areas: dict[str, Counts], allowed: dict[str, dict[str, int]]) -> list[str]:
    """Return a complaint for each count that differs from its allowance."""
    complaints = []
    for area, counts in areas.items():
        for name, count in counts.allowances.items():
            limit = allowed[area][name]
            if count > limit:
                where = f"python tests/language.py --list shows each; the new ones are among those of {area}"
                complaints.append(f"{area}: {count} {name}, and {limit} are allowed: {where}.")
            elif count < limit:
                complaints.append(f"{area}: {count} {name}: lower the allowance from {limit} to {count} (--lower).")
    return complaints


def unused_keys(areas: dict[str, Counts], refused: RefusedWords) -> list[str]:
    """Return a complaint for each public key that excuses no name of its file."""
    unused = refused.public_keys - set().union(*(counts.public_keys for counts in areas.values()))
    return [f"{PUBLIC_KEYS.name}: {file} has no refused name {key}: remove it." for key, file in sorted(unused)]


def lower(areas: dict[str, Counts], path: Path = ALLOWANCES) -> None:
    """Write each count that is below its allowance; a higher count leaves the allowance as it is."""
    allowed = read_allowances(path, merging=True)
    lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
    for area in AREAS:
        numbers = (min(allowed[area][name], areas[area].allowances[name]) for name in MEASURES)
        lines.append("\t".join([area, *map(str, numbers)]))
    path.write_text("\n".join(lines) + "\n", "utf-8")


def check_subject(subject: str) -> str | None:
    """Return what is wrong with the subject of a commit, or None."""
    if len(subject) > MAX_SUBJECT_LETTERS:
        return f"{len(subject)} letters; at most {MAX_SUBJECT_LETTERS}"
    match = SUBJECT.fullmatch(subject)
    if not match:
        return f"not of the form 'area: imperative' without a full stop; areas: {', '.join(SUBJECT_AREAS)}"
    if NO_IMPERATIVE.fullmatch(match[1]):
        return f"{match[1]!r} is not an imperative"
    return None


def subjects_since(base: str) -> list[str]:
    """Return the subjects of the commits since this one; none outside a checkout that has it among its ancestors."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return []
    query = [git, "merge-base", "--is-ancestor", base, "HEAD"]
    ancestor = subprocess.run(query, cwd=ROOT, check=False, capture_output=True)
    if ancestor.returncode:
        return []
    log = [git, "log", "--no-merges", "--format=%s", f"{base}..HEAD"]
    return subprocess.run(log, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def main(arguments: list[str] | None = None) -> int:
    """Run the program with these arguments, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    for name in ("list", "check", "lower", "subjects"):
        mode.add_argument(f"--{name}", action="store_true")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders of --list")
    options = parser.parse_args(arguments)
    if options.subjects:
        wrong = [(s, fault) for s in subjects_since(BASE) if (fault := check_subject(s))]
        sys.stdout.writelines(f"commit subject {subject!r}: {fault}\n" for subject, fault in wrong)
        return int(bool(wrong))
    refused = RefusedWords()
    if options.list:
        for _, file in files_of([path.resolve(strict=True) for path in options.paths] or [ROOT]):
            for use in measure(file, refused)[1]:
                name = file.relative_to(ROOT)
                sys.stdout.write(f"{name}:{use.line}: {use.measure}, {use.kind}: {use.text} → {use.advice}\n")
        return 0
    areas = count_areas(refused)
    if options.lower:
        lower(areas)
    if options.check or options.lower:
        complaints = compare(areas, read_allowances()) + unused_keys(areas, refused)
        sys.stdout.writelines(f"language: {complaint}\n" for complaint in complaints)
        return int(bool(complaints))
    sys.stdout.write(table_of(areas))
    return 0


if __name__ == "__main__":
    sys.exit(main())
