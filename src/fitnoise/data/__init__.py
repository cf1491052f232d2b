"""The real, public records that the demonstration counts; PROVENANCE.md names their source.

- `cps_taxunits_2014.csv.gz`: 103,589 tax units in six coded columns, one row each;
- `state_codes.csv`: the name of each state code in them;
- `cps_demo.toml`: the specification of the demonstration.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fitnoise.errors import DataError

CPS = "cps_taxunits_2014.csv.gz"

STATES = "state_codes.csv"

DEMO = "cps_demo.toml"


def path(name: str) -> Path:
    """Return the path of the packaged file `name` (`CPS`, `STATES` or `DEMO`) on disk.

    Raises:
        DataError: No such file is packaged, or the package is not unpacked on disk.
    """
    if name not in (CPS, STATES, DEMO):
        raise DataError(
            "packaged-file-unknown",
            f"There is no packaged data file {name!r}.",
            "",
            f"Name {CPS!r}, {STATES!r} or {DEMO!r}.",
            "No file was found.",
        )
    file = Path(str(resources.files(__name__) / name))
    if not file.is_file():
        raise DataError(
            "packaged-file-missing",
            f"The packaged file {file} is not on disk.",
            "",
            "Install fitnoise unpacked, with its data files.",
            "No file was found.",
        )
    return file
