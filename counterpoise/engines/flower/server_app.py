"""The app that Flower starts on the server for a run."""

from __future__ import annotations

import signal

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from counterpoise.engines.flower.processes import end_with_parent
from counterpoise.engines.flower.serve import serve

app = ServerApp()


def main(grid: Grid, context: Context) -> None:
    end_with_parent(signal.SIGKILL)  # without its superlink it can only wait; its checkpoints stand any end
    serve(grid, context.run_config)


app.main()(main)
