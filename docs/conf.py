"""Configuration of the documentation: `make docs` builds it, warnings are errors."""

import os
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import unpermute

# Filled by the extension `scratch`; it must exist when the options are checked.
(DOCS / "_extra").mkdir(exist_ok=True)

os.environ.update(
    MPLBACKEND="agg",
    COLUMNS="74",
    NO_COLOR="1",
    OMP_NUM_THREADS="1",
    PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
)
# What an example warns about is shown on its page; what libraries announce is not for readers.
warnings.filterwarnings("ignore", category=DeprecationWarning)
# joblib replaces workers of the gallery that need much memory; no work is lost.
warnings.filterwarnings("ignore", message="A worker stopped while some jobs")

project = "unpermute"
author = "The unpermute developers"
copyright = "the unpermute developers"
version = release = unpermute.__version__
root_doc = "index"
templates_path = ["_templates"]
exclude_patterns = [
    "_templates",
    "_build",
    "_scratch",
    "_ext",
    "_extra",
    "README.md",
    "paper",
    "images",
    "**/sg_execution_times.rst",
    "tutorials/python/index.rst",
]

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.programoutput",
    "command_reference",
    "decisions",
    "import_graph",
    "scratch",
    "warm_up",
]

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
programoutput_prompt_template = "$ {command}\n{output}"

# API reference
autosummary_generate = True
autodoc_typehints = "none"
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks = set()

# Other projects are linked only on request: a build must not need the network.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }
    if os.environ.get("UNPERMUTE_DOCS_ONLINE")
    else {}
)
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|sklearn|pandas|polars|pyarrow|dask|matplotlib|zarr|pathlib)\..*"),
    ("py:.*", r"unpermute\.(.*\.)?_.*"),
    ("py:.*", r"unpermute\.numerics\..*|unpermute\.(records|columns|files|pmsdr)(\..*)?"),
]

# Gallery and tutorials in Python
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery", "../examples/tutorials"],
    "gallery_dirs": ["gallery", "tutorials/python"],
    "subsection_order": [
        f"../examples/gallery/{name}" for name in ("tables", "matrix", "confidence", "methods")
    ],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "parallel": int(os.environ.get("UNPERMUTE_DOCS_JOBS", "2")),
    "doc_module": ("unpermute",),
    "reference_url": {"unpermute": None},
    "backreferences_dir": "_backreferences",
    "capture_repr": ("_repr_html_",),
    "inspect_global_variables": False,
    "show_signature": False,
    "copyfile_regex": "",
    "image_scrapers": ("matplotlib",),
}

# The look
html_theme = "pydata_sphinx_theme"
html_title = "unpermute"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_css_files = ["unpermute.css"]
html_favicon = "_static/mark.svg"
html_logo = "_static/mark.svg"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "unpermute"},
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
# Pages without neighbours in their section have no list of them.
html_sidebars = {"index": [], "start": [], "how-to": []}
