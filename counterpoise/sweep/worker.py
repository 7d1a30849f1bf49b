"""A process that executes runs of a sweep: orders on standard input, results on standard output, as lines of JSON."""

from __future__ import annotations

import json
import os
import threading
from queue import SimpleQueue
from typing import Any


def main() -> None:
    """Execute groups of runs until standard input is closed."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # other prints go to standard error
    waiting: SimpleQueue[list[dict[str, Any]]] = SimpleQueue()
    threading.Thread(target=_listen, args=(waiting,), daemon=True).start()
    from counterpoise.sweep.execute import prepare_worker, run_group
    from counterpoise.sweep.orders import Order

    prepare_worker()
    while True:
        errors = run_group([Order(**order) for order in waiting.get()])
        answers.write(json.dumps(errors).encode() + b"\n")


def _listen(waiting: SimpleQueue[list[dict[str, Any]]]) -> None:
    """Read orders; ends the process when its parent ends, even during a run, which can be resumed."""
    with os.fdopen(0, "rb", buffering=0) as orders:
        for line in orders:
            waiting.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
