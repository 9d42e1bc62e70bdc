"""Sphinx configuration: MyST pages, furo, reference pages from docstrings."""

from __future__ import annotations

import re
from importlib.metadata import version as installed_version

project = "CoMT"
author = "The CoMT team"
release = version = installed_version("comt")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_build", "results/_*.md"]
html_theme = "furo"
html_title = f"CoMT {release}"

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": True}
# Types are shown as written: without other projects' inventories (no network in a strict build) links to NumPy's
# types could not be resolved.
autodoc_typehints = "none"
autoclass_content = "class"
nitpicky = True
# the standard library and NumPy have no page here
nitpick_ignore_regex = [
    ("py:class", r"(abc|typing|collections|numpy)\..*"),
    ("py:class", r"(object|Exception|ValueError|RuntimeError|PermissionError|ImportError|UserWarning)"),
]

_LITERAL = re.compile(r"(``.*?``|:\w+:`.*?`)")


def escape_bars(app, what, name, obj, options, lines):
    """Docstrings write magnitudes as |α|, which reStructuredText would read as a substitution."""
    for index, line in enumerate(lines):
        if line.startswith("    ") or ">>>" in line:
            continue
        parts = _LITERAL.split(line)
        lines[index] = "".join(part if _LITERAL.fullmatch(part) else part.replace("|", r"\|") for part in parts)


def literal_formulas(app, what, name, obj, options, lines):
    """Docstrings set formulas off by indenting them; show such blocks as they are instead of as quotations."""
    result: list[str] = []
    numpydoc = any(set(line) == {"-"} for line in lines)
    for index, line in enumerate(lines):
        begins = line.startswith("    ") and index > 0 and not lines[index - 1].strip()
        if begins and not numpydoc and not (result and result[-1].startswith("    ")):
            previous = next((text for text in reversed(result) if text.strip()), "")
            if not previous.startswith("    "):
                result += ["::", ""]
        result.append(line)
    lines[:] = result


_constants: dict[str, list[str]] = {}


def hide_from_napoleon(app, what, name, obj, options, lines):
    """Napoleon takes the text before a colon in an attribute's comment for its type: keep such comments from it."""
    if what in ("attribute", "data"):
        _constants[name] = list(lines)
        lines.clear()


def show_again(app, what, name, obj, options, lines):
    """Put back what was hidden."""
    if name in _constants:
        lines[:] = _constants.pop(name)


def setup(app):
    """Connect the small repairs of docstrings; napoleon itself has priority 500."""
    app.connect("autodoc-process-docstring", hide_from_napoleon, priority=400)
    app.connect("autodoc-process-docstring", show_again, priority=600)
    app.connect("autodoc-process-docstring", escape_bars, priority=700)
    app.connect("autodoc-process-docstring", literal_formulas, priority=700)
