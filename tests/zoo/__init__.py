"""The registered zoo: every operator, workload, kind of problem and design that the laws are checked on.

Python imports a file of this package when a test asks for one of its names. Few tests need pandas, Polars or a
database.
"""

import importlib

ROOMS = {
    "operators": ("OPERATORS",),
    "workloads": (
        "WORKLOADS", "REQUESTS", "UNEVEN", "lower", "places", "five_cells", "seven_cells", "crossed", "many_places",
        "many_cells",
    ),
    "problems": ("OBJECTIVES", "terms", "formulation", "all_pairs", "evidence"),
    "designs": ("ADJACENCIES", "TABLES", "PRODUCTS", "DISAGREEING", "CHAINED", "TREES", "QUESTIONS", "DESIGNS"),
    "attributes": ("ATTRIBUTES", "Months"),
    "sources": ("COUNTERS",),
    "documents": ("DOCUMENTS",),
}  # fmt: skip
"""The names that tests ask for, by file."""

_FILES = {name: file for file, names in ROOMS.items() for name in names}


def __getattr__(name):
    """Import the file with a name of the zoo."""
    if name not in _FILES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)
