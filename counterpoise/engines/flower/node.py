"""A client's node, kept going until it is stopped."""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterpoise.engines.flower import deployment, processes
from counterpoise.engines.flower.deployment import Link
from counterpoise.engines.flower.job import ClientFile, write_client_file
from counterpoise.errors import ConfigError, RunError

LOG = logging.getLogger("counterpoise")
MOST_FAILURES = 20  # in a row, after which a client gives up
SHORT_LIFE = 120.0  # seconds; a node that ends sooner has failed
RESTART_PAUSE = 10.0


def join(client: ClientFile, link: Link) -> None:
    """A client's node, until it is stopped; one for a name and state folder.

    The superlink refuses a node whose key is still counted as online, as after a crash, until its heartbeat lapses:
    such a node is started again.
    """
    state, failures = Path(client.state), 0
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = state / "supernode.log"
    with _alone(state, client.name):
        write_client_file(state / "client.json", client)
        while failures < MOST_FAILURES:
            began = time.monotonic()
            with processes.children() as children:
                place = state / "client.json", state / "flower", log
                children.append(deployment.start_supernode(client.name, link, *place))
                children[0].process.wait()
            failures = 1 if time.monotonic() - began > SHORT_LIFE else failures + 1
            LOG.warning("the node of client %s ended and is started again; its log: %s", client.name, log)
            time.sleep(RESTART_PAUSE)
    raise RunError(f"the node of client {client.name} ended {failures} times in a row; its log: {log}")


@contextmanager
def _alone(state: Path, name: str) -> Iterator[None]:
    with (state / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"client {name} runs already with the state in {state}; legal: one node a client"
            ) from None
        yield
