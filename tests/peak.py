"""How much memory a process has taken at most: for tests and benchmarks that promise a limit."""

import contextlib
import re
import resource
import sys
from pathlib import Path


def peak_memory() -> float:
    """Megabytes this program has held at once, at most.

    On Linux the kernel's figure for this program's own memory. What `getrusage` tells instead survives the start of a
    program, so that a process started by a large one would tell the memory of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def forget_peak() -> None:
    """Let the next `peak_memory` tell the most since now, where the kernel can: otherwise it is since the start."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
