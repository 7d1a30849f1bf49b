"""What all pictures share: colours, a figure that needs no screen, and files that are the same for the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Colours that colour-blind readers tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "v", "D")
DOTS = 120  # an inch


def new_figure(width: float, height: float, arranged: bool = True) -> Any:
    """An empty figure of so many inches; `arranged`: its panels and legends keep out of each other's way."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS, layout="constrained" if arranged else None)
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a PNG or SVG, as the file's ending says; its folder is made."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    still = {"Date": None} if path.suffix == ".svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(path, metadata=still)
