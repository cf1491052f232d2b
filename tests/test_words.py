"""The dictionary of the code: every term is a word of names that its home module defines."""

import ast
import re
from pathlib import Path

import fitnoise

PAGE = Path(__file__).parent.parent / "docs" / "words.md"
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text("utf-8").splitlines()[7:]]
PACKAGE = Path(fitnoise.__file__).parent


def defined_words(home):
    """Return the words in the names that a module defines: classes, functions, parameters, fields and its own name."""
    path = PACKAGE.joinpath(*home.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names = [path.stem]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
    return {word.lower() for name in names for word in re.findall("[A-Z]?[a-z]+", name)}


def test_every_term_is_a_word_of_names_in_its_home():
    assert len(ROWS) > 80
    for term, _, home in ROWS:
        vocabulary = defined_words(home.strip("`"))
        stems = [word.rstrip("s").removesuffix("e") for word in term.split()]
        assert all(any(word.startswith(stem) for word in vocabulary) for stem in stems), (term, home)


def test_terms_are_in_order_with_one_line_each():
    terms = [term for term, _, _ in ROWS]
    assert terms == sorted(set(terms))
    assert all(meaning and len(meaning.split()) <= 25 for _, meaning, _ in ROWS)
