"""How the pages are built: Markdown through MyST, the reference from docstrings; warnings are errors."""

from importlib.metadata import version as installed

project = "halowire"
author = "The halowire authors"
copyright = "the halowire authors, Apache-2.0"
version = release = installed("halowire")

default_role = "literal"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "halowire"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sphinx = False
