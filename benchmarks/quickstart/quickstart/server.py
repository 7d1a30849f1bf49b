"""The server's app: Flower's FedAvg, which notes when each round is over."""

from __future__ import annotations

import time
from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import make_net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    times = Path(str(context.run_config["times"]))

    def note(round: int, arrays: ArrayRecord) -> MetricRecord:
        with times.open("a") as stream:
            stream.write(f"{time.time()}\n")
        return MetricRecord({})

    clients = int(context.run_config["clients"])
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
    rounds, arrays = int(context.run_config["rounds"]), ArrayRecord(make_net().state_dict())
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=rounds, evaluate_fn=note)
