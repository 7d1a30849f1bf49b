"""Runs as tasks of a Ray cluster, for sweeps larger than one machine; all nodes must see the sweep's folder."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator, Sequence
from typing import Any

from counterpoise.data.root import data_root
from counterpoise.errors import ConfigError
from counterpoise.sweep.execute import Event, Executor, prepare_worker, run_group, share_out
from counterpoise.sweep.orders import Group, Order

# No telemetry, no advice on stderr
QUIET = ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO")


def on_ray(groups: Sequence[Group], processes: int) -> Generator[Event]:
    """On the cluster at RAY_ADDRESS, else on a local one of this many processes that ends with the sweep."""
    for name in QUIET:
        os.environ.setdefault(name, "0")
    try:
        import ray
    except ImportError:
        raise ConfigError("--on ray needs Ray; install it with: pip install 'counterpoise[ray]'") from None
    own: dict[str, Any] = (
        {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": processes, "include_dashboard": False}
    )
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **own)
    try:
        yield from share_out(groups, RayExecutor(ray))
    finally:
        ray.shutdown()


class RayExecutor(Executor[Any]):
    """One Ray task of one core per group."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._task = ray.remote(num_cpus=1, max_retries=0)(run_remotely)
        self.places = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, group: Group) -> Any:
        orders = json.dumps([one._asdict() for one in group])
        return self._task.remote(orders, str(data_root().absolute()))

    def collect(self, busy: Sequence[Any]) -> list[tuple[Any, list[str | None] | str]]:
        ready, _ = self._ray.wait(list(busy))
        return [(task, self._result(task)) for task in ready]

    def stop(self, busy: Sequence[Any]) -> None:
        """Nothing: the tasks end with the connection to the cluster."""

    def _result(self, task: Any) -> list[str | None] | str:
        try:
            return list(json.loads(self._ray.get(task)))
        except self._ray.exceptions.RayError as error:
            return f"Ray: {str(error).strip().splitlines()[0]}"


def run_remotely(orders: str, root: str) -> str:
    """The body of a Ray task: run the orders of a group, with the data root of the sweep."""
    os.environ.setdefault("COUNTERPOISE_DATA", root)
    prepare_worker()
    return json.dumps(run_group([Order(**one) for one in json.loads(orders)]))
