"""Settings with which `make docs` makes a site from the documentation."""

import gc
import logging
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fitnoise import __version__

sys.path.insert(0, str(Path(__file__).parent))

import generate_reference

logging.getLogger("fitnoise").setLevel(logging.WARNING)  # a library that the gallery imports shows all records

gc.set_threshold(100_000, 50, 100)  # a site keeps its nodes: seeking garbage took two fifths of the time

project, author, version = "fitnoise", "The fitnoise authors", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
template_bridge = "accessible.Accessible"
default_role = "code"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]  # the glossary
html_theme = "furo"
html_title = "fitnoise"
html_copy_source = False
html_show_copyright = False


class Generated(SphinxDirective):
    """The lines that a function of :mod:`generate_reference` returns, such as `commands`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the lines."""
        return self.parse_text_to_nodes(
            "\n".join(getattr(generate_reference, self.arguments[0])()), allow_section_headings=True
        )


def with_tables(_app: Sphinx, _kind: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Rewrite the Markdown tables of a docstring as tables of reStructuredText, in place."""
    output, in_table = [], False
    for line in lines:
        row = re.fullmatch(r"\|(.*)\|", line)
        if row and not in_table:
            output += [".. list-table::", "   :header-rows: 1", ""]
        in_table = bool(row)
        if row and set(row[1]) - set("-|"):
            head, *others = (cell.strip() for cell in row[1].split("|"))
            output += [f"   * - {head}", *(f"     - {cell}" for cell in others)]
        elif not row:
            output.append(line)
    lines[:] = output


def setup(app: Sphinx) -> None:
    """Register the directive and the function above."""
    app.add_directive("generated", Generated)
    app.connect("autodoc-process-docstring", with_tables)
