"""The two workloads of the CPU benchmark, by a careful plain loop and by our engines; prints the seconds of one.

python benchmarks/workloads.py W1|W2 raw|"raw 2 processes"|METHOD [rounds]

METHOD is names joined by +, as fedavg+dp, or JSON, as {"fedsat": {"workers": 7}}.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:  # RAW must not pay for the import
    from counterpoise.run.simulation import Simulation

State = dict[str, Tensor]


@dataclass(frozen=True)
class Workload:
    clients: int
    samples: int
    shape: tuple[int, ...]
    cohort: int
    epochs: int
    lr: float
    rounds: int
    batch: int = 50

    def data(self) -> tuple[Tensor, Tensor]:
        """Noisy class means [clients, samples, ...] and labels."""
        stream = torch.Generator().manual_seed(7)
        means = torch.randn(10, *self.shape, generator=stream) * 0.15
        y = torch.randint(0, 10, (self.clients, self.samples), generator=stream)
        x = torch.randn(self.clients, self.samples, *self.shape, generator=stream)
        for client, labels in zip(x, y, strict=True):
            client += means[labels]
        return x, y

    def cohorts(self) -> list[list[int]]:
        stream = torch.Generator().manual_seed(11)
        return [
            sorted(torch.randperm(self.clients, generator=stream)[: self.cohort].tolist())
            for _ in range(self.rounds)
        ]

    def model(self) -> nn.Module:
        if self.shape == (784,):
            return nn.Sequential(
                nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)
            )
        convolutions = [
            *(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()),
        ]
        return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(128 * 16 * 16, 10))


WORKLOADS = {
    "W1": Workload(100, 204, (784,), 10, 5, 0.1, 50),
    "W2": Workload(20, 500, (3, 32, 32), 4, 1, 0.01, 3),
}


def train_plainly(work: Workload, server: nn.Module, x: Tensor, y: Tensor) -> State:
    """One client's round, as a careful user writes it."""
    net = copy.deepcopy(server)
    optimizer = torch.optim.SGD(net.parameters(), lr=work.lr)
    for _ in range(work.epochs):
        for batch in torch.randperm(work.samples).split(work.batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    return net.state_dict()


def average(states: Sequence[State]) -> State:
    return {key: torch.stack([state[key] for state in states]).mean(0) for key in states[0]}


def raw(work: Workload) -> Callable[[], None]:
    """One process, one thread, no framework."""
    x, y = work.data()
    server = work.model()

    def run() -> None:
        for cohort in work.cohorts():
            server.load_state_dict(average([train_plainly(work, server, x[k], y[k]) for k in cohort]))

    return run


def raw_in_two(work: Workload) -> Callable[[], None]:
    """The same in two forked processes; what they hand over lies in shared memory."""
    x, y = work.data()
    server, context = work.model().share_memory(), get_context("fork")
    places = [
        {key: value.clone().share_memory_() for key, value in server.state_dict().items()}
        for _ in range(work.cohort)
    ]

    def serve(line: Connection) -> None:
        while (job := line.recv()) is not None:
            for place, client in job:
                for key, value in train_plainly(work, server, x[client], y[client]).items():
                    places[place][key].copy_(value)
            line.send(True)

    lines, workers = [], []
    for _ in range(2):
        ours, theirs = context.Pipe()
        workers.append(context.Process(target=serve, args=(theirs,), daemon=True))
        workers[-1].start()
        lines.append(ours)

    def run() -> None:
        for cohort in work.cohorts():
            jobs = list(enumerate(cohort))
            for number, line in enumerate(lines):
                line.send(jobs[number::2])
            for line in lines:
                line.recv()
            server.load_state_dict(average(places))
        for line, worker in zip(lines, workers, strict=True):
            line.send(None)
            worker.join()

    return run


def simulate(work: Workload, method: str, engine: Mapping[str, Any]) -> Simulation:
    """The same work for our engines; the layers below the last one are the features."""
    from counterpoise.data.dataset import Samples, no_scaling
    from counterpoise.data.federation import Federation
    from counterpoise.models.classifier import Classifier
    from counterpoise.run.build import build_simulation

    x, y = (tensor.flatten(0, 1) for tensor in work.data())
    rows = tuple(torch.arange(len(y)).view(work.clients, -1))
    held_out = tuple(
        own[: work.samples // 10] for own in rows
    )  # trained on too: only their number costs time
    test, classes = Samples(x[:10], y[:10]), tuple("0123456789")
    layers = work.model()
    assert isinstance(layers, nn.Sequential)
    return build_simulation(
        Federation(Samples(x, y), test, classes, no_scaling(), rows, held_out),
        json.loads(method) if method[0] in "[{" else method.split("+"),
        Classifier(layers[:-1], work.shape, len(classes)),
        rounds=work.rounds,
        local={"lr": work.lr, "batch_size": work.batch, "epochs": work.epochs},
        cohort=work.cohort,
        engine={"device": "cpu", **engine},
    )


def ours(work: Workload, method: str) -> Callable[[], None]:
    """The same rounds by the engine that our rules choose."""
    from counterpoise.core.messages import Task

    simulation = simulate(work, method, {})
    state = simulation.open()

    def run() -> None:
        after = state
        for cohort in work.cohorts():
            after, _ = simulation.advance(after, [Task(client) for client in cohort])
        simulation.close()

    return run


def main() -> None:
    began = float(os.environ.get("BENCH_BEGAN", time.time()))
    workload, entry, *rounds = sys.argv[1:]
    work = WORKLOADS[workload]
    work = replace(work, rounds=int(rounds[0])) if rounds else work
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)  # its lazy imports are start-up
    plain = {"raw": raw, "raw 2 processes": raw_in_two}
    run = plain[entry](work) if entry in plain else ours(work, entry)
    ready, before = time.time(), processor_seconds()
    run()
    found = {"seconds": time.time() - ready, "startup": ready - began}
    print("RESULT " + json.dumps(found | {"processor": processor_seconds() - before}), flush=True)


def processor_seconds() -> float:
    """Of this process and of the workers that it has ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
