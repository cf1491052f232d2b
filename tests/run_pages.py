"""Follow a page of the documentation, and compare its results with the page. It needs only Python."""

import contextlib
import io
import re


def follow(page, folder, run):
    """Follow a page: write its files, run its commands and its Python, and compare their output.

    In what is shown, … stands for anything, and for any lines where it stands alone. Return the names that its Python
    defines.

    page: its text.
    run: what a command says in a folder.
    """
    names, printed = {}, ""
    for kind, block in re.findall(r"^```(toml|console|python|text)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if kind == "toml":
            (folder / block.split()[1]).write_text(block, encoding="utf-8")
        elif kind == "python":
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as lines:
                exec(block, names)  # noqa: S102 - our own documents
            printed = lines.getvalue()
        elif kind == "text":
            assert as_shown(block).fullmatch(printed), f"the page prints\n{printed}\nand not\n{block}"
        else:
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                output = run(command, folder)
                assert as_shown(expected).fullmatch(output), f"{command} says\n{output}\nand not\n{expected}"
    return names


def as_shown(lines):
    """Return the pattern that matches the output shown on a page."""
    pattern = re.escape(lines).replace("…\\\n", "…\n")
    pattern = re.sub(r"^…\n", "(?:.*\\n)*", pattern, flags=re.MULTILINE)
    return re.compile(pattern.replace("…", ".*"))
