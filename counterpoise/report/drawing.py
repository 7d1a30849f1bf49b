"""What all pictures share: colours, figures without a display, and files that are identical for identical numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from warnings import catch_warnings, filterwarnings

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.skew import Counts

# Colours that colour-blind readers can distinguish (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "v", "D")
DOTS = 120  # per inch


def new_figure(width: float, height: float, arranged: bool = True) -> Any:
    """An empty figure, sizes in inches; `arranged`: panels and legends are laid out without overlap."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS, layout="constrained" if arranged else None)
    FigureCanvasAgg(figure)
    return figure


def write_counts(axes: Any, counts: Counts, shades: NDArray[np.float64], dark: float) -> None:
    """Each count into its cell, unless it is 0; white where the shade is above `dark`."""
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shades[row, column] > dark else "black"
            axes.text(column, row, f"{count}", ha="center", va="center", fontsize=7, color=colour)


def save(figure: Any, path: Path) -> None:
    """Write a PNG or SVG, by the file's ending; its folder is created."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": path.stem}), catch_warnings():
        filterwarnings("ignore", "Glyph .* missing from font")  # a name in another script is drawn as boxes
        figure.savefig(path, metadata=metadata)
