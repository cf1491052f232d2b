"""The wheel and the source distribution, installed into environments of their own: `make package`, `make pythons`.

The wheel is built from the source distribution, so that a file missing there is noticed. A fresh environment has only
the pinned dependencies. It runs the demo, follows a tutorial, and its size is measured. Each extra is used with that
extra alone in addition. `--tutorials` follows and times all tutorials and pages of `howto/`, with only the packages
that they name.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from run_pages import follow

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorials" / "pure_epsilon.md"
IN_A_BROWSER = "in_the_studio"
"""Followed by tests/test_studio_browser.py."""

MAX_MB = 400
"""Largest size of an environment with only what is needed, without pip and compiled Python files."""

FOLLOW = "--follow"
"""A page, in this environment."""

NEWEST = 15
"""Python 3.x up to which one is looked for."""

SPEC = "data = {{ source = 'people' }}\ndomain.sex = {{ type = 'categorical', codes = ['f', 'm'] }}\n{}\n"
TABLE = "tables = [{ attributes = ['sex'], margin = 5 }]"

EXTRAS = {
    "plot": ["fitnoise plan spec.toml --plot costs.svg"],
    "report": ["fitnoise plan spec.toml -o plan.json", "fitnoise write report plan.json -o report.html"],
    "sql": [
        "fitnoise plan spec.toml -o plan.json",
        "python people.py",
        "fitnoise release plan.json sqlite:///people.db --table people --ledger budget.sqlite -o release",
    ],
    "statistics": ["python -c 'import fitnoise.engines.statistical, openpyxl, pyreadstat'"],
    "spark": ["python -c 'import fitnoise.engines.spark, pyspark'"],
    "sealed": ["fitnoise count keys my.key"],
    "opendp": ["python -c 'import opendp.prelude, fitnoise.opendp'"],
    "sdmx": ["python -c 'import fitnoise.interfaces.exports.sdmx as x; x._library()'"],
    "studio": ["python -c 'import fitnoise_studio.serve'"],
}
"""Commands that use each extra. The extra `gpu` has two gigabytes; `make test` covers it."""

SAMPLE = ROOT / "tests" / "data" / "stored" / "plans" / "large_finite.json"

DISTRIBUTIONS = {
    "fitnoise-check": f"from fitnoise_check.plan import main; assert main({str(SAMPLE)!r}) == 0",
    "fitnoise-lab": "from fitnoise_lab import baselines, gallery; assert baselines.gaussian(gallery.prefix(4), 1.0)",
}
"""Code that uses each other distribution of the repository, with fitnoise installed."""

PEOPLE = (
    "import sqlite3; db = sqlite3.connect('people.db'); db.execute('CREATE TABLE people (sex TEXT)'); "
    "db.executemany('INSERT INTO people VALUES (?)', [['f'], ['m']] * 50); db.commit()"
)


def done(*command, **options):
    subprocess.run(command, check=True, **options)


def built(folder):
    """The wheel, made from the source distribution."""
    done(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT, stdout=subprocess.DEVNULL)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder / "source", filter="data")
    (inside,) = (folder / "source").iterdir()
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=inside, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    print(f"built {source.name} and {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB)")
    return wheel


def environment(folder, wheel, python=sys.executable):
    """A fresh one with the wheel and what it needs, as pinned."""
    done(python, "-m", "venv", folder)
    pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    done(*pip, "--require-hashes", "-r", ROOT / "requirements.lock")
    done(*pip, "--no-deps", wheel)
    return folder


def around(folder):
    """The variables of what runs there."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"PATH": path, "COLUMNS": "120"}


def running(env):
    """A way to run commands there."""
    variables = around(env)

    def run(command, folder):
        program, *arguments = shlex.split(command)
        executable = shutil.which(program, path=variables["PATH"])
        done = subprocess.run(
            [executable, *arguments], check=False, cwd=folder, env=variables, capture_output=True, encoding="utf-8"
        )
        error = done.stderr.partition("error: ")
        failed = error[1] or re.search("^FAILS ", done.stdout, re.MULTILINE)
        assert (done.returncode != 0) == bool(failed), done.stderr
        return done.stdout + "".join(error[1:])

    return run


def followed(page, env, folder):
    """Follow a page in an environment, its Python too, and return the seconds that it takes."""
    folder.mkdir(exist_ok=True)
    begun = time.monotonic()
    done(env / "bin" / "python", __file__, FOLLOW, page, cwd=folder, env=around(env))
    return time.monotonic() - begun


def tried(env, folder):
    """Run the demo and follow a tutorial there."""
    folder.mkdir()
    run, begun = running(env), time.monotonic()
    assert "rho = 0.035" in run("fitnoise new --demo", folder)
    demo = time.monotonic() - begun
    return f"demo {demo:.0f} s, {TUTORIAL.stem} {followed(TUTORIAL, env, folder):.0f} s"


def extend(base, folder, *packages):
    """Return an environment with packages in addition to those of the base, which stays unchanged."""
    done(base / "bin" / "python", "-m", "venv", "--without-pip", folder)
    site, packages_folder = (next((p / "lib").glob("python3.*/site-packages")) for p in (base, folder))
    (packages_folder / "base.pth").write_text(f"{site}\n", encoding="utf-8")
    script = shutil.copy(base / "bin" / "fitnoise", folder / "bin")
    text = Path(script).read_text(encoding="utf-8")
    Path(script).write_text(text.replace(str(base), str(folder)), encoding="utf-8")
    pip = [base / "bin" / "pip", "--python", folder / "bin" / "python", "install", "--quiet"]
    if packages:
        done(*pip, "--disable-pip-version-check", *packages)
    return folder


def tutorials(wheel, folder):
    """Follow each as if nothing had been done before: what it names is installed, its commands and Python are run."""
    base, wheels = environment(folder / "base", wheel), folder / "wheels"
    for distribution in DISTRIBUTIONS:
        built_wheel(wheels, distribution)
    for page in (*sorted(DOCS.glob("tutorials/*.md")), *sorted(DOCS.glob("howto/*.md"))):
        if page.stem == IN_A_BROWSER:
            continue
        work_folder, begun = folder / page.stem, time.monotonic()
        work_folder.mkdir()
        commands = re.findall(r"^pip install (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        packages = [x for line in commands for x in shlex.split(line)]
        env = extend(base, folder / f"{page.stem}-env", *(["--find-links", wheels, *packages] if packages else []))
        installed = time.monotonic() - begun
        print(f"{page.stem}: {followed(page, env, work_folder):.0f} s, after {installed:.0f} s to install", flush=True)


def try_extra(extra, base, folder):
    """Make an environment with one extra in addition to the base, and run the commands of the extra."""
    work_folder = folder / extra
    env = extend(base, work_folder / "env", f"fitnoise[{extra}]")
    (work_folder / "spec.toml").write_text(SPEC.format(TABLE), encoding="utf-8")
    (work_folder / "people.py").write_text(PEOPLE, encoding="utf-8")
    run = running(env)
    for command in EXTRAS[extra]:
        run(command, work_folder)


def interpreter(minor):
    """A Python 3.x that runs, if one is here: by its name, or as pyenv keeps it."""
    pyenv_paths = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python"), reverse=True)
    for python in filter(None, (shutil.which(f"python3.{minor}"), *pyenv_paths)):
        if subprocess.run([python, "--version"], check=False, capture_output=True).returncode == 0:
            return python
    return None


def pythons(wheel, folder):
    """Try every other Python that is here, as `package` tries this one; say which, and which is not."""
    for minor in range(11, NEWEST + 1):
        if minor == sys.version_info.minor:
            continue
        python, result = interpreter(minor), "not here"
        if python is not None:
            result = tried(environment(folder / f"{minor}", wheel, python), folder / f"in{minor}")
        print(f"Python 3.{minor}: {result}", flush=True)


def package(wheel, folder):
    """Try this Python, measure, and try every extra alone."""
    base = environment(folder / "base", wheel)
    files = [f for f in base.rglob("*") if f.is_file() and not f.is_symlink()]
    package_files = [f for f in files if "__pycache__" not in f.parts and not {"pip", "setuptools"} & set(f.parts)]
    full_size, size = (sum(f.stat().st_size for f in file_list) / 1e6 for file_list in (files, package_files))
    print(f"base installation: {size:.0f} MB, and {full_size:.0f} MB with pip and what Python compiles", flush=True)
    assert size < MAX_MB
    print(tried(base, folder / "in"), flush=True)
    for extra in EXTRAS:
        try_extra(extra, base, folder)
        print(f"fitnoise[{extra}] alone does what it is for", flush=True)
    for distribution, use in DISTRIBUTIONS.items():
        env = extend(base, folder / distribution, built_wheel(folder / distribution, distribution))
        done(env / "bin" / "python", "-c", use, cwd=folder, env=around(env))
        print(f"{distribution} alone does what it is for", flush=True)


def built_wheel(folder, distribution):
    """The wheel of another distribution of the repository."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    done(*command, cwd=ROOT / "packages" / distribution, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob(f"{distribution.replace('-', '_')}-*.whl")
    return wheel


if FOLLOW in sys.argv:
    follow(Path(sys.argv[-1]).read_text(encoding="utf-8"), Path.cwd(), running(Path(sys.prefix)))
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        tasks = {"--pythons": pythons, "--tutorials": tutorials}
        next((tasks[x] for x in sys.argv if x in tasks), package)(built(Path(where)), Path(where))
