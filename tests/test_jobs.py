"""The how-to guide on jobs, followed in processes of their own."""

import os
import re
import subprocess
import sys

from run_pages import as_shown
from test_site import DOCS

PAGE = (DOCS / "howto" / "run_as_a_job.md").read_text(encoding="utf-8")


def environment(**settings):
    """Return the environment of a job: commands by their names, and no settings of fitnoise other than these."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FITNOISE_")}
    return inherited | {"PYTHONPATH": os.pathsep.join(sys.path), **settings}


def run(command, folder, **settings):
    """Run a command of the page, and return the exit code, and both outputs as a terminal shows them."""
    command = re.sub(
        r"\b(fitnoise|python) ", lambda m: f"{sys.executable} {'-m fitnoise ' * (m[1] == 'fitnoise')}", command
    )
    done = subprocess.run(  # noqa: S602 - our own page
        command,
        shell=True,
        cwd=folder,
        env=environment(**settings),
        stdout=-1,
        stderr=-2,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout


def test_the_page_does_what_it_says(tmp_path):
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        if kind != "console":
            (tmp_path / block.split()[1]).write_text(block, encoding="utf-8")
            continue
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            _, output = run(command, tmp_path)
            assert as_shown(expected).fullmatch(output), f"{command} says\n{output}\nand not\n{expected}"
