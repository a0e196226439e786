"""Results of tables as one self-contained HTML page: numbers, then SVG, then the template."""

from unpermute.report._render import render_report

__all__ = ["render_report"]
