"""Runs as one HTML file that opens offline."""

from counterpoise.report.html.page import write_page, write_report

__all__ = ["write_page", "write_report"]
