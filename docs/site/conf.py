"""How Sphinx makes the documentation site: ``make site`` calls it on a copy of the repository.

Why Sphinx with MyST and Furo (November 2026): pages stay the CommonMark that a code host renders, links between files
work as they are, and a link or a heading that leads nowhere fails the build. The search needs no server and no other
host, also from ``file://``. MkDocs 1 has had no release for two years, Material for MkDocs only gets fixes, and
Zensical, by the same authors, is at 0.1 and reads Python-Markdown, to which the pages would have to be adapted.
"""

import os
import re
from typing import Any

project = "Zoneward"
author = "The Zoneward authors"
version = release = os.environ.get("ZONEWARD_SITE_VERSION", "dev")
"""The version's folder on the site: ``dev``, ``0.1``. ``release/documentation.py`` says it."""
html_title = "Zoneward"

extensions = ["myst_parser"]
root_doc = "index"
smartquotes = False
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_static_path = ["docs/site/static"]
templates_path = ["docs/site/templates"]
html_css_files = ["site.css"]
html_js_files = [("switcher.js", {"defer": "defer"})]
html_copy_source = html_show_sourcelink = html_show_copyright = html_show_sphinx = False
html_sidebars = {
    "**": [
        *("sidebar/brand.html", "versions.html", "sidebar/search.html"),
        *("sidebar/scroll-start.html", "sidebar/navigation.html", "sidebar/scroll-end.html"),
    ]
}
# Both pass WCAG AA on the backgrounds below.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b5cad",
        "color-brand-content": "#0b5cad",
        "color-brand-visited": "#5b4a9e",
        "color-code-background": "#f2f5f8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#79b8ff",
        "color-brand-content": "#79b8ff",
        "color-brand-visited": "#c4b5fd",
        "color-code-background": "#1d2127",
    },
}

_SCROLLS = re.compile(r"<pre(?=>)|<div class=\"table-wrapper[^>]*(?=>)|<p(?=><img [^>]*></p>)")
"""What is wider than a small screen: code, tables, and pictures in a paragraph of their own."""
_LONG = re.compile(r"<span class=\"pre\">([^<]{16,})</span>")
_PART = re.compile(r"(?<=[./,=:_])(?=\w)|(?<=[a-z])(?=[A-Z])")
"""Where a long name may go on in the next line: ``featureGates.ServiceTrafficDistribution``."""


def _improve(_app: object, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """What scrolls sideways does so without a mouse, too; captions have the level that their role asks for."""
    if "body" in context:
        body = _SCROLLS.sub(lambda match: f'{match[0]} tabindex="0"', context["body"])
        context["body"] = _LONG.sub(lambda match: f'<span class="pre long">{_PART.sub("<wbr>", match[1])}</span>', body)
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Any) -> None:
    # Behind Furo, which makes the tree.
    app.connect("html-page-context", _improve, priority=900)
