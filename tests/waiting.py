"""Wait for what another thread or process does: tests wait for no fixed time, and compare no times."""

import time


def wait_until(condition, seconds=60):
    """Return once a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)
