"""Results of tables as HTML: one self-contained page, or a card for a notebook.

Numbers first, then SVG, then the template.
"""

from unpermute.report._card import render_card
from unpermute.report._render import render_report, write_report

__all__ = ["render_card", "render_report", "write_report"]
