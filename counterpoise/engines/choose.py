"""Which engine runs, where, and why: by fixed rules, so that the same config always runs the same way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import vmap

from counterpoise.client.round import Progress, step
from counterpoise.core.method import Method
from counterpoise.core.part import Batch, Stats
from counterpoise.core.tree import leaves, tmap
from counterpoise.engines.arithmetic import Precision, arithmetic, threads
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.engines.loop import LoopTrainer
from counterpoise.engines.opening import Trainer
from counterpoise.engines.processes import ProcessTrainer, available_cores, can_fork
from counterpoise.engines.stacked import StackedTrainer
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import ConfigError, short
from counterpoise.registry.schema import Count, Interval, Whole
from counterpoise.registry.settings import Settings

MOST_WORKERS = 512  # processes or threads
CPU_BYTES = 1 << 30  # stacked clients may take this much on a CPU
GPU_SHARE = 0.4  # and this share of a GPU's memory
COPIES = 8  # parameters, gradients, slots and temporaries of one stacked client, in models
WORTHWHILE = 1e9  # operations per round above which processes pay: about 20 ms of one core
COMPILED = 1e16  # operations per run above which a minute of compilation pays: some minutes of a GPU
CONVOLUTION_REUSE = 100  # a convolution uses each weight at many places of an image
ACTIVATIONS = 64  # numbers kept for the backward pass, in inputs


@dataclass(frozen=True)
class EngineSettings(Settings, table="engine"):
    """How the work is executed; no choice here changes the result beyond rounding."""

    name: Annotated[
        Literal["auto", "loop", "stacked", "flower"],
        "loop: clients one by one; stacked: many at once; flower: over a network, with `counterpoise flower`",
    ] = "auto"
    device: Annotated[str, "auto, cpu, cuda"] = "auto"
    processes: Annotated[
        int, Interval(0, MOST_WORKERS), "worker processes of the loop engine; 0: one per core"
    ] = 0
    chunk: Annotated[Whole, "clients the stacked engine trains at once; 0: as many as fit"] = 0
    threads: Annotated[
        int,
        Interval(1, MOST_WORKERS),
        "threads of the main process; more pay only for large models on an idle machine",
    ] = 1
    compile: Annotated[
        Literal["auto"] | bool,
        "compile the stacked step: takes up to a minute, pays off in long runs on a GPU",
    ] = "auto"
    precision: Annotated[
        Precision,
        "products: float32; TF32 on a GPU; or the model in bfloat16 with parameters and statistics in float32, on a GPU or a CPU that has it",
    ] = "full"
    dtype: Annotated[Literal["float32", "float64"], "type of parameters and inputs"] = "float32"
    max_skipped: Annotated[
        Count, "consecutive rounds without a usable reply after which the run stops, to be resumed"
    ] = 5
    together: Annotated[
        list[str], "written into the resolved config: runs that were trained in one program with this one"
    ] = field(default_factory=list)
    reason: Annotated[str, "written into the resolved config: why this engine"] = ""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """On these threads and in this precision."""
        with threads(self.threads), arithmetic(self.precision):
            yield


def choose_device(wanted: str) -> str:
    """The device to use; one that is not available is refused."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(0, device=wanted)
        known = torch.device(wanted).type in ("cpu", "cuda")
    except (RuntimeError, AssertionError):
        known = False
    if not known:
        raise ConfigError(
            f"engine.device must be auto, cpu, or cuda where there is a GPU, not {short(wanted)}"
        ) from None
    return wanted


def resolve_engine(settings: EngineSettings, work: Workplace, cohort: int, rounds: int) -> EngineSettings:
    """The settings with every `auto` resolved, and the reason."""
    device = work.device
    _check_apply(settings)
    name, reason = (settings.name, "asked for") if settings.name != "auto" else _choose_name(work, device)
    processes = settings.processes or (_worthwhile_processes(work, cohort) if name == "loop" else 1)
    if processes > 1 and (device.type != "cpu" or not can_fork()):
        raise ConfigError(
            f"engine.processes must be 1 here, not {processes}: workers need a CPU, a system that can fork, and no GPU in the machine"
        )
    chunk = settings.chunk or min(_fitting_clients(work, device), cohort)
    compiled = settings.compile
    if compiled == "auto":
        long = rounds * _operations(work, cohort) > COMPILED
        compiled = name == "stacked" and device.type == "cuda" and long
    return replace(
        settings,
        name=name,
        device=str(device),
        processes=processes,
        chunk=chunk,
        compile=compiled,
        reason=reason,
    )


def _check_apply(settings: EngineSettings) -> None:
    """Refuse what an engine that was asked for by name would ignore."""
    if settings.name == "stacked" and settings.processes > 1:
        raise ConfigError(
            f'engine.processes = {settings.processes} is for engine.name = "loop": "stacked" trains all clients in one program'
        )
    if settings.name == "loop" and settings.compile is True:
        raise ConfigError('engine.compile = true needs engine.name = "stacked" or "auto", not "loop"')


def build_engine(settings: EngineSettings, work: Workplace) -> EmbeddedEngine:
    """The engine that resolved settings describe."""
    if settings.name == "flower":
        raise ConfigError(
            "engine.name must be auto, loop or stacked with `run`, not 'flower': use `counterpoise flower up`, `simulate` or `server`"
        )
    trainer: Trainer = LoopTrainer()
    if settings.name == "stacked":
        trainer = StackedTrainer(work, settings.chunk, settings.compile is True)
    elif settings.processes > 1:
        trainer = ProcessTrainer(work, settings.processes)
    return EmbeddedEngine(work, trainer)


def _choose_name(work: Workplace, device: torch.device) -> tuple[Literal["loop", "stacked"], str]:
    if device.type == "cpu":
        return (
            "loop",
            "on a CPU clients train fastest one by one, in parallel processes where a round is long",
        )
    if (obstacle := stacking_obstacle(work)) is not None:
        return "loop", f"this model cannot be stacked: {obstacle}"
    return "stacked", "a GPU trains all clients of a cohort at once"


def _worthwhile_processes(work: Workplace, cohort: int) -> int:
    """One per core, unless a round is too short to pay for handing out its tasks."""
    if work.device.type != "cpu" or not can_fork():
        return 1
    return min(available_cores(), cohort) if _operations(work, cohort) > WORTHWHILE else 1


def _operations(work: Workplace, cohort: int) -> float:
    """About how many operations a round takes."""
    samples = float(work.federation.samples().float().mean()) * cohort * work.local.epochs
    weights = sum(leaf.numel() for leaf in leaves(work.model.params()))
    return 6 * samples * weights * (CONVOLUTION_REUSE if work.model.has_images else 1)


def stacking_obstacle(work: Workplace) -> str | None:
    """Why the model cannot train under vmap, found by trying one plain step; None where it can."""
    two = partial(tmap, lambda leaf: torch.stack([leaf, leaf]))
    rows = torch.zeros(2, 2, dtype=torch.int64, device=work.device)
    inputs, labels = work.federation.scaling(work.federation.train.x[rows]), work.federation.train.y[rows]
    progress = Progress(
        two(work.model.params()), two(work.model.buffers()), {}, work.like(0).to(work.device).expand(2)
    )
    zero = progress.loss
    numbers: dict[str, Any] = dict.fromkeys(Stats._fields, zero)
    stats = Stats(**numbers | {"counts": labels, "owned": labels, "knobs": {}, "seen": {}})
    try:
        vmap(partial(step, Method(), work.model))(
            progress, Batch(inputs, labels, torch.ones_like(labels), zero, labels[:, 0]), stats
        )
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]
    return None


def _fitting_clients(work: Workplace, device: torch.device) -> int:
    budget = (
        CPU_BYTES
        if device.type == "cpu"
        else int(GPU_SHARE * torch.cuda.get_device_properties(device).total_memory)
    )
    model = sum(leaf.numel() for leaf in leaves(work.model.params()))
    batch = work.local.batch_size * math.prod(work.federation.input_shape)
    return max(1, budget // (4 * (COPIES * model + ACTIVATIONS * batch)))
