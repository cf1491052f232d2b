"""The law of documents: each alteration is refused or written again."""

import copy
import json
import math

from fitnoise.errors import FitnoiseError


def check_document(document, read, write, *, covered=(), is_sole=False, unaltered=()):
    """Check that a document reads back unchanged, and that each alteration is refused or written again.

    One leaf of every kind, without regard to its place in lists, is altered in several ways. So nothing in a document
    is ignored or mistaken for something else, and damage raises an error of fitnoise.

    covered: Leaves that other checks cover.
    is_sole: True if only this document is correct in its place.
    unaltered: Keys of documents that other checks alter, each as a document of its own.
    """
    value = copy.deepcopy(document)
    assert same_json(write(read(value)), document)
    assert same_json(value, document)
    for kind, altered in alterations(document):
        if len(kind) > 1 and kind[0] in unaltered:
            continue
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
