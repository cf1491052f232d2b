"""The peak memory of a process, for tests and benchmarks that state a limit."""

import contextlib
import re
import resource
import sys
from pathlib import Path


def peak_memory() -> float:
    """Return the largest number of megabytes that this program has held at once.

    On Linux it is the kernel's figure for this program. The figure of `getrusage` survives the start of a program: a
    process started by a large one would report the memory of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def forget_peak() -> None:
    """Let the next `peak_memory` report the peak since now. If the kernel cannot, it is the peak since the start."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
