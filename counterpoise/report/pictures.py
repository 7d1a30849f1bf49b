"""The pictures in a run's folder: who holds which samples, and how scores went."""

from __future__ import annotations

from counterpoise.report.curves import draw_curves
from counterpoise.report.heatmap import draw_heatmap
from counterpoise.run.listener import Listener
from counterpoise.run.patience import Rows
from counterpoise.run.store.run import Run


class Pictures(Listener):
    """Draws the partition when a run begins, and its curves when it has a result."""

    def began(self, run: Run) -> None:
        federation, path = run.simulation.work.federation, run.folder.partition_picture
        if not path.exists():
            title = f"{federation.name}: samples of each client and class"
            draw_heatmap(federation.counts().numpy(), federation.classes, path, title)

    def ended(self, run: Run, rows: Rows) -> None:
        simulation = run.simulation
        title = f"{simulation.method.name} on {simulation.work.federation.name}"
        draw_curves(rows, run.folder.curves_picture, title)
