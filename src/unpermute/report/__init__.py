"""Results of tables as HTML: one self-contained page, or a card for a notebook.

Numbers first, then SVG, then the template. The style sheet, shapes and words of numbers are public
for other pages of the same family.
"""

from unpermute.report._card import render_card
from unpermute.report._findings import share_text, shorten, sure_text
from unpermute.report._render import render_report, style_sheet, write_report
from unpermute.report._svg import circle, line, path, picture, rectangles

__all__ = [
    "circle",
    "line",
    "path",
    "picture",
    "rectangles",
    "render_card",
    "render_report",
    "share_text",
    "shorten",
    "style_sheet",
    "sure_text",
    "write_report",
]
