"""Time from a moved margin to its price on the page, on the demo: `python benchmarks/studio.py [CHROMIUM]`.

The first part has no browser. It times a form with another margin and its reply. The floor is the same plan at gap
1e-2, made in this process. They take turns, so that both have the same machine. It has wall seconds and those of
processors, to which other programs do not add: on an idle machine they are equal.

The second part uses a browser, from the key that moves the slider to the new price on the page. This time has 120 ms of
quiet, the form, the plan in its process, and the new part of the page. The part also times from opening the page to
the first price, with processes that just start.
"""

import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import httpx2
from playwright.sync_api import sync_playwright

import fitnoise as fn
from fitnoise import data
from fitnoise_studio import serve
from fitnoise_studio.folder import Folder, publication_of
from fitnoise_studio.planner import LIVE_PRICE_GAP

PRICE_CELL = "#details tbody tr:nth-child(2) td:nth-child(3)"
"""The margin that the price on the page is for."""

PRICE_CHANGED = f"old => ![undefined, old].includes(document.querySelector('{PRICE_CELL}')?.innerText)"
TIMES = 15


def prepared(name):
    """A folder with the demo's specification."""
    shutil.copy(data.path(data.DEMO), Path(name) / "spec.toml")
    shutil.copy(data.path(data.STATES), name)
    return Path(name)


def processor(process=None):
    """Seconds of processor that this process has used, or another one of this system."""
    if process is None:
        return time.process_time()
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured_prices(name):
    """Return the processor seconds of the process for the first price, from its start, and the seconds of others.

    The others have seconds from a form to its reply, processor seconds on both sides, and those of the plan alone.
    """
    folder = prepared(name)
    with serve.serving(Folder(folder)) as server, httpx2.Client(trust_env=False, timeout=60) as browser:
        session = server.session
        browser.post(f"{server.address}open", data={"code": server.code}, headers={"origin": "null"})
        base = re.search(r'data-base="(\w+)"', browser.get(f"{session.origin}{session.home}tables").text)[1]
        form = {"token": session.token("/tables"), "base": base, "tab": "1"}

        def move(turn):
            fields = {**form, "turn": str(turn), "number.1": str(20 - turn / 4)}
            headers = {"origin": session.origin, "x-studio": "1"}
            browser.post(f"{session.origin}{session.home}tables", data=fields, headers=headers).raise_for_status()

        move(1)
        process, waited, plan_seconds, used = server.studio.planner.pid, [], [], 0.0
        first_price = processor(process)
        time.sleep(5)  # the spare process is there by now
        for turn in range(2, 2 + TIMES):
            before, start = processor() + processor(process), time.perf_counter()
            move(turn)
            waited.append(time.perf_counter() - start)
            used += processor() + processor(process) - before
            publication = publication_of(server.studio.folder.text(), folder)
            start = time.perf_counter()
            fn.plan(replace(publication, gap=LIVE_PRICE_GAP))
            plan_seconds.append(time.perf_counter() - start)
    return first_price, waited, used / TIMES, plan_seconds


def main():
    with tempfile.TemporaryDirectory() as name:
        first_price, waited, used, plan_seconds = measured_prices(name)
    print(f"first price: {first_price:.2f} s of processor, from the start of its process")
    print(
        f"form to price: median {statistics.median(waited):.3f} s, {used:.3f} s of processor; the plan alone "
        f"{statistics.median(plan_seconds):.3f} s: "
        f"ratio {statistics.median(waited) / statistics.median(plan_seconds):.2f}"
    )
    browser = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as tool:
        folder = prepared(name)
        chromium = tool.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page()
        start = time.perf_counter()
        with serve.serving(Folder(folder)) as server:
            page.goto(server.page.as_uri())
            home = server.session.origin + server.session.home
            page.wait_for_url(home)
            page.goto(home + "tables")
            page.wait_for_selector("#price .cost")
            first_price = time.perf_counter() - start
            page.wait_for_timeout(3000)  # the spare process is there by now
            page.focus('[id="slider.1"]')
            took = []
            for _ in range(TIMES):
                before = page.inner_text(PRICE_CELL)
                start = time.perf_counter()
                page.keyboard.press("ArrowRight")
                page.wait_for_function(PRICE_CHANGED, arg=before)
                took.append(time.perf_counter() - start)
            chromium.close()
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} cores")
    print(f"server started to first price: {first_price:.2f} s")
    print(f"moved margin to new price: median {statistics.median(took):.3f} s, at most {max(took):.3f} s, of {TIMES}")


main()
