"""The app that Flower starts on the server for a run."""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from counterpoise.engines.flower.serve import serve

app = ServerApp()


def main(grid: Grid, context: Context) -> None:
    serve(grid, context.run_config)


app.main()(main)
