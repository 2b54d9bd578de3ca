"""How the pages are built: `make docs`."""

from __future__ import annotations

from statepact.__about__ import __version__

project = "statepact"
author = "The statepact authors"
project_copyright = author
release = version = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# A page names another page; a link that leads nowhere fails the build.
nitpicky = True

html_theme = "furo"
html_title = f"statepact {__version__}"
html_show_sphinx = False
html_copy_source = False
