"""Engines: the readers of files, frames and databases, which count records over a declared domain.

Each engine is a :class:`fitnoise.kernel.counting.Counter`, and keeps the contract R1 to R3 that
:mod:`fitnoise.kernel.counting` states. An engine knows the domain, the source and the bound on persons. It knows no
plan, no price and no noise.

**Trust.** A mistake here can count a record in two places, in none, or in a wrong one. So engines are tried. A
database counts known records before it counts others. DuckDB codes known values of every type of column that it is
about to read, and with a bound it counts known persons. A difference from the declared cells refuses the engine
(:mod:`fitnoise.kernel.counting.trial`).
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from fitnoise.engines.databases import database, is_database
from fitnoise.engines.duck import DuckCounter
from fitnoise.engines.histogram import HistogramCounter
from fitnoise.engines.spark import in_spark, is_spark
from fitnoise.engines.sql import SqlCounter
from fitnoise.errors import DataError, DomainError
from fitnoise.kernel.counting import Counter, SealedCounter, is_sealed
from fitnoise.kernel.counting.keys import PrivateKeys
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import DataSource, RecordBound

__all__ = ["DuckCounter", "SqlCounter", "open_counter"]


def open_counter(
    data: Any,
    domain: Domain,
    source: DataSource,
    bound: RecordBound | None = None,
    *,
    keys: PrivateKeys | None = None,
) -> Counter:
    """Return a counter for the data.

    Args:
        data: One of the following kinds of data.
            A path to CSV (also .csv.gz), Parquet, a pattern such as "parts/*.parquet", a folder, or a list of these.
            Folders in it called column=value hold a column.
            A DuckDB, SQLite or Excel file, or a file of SPSS, SAS or Stata.
            A database: "env:NAME" with its URL in a variable of the environment, a URL without a password, or an Engine
                or URL of SQLAlchemy.
            "spark:TABLE", a session of Spark (whose table the source names), or its DataFrame. The needed columns of a
            DataFrame are stored in the cluster while they are counted.
            An Arrow, Polars or pandas frame.
            An integer NumPy array of counts with the domain's shape (or flat, in C order).
            A file of counts made elsewhere, sealed or not; or a Counter.
        domain: The declared domain.
        source: The table of a database, or sheet of a file, and the action for records outside the domain.
        bound: The bound on counted records of a person, with the column of the id; `None` counts all. It changes
            nothing for an array of counts, which has no persons. A Counter is returned as it is: it has its own domain,
            source and bound.
        keys: The private keys that may open sealed counts.

    Raises:
        DataError: The source is of no known kind or cannot be opened.
        DataError: The pattern names an attribute that the domain lacks.
        DataError: An amount to add up is not an amount, or its range is not a whole number of steps from zero.
        DataError: A key is given, and the data are not a file of sealed counts.
        DataError: The constructor of the counter refuses these data.
    """
    # A Counter is open already, so a key with it is refused below, as with any data that are not sealed.
    if isinstance(data, Counter) and keys is None:
        return data
    if bound is not None and not bound.pattern.names <= set(domain):
        raise DataError(
            "pattern-attribute-unknown",
            f"The records of one unit keep to a pattern in {sorted(bound.pattern.names)}.",
            f"The attributes of the domain are {list(domain)}.",
            "Name attributes of the domain in the pattern.",
            "Nothing was read and nothing was charged.",
        )
    for a in () if bound is None else bound.merge:
        if a not in domain.steps:
            raise DataError(
                "sum-within-unit-attribute-not-amount",
                f"The records of one unit are merged by adding up {a!r}, which is not an amount of the domain.",
                f"The amounts of the domain are {list(domain.steps)}.",
                "Name amounts of the domain in sum_within_unit, or remove the key.",
                "Nothing was read and nothing was charged.",
                place="privacy.sum_within_unit",
            )
        try:
            domain[a].coding.uncut()
        except DomainError as e:
            raise DataError(
                "sum-within-unit-amount-range-invalid",
                f"The amount {a!r} cannot be added up. {e.given}",
                e.needed,
                e.action,
                "Nothing was read and nothing was charged.",
                place="privacy.sum_within_unit",
            ) from None
    if is_sealed(data):
        return SealedCounter(data, domain, source, bound, opener=None if keys is None else keys.open)
    # The publisher believes that these data are sealed. Ignoring the key would hide the mistake.
    if keys is not None:
        raise DataError(
            "key-without-sealed-counts",
            "A private key is given, and the data are not a file of sealed counts.",
            "A key opens sealed counts, which fitnoise count makes.",
            "Leave the key out.",
            "Nothing was read and nothing was charged.",
        )
    several = isinstance(data, (list, tuple)) and all(isinstance(path, (str, PathLike)) for path in data)
    if isinstance(data, np.ndarray):
        return HistogramCounter(data, domain, source)
    if is_spark(data) or is_database(data):
        return SqlCounter(in_spark(data) if is_spark(data) else database(data), domain, source, bound)
    if several or isinstance(data, (str, PathLike)):
        return DuckCounter.from_path(data, domain, source, bound=bound)
    # Look at the class, because the attributes of a frame can be its columns.
    if hasattr(type(data), "__arrow_c_stream__") or hasattr(type(data), "collect"):
        return DuckCounter.from_frame(data, domain, source, bound=bound)
    raise DataError(
        "data-of-unknown-kind",
        f"The data are an object of the type {type(data).__name__}.",
        "Data must be a path, several paths, a data frame or an array of counts.",
        "Give one of these.",
        "Nothing was read.",
    )
