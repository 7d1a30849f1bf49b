"""The client's side: answer messages from its own data and memory; a failure is reported as one word."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flwr.app import Error, Message, RecordDict

from counterpoise.core.messages import Broadcast
from counterpoise.core.tree import Params, Tree, rows, take, tmap
from counterpoise.engines import service
from counterpoise.engines.arithmetic import Precision, arithmetic, threads
from counterpoise.engines.loop import LoopTrainer
from counterpoise.engines.opening import Workload
from counterpoise.engines.sums import sum_client
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import CounterpoiseError
from counterpoise.flower import messages
from counterpoise.flower.hello import answer_hello
from counterpoise.flower.memory import DiskMemory, next_token
from counterpoise.flower.messages import MeasureAsk, TrainAsk, TrainReply
from counterpoise.flower.received import Received, log_received
from counterpoise.flower.refusal import CLIENT_FAILED, Refused
from counterpoise.flower.sums import KeptFiles, read_sum, write_sum
from counterpoise.privacy.identity import Identity, Unsigned
from counterpoise.privacy.protocol import KeyGoneError, RefusedError


class ClientContext(NamedTuple):
    """Who a client is, what it trains, and where its memory is stored."""

    name: str
    number: int  # its index among all clients
    work: Workplace
    state: Path
    own: bool = False  # whether its data is its own, not a share of the experiment's
    run: str = ""  # its id, the same on all sides
    identity: Identity = Unsigned()
    precision: Precision = "full"


Handler = Callable[[ClientContext, RecordDict], RecordDict]


def answer(message: Message, context: Callable[[], ClientContext], handler: Handler) -> Message:
    """The reply; the text of an exception, which could hold data or paths, goes to the local log only."""
    try:
        opened = context()
        with arithmetic(opened.precision):
            return Message(handler(opened, message.content), reply_to=message)
    except Refused as refusal:
        word = refusal.reason
    except CounterpoiseError as error:
        word = "data"
        logging.getLogger("counterpoise").error("this client cannot answer: %s", error)
    except Exception:
        word = "error"
        logging.getLogger("counterpoise").exception("this client failed")
    return Message(Error(CLIENT_FAILED, word), reply_to=message)


def say_hello(context: ClientContext, content: RecordDict) -> RecordDict:
    return answer_hello(context.work, context.name, context.number, context.own)


def add_up(context: ClientContext, content: RecordDict) -> RecordDict:
    """Take part in a sum of which the server learns nothing else; why not is written to the local log only."""
    kept = KeptFiles(context.state, context.name)
    side = sum_client(context.work, context.number, context.name, context.run, context.identity, kept)
    try:
        return write_sum(side.answer(read_sum(content)))
    except KeyGoneError:
        raise Refused("key") from None
    except RefusedError as error:
        logging.getLogger("counterpoise").error("this client does not take part in a sum: %s", error)
        raise Refused("sum") from None


def train(context: ClientContext, content: RecordDict) -> RecordDict:
    """Train every task of the message from the memory that it names, and store the new memory as pending."""
    ask, sha256 = messages.read_train(content, context.number, context.work.model.frozen_sha256)
    if ask.client != context.name:
        raise Refused("client")
    # Refuses what is no id: the log holds words of no server
    disk = DiskMemory(context.state, ask.run, context.name)
    log_received(context.state, Received(ask.run, context.name, ask.broadcast.round, sha256))
    known = disk.load(ask.memory)
    disk.collect_garbage(ask.memory, ask.broadcast.round, ask.since)
    reply, kept = _train_tasks(context.work, ask, known)
    token = next_token(ask.memory, context.name, sha256) if kept else ""
    if kept:
        disk.write(token, ask.memory, ask.broadcast.round, kept)
    return messages.write_train_reply(ask, sha256, reply._replace(token=token))


def _train_tasks(work: Workplace, ask: TrainAsk, known: Tree | None) -> tuple[TrainReply, Tree]:
    """The replies, and the memory to keep: that of the last task, as in one process."""
    sent = ask.broadcast
    broadcast = Broadcast.from_tree(sent.round, sent.lr, work.place(sent.to_tree()))
    memory = work.place(
        service.first_memory(work, broadcast.params, broadcast.buffers) if known is None else known
    )
    count = len(ask.tasks)
    [result] = service.train(LoopTrainer(), [Workload(work, ask.tasks, [memory] * count, broadcast)])
    samples = len(work.federation.clients[ask.tasks[0].client])
    kept = result.memories(count)[-1]
    return TrainReply(samples, rows(result.reply_tree(), count), ""), kept


def measure_models(context: ClientContext, content: RecordDict) -> RecordDict:
    """Sums of a measurement on this client's held-out samples: of each given model, or of its own one."""
    work = context.work
    ask, sha256, models, buffers = messages.read_measure(content, work.model.frozen_sha256)
    if ask.client != context.name:
        raise Refused("client")
    counted = messages.MEASUREMENTS[ask.measurement]
    with threads(1):
        if ask.own:
            sums = _measure_own(context, ask, take(models, 0), take(buffers, 0))
        else:
            sums = service.measure_held_out(work, context.number, models, buffers, counted)
    return messages.write_measure_reply(ask, sha256, sums)


def _measure_own(context: ClientContext, ask: MeasureAsk, params: Params, buffers: Params) -> Tree:
    work, counted = context.work, messages.MEASUREMENTS[ask.measurement]
    known = DiskMemory(context.state, ask.run, context.name).load(ask.memory)
    memory = service.first_memory(work, params, buffers) if known is None else known
    sums = service.measure_own(work, context.number, params, buffers, memory, counted)
    return tmap(lambda leaf: leaf.unsqueeze(0), sums)  # like the sums of one given model
