"""Confusion counts of a model on a test set: numbers, a frame and a picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.skew import Counts
from counterpoise.report.drawing import new_figure, save, write_counts
from counterpoise.report.heatmap import name_ticks
from counterpoise.run.trained import need_pandas

COLOURS = "Blues"
MOST_NUMBERS = 625  # cells up to which counts are written
DARK = 0.55  # share above which numbers are white


class Confusion(NamedTuple):
    """Counts [true class, answer]."""

    counts: Counts
    classes: tuple[str, ...]

    @property
    def shares(self) -> NDArray[np.float64]:
        """[true class, answer] the counts as shares of each true class; 0 where it has no samples."""
        totals = self.counts.sum(axis=1, keepdims=True)
        return np.asarray(self.counts / np.maximum(totals, 1))

    def frame(self) -> Any:
        """A data frame: rows are true classes, columns answers."""
        pandas = need_pandas()
        rows, columns = (pandas.Index(self.classes, name=name) for name in ("true class", "answer"))
        return pandas.DataFrame(self.counts, index=rows, columns=columns)

    def draw(self, path: Path | str, title: str = "") -> Path:
        """Write a PNG or SVG; colours are shares of each true class."""
        save(self._figure(title), Path(path))
        return Path(path)

    def _repr_png_(self) -> bytes:
        """The picture, as Jupyter shows it."""
        stream = io.BytesIO()
        self._figure("").savefig(stream, format="png")
        return stream.getvalue()

    def _figure(self, title: str) -> Any:
        side = min(max(0.42 * len(self.classes), 3.2), 12.0)
        figure = new_figure(side + 2.2, side + 1.2)
        axes = figure.subplots()
        image = axes.imshow(self.shares, COLOURS, vmin=0, vmax=1, interpolation="nearest")
        if self.counts.size <= MOST_NUMBERS:
            write_counts(axes, self.counts, self.shares, DARK)
        name_ticks(axes.xaxis, self.classes, side, 8.5)
        name_ticks(axes.yaxis, self.classes, side, 5)
        axes.set(xlabel="answer", ylabel="true class")
        figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
        figure.suptitle(title, parse_math=False)
        return figure
