"""A process that executes runs of a sweep: orders arrive on standard input as lines of JSON, answers leave likewise."""

from __future__ import annotations

import json
import os
import threading
from queue import SimpleQueue
from typing import Any


def main() -> None:
    """Groups of runs until nobody sends more."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever else prints does not get among the answers
    waiting: SimpleQueue[list[dict[str, Any]]] = SimpleQueue()
    threading.Thread(target=_listen, args=(waiting,), daemon=True).start()
    from counterpoise.sweep.execute import Order, run_group, use_one_thread

    use_one_thread()
    while True:
        errors = run_group([Order(**order) for order in waiting.get()])
        answers.write(json.dumps(errors).encode() + b"\n")


def _listen(waiting: SimpleQueue[list[dict[str, Any]]]) -> None:
    """Ends the process with its parent, even in the middle of a run: that goes on the next time."""
    with os.fdopen(0, "rb", buffering=0) as orders:
        for line in orders:
            waiting.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
