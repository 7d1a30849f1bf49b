"""A made-up client in the server's process: what replies will look like, and whether the hooks of clients are sound."""

from __future__ import annotations

from dataclasses import replace

import torch

from counterpoise.core.checked import checked
from counterpoise.core.messages import Broadcast, Task
from counterpoise.data.dataset import Samples
from counterpoise.data.federation import Federation
from counterpoise.engines.arithmetic import threads
from counterpoise.engines.loop import train_task
from counterpoise.engines.service import first_memory, own_model, survey, tally
from counterpoise.engines.workplace import Workplace


def with_dummy(work: Workplace) -> Workplace:
    """The same work on one dummy client: a batch of zeros with a label of each class."""
    federation, count = work.federation, max(2, min(len(work.federation.classes), work.local.batch_size))
    x, rows = federation.train.x.new_zeros(count, *federation.input_shape), torch.arange(count)
    samples, held_out = Samples(x, (rows % len(federation.classes)).to(x.device)), rows.to(x.device)
    dummy = Federation(samples, samples, federation.classes, federation.scaling, (rows,), (held_out,))
    return replace(work, federation=dummy, local=replace(work.local, epochs=1))


def try_questions(work: Workplace) -> None:
    """What a client is asked before round 0, by checked hooks; before anybody is asked."""
    dummy = replace(with_dummy(work), method=checked(work.method))
    survey(dummy, 0)
    tally(dummy, 0)
    first_memory(dummy, work.model.params(), work.model.buffers())


def try_round(work: Workplace, task: Task, broadcast: Broadcast) -> None:
    """A client's first round of one batch, by checked hooks: here, so that all engines tell a mistake in the same words."""
    dummy = replace(with_dummy(work), method=checked(work.method))
    given = broadcast.params, broadcast.buffers
    with threads(1):
        result = train_task(dummy, replace(task, client=0), first_memory(work, *given), broadcast)
        own_model(dummy, *given, work.place(result.memory | result.private[0]))
