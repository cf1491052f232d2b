"""Responses of the studio to forms that no page would send. Run: python benchmarks/fuzzed_forms.py [COUNT]

The benchmark sends COUNT forms (default 10,000) to all addresses that change something, and reads a page after each.
Their fields are wrong, long, hostile or plausible. The first error that is not an error of fitnoise ends it.
`tests/test_studio.py` sends a hundred.
"""

import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from studios import filled, opened
from test_studio import fuzzed


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patch,
        opened(filled(Path(name) / "f"), patch) as client,
    ):
        fuzzed(client, count)
    print(f"{count:,} forms answered in {time.perf_counter() - start:.0f} s")


main()
