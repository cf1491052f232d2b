"""Docstrings name the parameters and fields that the code has."""

import ast
import inspect
import re

from rooms import product_files

ENTRY = re.compile(r"^(?: {4})?`?([a-z_]\w*`?(?:, `?[a-z_]\w*`?)*): (.)", re.MULTILINE)
INSIDE = re.compile(r"[.;)] ([a-z_]\w*): [A-Z]")
SECTION = re.compile(r"^(?:Raises|Returns|Source|\*\*Guarantees\*\*).*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def parameters(function):
    """Return the names of the parameters of a function."""
    signature = function.args
    nodes = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs, signature.vararg, signature.kwarg]
    return {x.arg for x in nodes if x is not None}


def names_of(node):
    """Return the names that a docstring may explain: parameters of a function; fields and attributes of a class."""
    if isinstance(node, ast.FunctionDef):
        return parameters(node)
    out = set()
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            out |= {part.name} | (parameters(part) if part.name in {"__init__", "__new__"} else set())
            out |= {x.attr for x in ast.walk(part) if isinstance(x, ast.Attribute)}
        else:
            out |= {x.id for x in ast.walk(part) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    return out


def entries(document, *, is_class):
    """Return the names that a docstring explains, and those that it explains inside a paragraph.

    In functions the text of an entry starts with a capital letter or a sign: prose may have a word and a colon, too.
    """
    text = SECTION.sub("", document)
    groups = [names for names, letter in ENTRY.findall(text) if is_class or not re.match("[a-z`]", letter)]
    at_start = {name.strip("`") for names in groups for name in names.split(", ")}
    return at_start, set(INSIDE.findall(text))


def faults(code):
    """Return the names of code whose docstring explains a name that is not there, or two names in one paragraph."""
    out = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (document := ast.get_docstring(node)):
            names = names_of(node)
            explained, inside = entries(document, is_class=isinstance(node, ast.ClassDef))
            upper = {name for name in explained if name.isupper()}
            out += [(node.name, name) for name in sorted(explained - names - upper)]
            out += [(node.name, name) for name in sorted(inside & names)]
    return out


def test_docstrings_explain_names_that_exist_one_a_line():
    wrong = [(path.as_posix(), *fault) for path in product_files(".py") for fault in faults(path.read_text("utf-8"))]
    assert wrong == []


def test_renamed_and_joined_entries_are_found():
    code = inspect.cleandoc('''
        def f(index, size):
            """Return a number.

            Args:
                place: The index.
            """

        class A:
            """A pair.

            one: The first. two: The second.
            """

            one: int
            two: int
    ''')
    assert faults(code) == [("f", "place"), ("A", "two")]
