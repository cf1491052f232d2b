"""How long a moved margin takes to show its price, in a browser, on the demo: `python benchmarks/studio.py [CHROMIUM]`.

From the key that moves the slider to the new price on the page: 120 ms of quiet, a form, a plan at gap 1e-2 in its
process, the new part of the page. And from opening the page to the first price, with processes that just start.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from fitnoise import data
from fitnoise.interfaces.studio import serve
from fitnoise.interfaces.studio.folder import Folder

ASKED = "#price tbody tr:nth-child(2) td:nth-child(3)"
"""The margin that the price on the page is for."""

MOVED = f"old => ![undefined, old].includes(document.querySelector('{ASKED}')?.innerText)"
TIMES = 15


def main():
    browser = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as tool:
        folder = Path(name)
        shutil.copy(data.path(data.DEMO), folder / "spec.toml")
        shutil.copy(data.path(data.STATES), folder)
        own = tool.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = own.new_page()
        start = time.perf_counter()
        with serve.serving(Folder(folder)) as server:
            page.goto(server.page.as_uri())
            home = server.session.origin + server.session.home
            page.wait_for_url(home)
            page.goto(home + "tables")
            page.wait_for_selector("#price .cost")
            first = time.perf_counter() - start
            page.wait_for_timeout(3000)  # the spare process is there by now
            page.focus('[id="slider.1"]')
            took = []
            for _ in range(TIMES):
                before = page.inner_text(ASKED)
                start = time.perf_counter()
                page.keyboard.press("ArrowRight")
                page.wait_for_function(MOVED, arg=before)
                took.append(time.perf_counter() - start)
            own.close()
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} cores")
    print(f"server started to first price: {first:.2f} s")
    print(f"moved margin to new price: median {statistics.median(took):.3f} s, at most {max(took):.3f} s, of {TIMES}")


main()
