"""Runs as one HTML file that opens offline."""

from counterpoise.report.html.page import write_report

__all__ = ["write_report"]
