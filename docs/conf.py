"""Sphinx configuration: `make docs` builds the site into docs/_build/html, warnings are errors."""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx_gallery.sorting import ExplicitOrder

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

import sklearn_dpwg  # noqa: E402

project = "sklearn-dpwg"
author = "The sklearn-dpwg developers"
copyright = author
version = release = sklearn_dpwg.__version__

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # the site shows its maths without a network
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
nitpicky = True
highlight_language = "default"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# Types stand in the docstrings, where numpydoc wants them; signatures stay short.
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autosummary_ignore_module_all = False  # the reference is what each __all__ says
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

plot_formats = [("png", 160)]
plot_html_show_formats = False
plot_html_show_source_link = False

sphinx_gallery_conf = {
    "write_computation_times": False,  # such pages load scripts from elsewhere
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": ExplicitOrder(
        [
            "quickstart.py",
            "plot_earnings.py",
            "plot_raw_table.py",
            "plot_models_that_bend.py",
            "plot_private_search.py",
            "plot_guarantee.py",
            "plot_choosing_epsilon.py",
            "plot_rates.py",
            "*",
        ]
    ),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "sklearn-dpwg"
html_static_path = ["_static"]
html_context = {"default_mode": "auto"}  # the theme complains when nothing is said
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "sharp_edges", "solvers", "checks")}
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}


def public_names():
    """Map the name of every public module to the names that it exports."""
    found = {}
    modules = {module.name for module in pkgutil.iter_modules(sklearn_dpwg.__path__)}
    modules -= {"estimators"}  # its names are those of the package itself
    modules -= {"data"} | {name for name in modules if name.startswith("_")}  # not public
    modules |= {
        "data.distributed",
        "data.oracles",
        "data.problem",
        "data.records",
        "data.risks",
        "data.sources",
        "solvers.learners",
    }
    for name in ["sklearn_dpwg", *(f"sklearn_dpwg.{module}" for module in sorted(modules))]:
        module = importlib.import_module(name)
        own = [
            key
            for key, value in vars(module).items()
            if inspect.isclass(value) and value.__module__ == name and not key.startswith("_")
        ]
        found[name] = list(getattr(module, "__all__", own))
    return found


autosummary_context = {"public_names": public_names()}
LINKS = {short: f"{module}.{short}" for module, names in public_names().items() for short in names}


def link_or_literal(role, rawtext, text, lineno, inliner, options=None, content=None):
    """Read `Name` in a docstring as a link where it is public, else as code."""
    literal = nodes.literal(rawtext, text, classes=["py", "py-obj"])
    if text not in LINKS:
        return [literal], []
    link = pending_xref(
        rawtext, literal, refdomain="py", reftype="obj", reftarget=LINKS[text], refexplicit=True
    )
    return [link], []


default_role = "public"


def unlink_foreign_text(app, what, name, thing, options, lines):
    """Make code of the roles in docstrings of scikit-learn, whose targets are not here."""
    if str(getattr(thing, "__module__", "")).startswith("sklearn."):
        lines[:] = [re.sub(r":\w+:`~?([^`<]+?)(?: <[^`]*>)?`", r"``\1``", line) for line in lines]


# A constant has no docstring of its own; without these its type's would be shown.
CONSTANTS = {
    "sklearn_dpwg.solvers.SOLVERS": "Map the names of the solvers to their classes.",
}


def describe_constants(app, what, name, thing, options, lines):
    """Say what a constant is; one that is not described here fails the build."""
    if what == "data":
        lines[:] = [CONSTANTS[name], ""]


def setup(app):
    app.connect("autodoc-process-docstring", describe_constants, priority=100)
    app.connect("autodoc-process-docstring", unlink_foreign_text, priority=900)
    app.add_role("public", link_or_literal)
