"""What files need beside being written. Nothing here costs anything."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def sync_names(folder: Path) -> None:
    """The names in a folder to the disk, where the platform can: what is written is at stake, never a charge."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
