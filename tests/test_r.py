"""The R package in `r/`: its own tests, the check of R, and the page about it.

Its tests make releases by the command line, some forty times: all are served by one process, and those of the page are
not. FITNOISE_R=required says that without R these tests fail.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_server import served_command
from run_pages import follow
from test_site import run

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "howto" / "read_a_release_in_r.md"
NEEDED = "for (name in c('testthat', 'tibble', 'jsonlite')) library(name, character.only = TRUE)"
VARIABLES = {"FITNOISE": str(Path(sys.executable).with_name("fitnoise")), "LC_ALL": "C.UTF-8"}


def has_packages():
    return shutil.which("Rscript") and in_r("Rscript", "-e", NEEDED).returncode == 0


def in_r(*command, **variables):
    folder = variables.pop("folder", None)
    environment = os.environ | VARIABLES | variables
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("FITNOISE_R") != "required" and not has_packages(),
        reason="there is no R with testthat, tibble and jsonlite on the path",
    ),
]


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The folder in which R has built, installed and checked the package, and its report."""
    folder = tmp_path_factory.mktemp("r")
    built = in_r("R", "CMD", "build", str(ROOT / "r"), folder=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (source,) = folder.glob("fitnoise_*.tar.gz")
    with served_command(tmp_path_factory.mktemp("command")) as command:
        done = in_r("R", "CMD", "check", "--no-manual", "--no-vignettes", source.name, folder=folder, FITNOISE=command)
    return folder / "fitnoise.Rcheck", done.stdout


def test_the_package_passes_the_check_of_r_and_its_tests(checked):
    folder, report = checked
    assert re.search(r"^Status: OK$", report, re.MULTILINE), report
    assert "FAIL 0 | WARN 0 | SKIP 0" in (folder / "tests" / "testthat.Rout").read_text(encoding="utf-8")


def test_the_page_prints_what_r_prints(checked, tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    follow(page, tmp_path, run)
    blocks = re.findall(r"^```r\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 3
    script = tmp_path / "page.R"
    script.write_text("".join(blocks), encoding="utf-8")
    done = in_r("Rscript", str(script), folder=tmp_path, R_LIBS=str(checked[0]))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[\d,.]+ ± [\d.]+ \(95 %\)", done.stdout, re.MULTILINE), done.stdout
