"""The engine over Flower: one message per client per round, and every reply is checked before it is used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from flwr.app import Message, RecordDict

from counterpoise.core.messages import Broadcast, Replies, Task
from counterpoise.core.part import Measurement, Pair
from counterpoise.core.protocol import Rejection
from counterpoise.core.tree import Params, Tree, bytes_of, stack, take, tmap
from counterpoise.engines.memories import Memories
from counterpoise.engines.service import models_by_client, take_models
from counterpoise.engines.sums import (
    COUNTS,
    PARTS,
    asked_for,
    by_part,
    joined_facts,
    other_parts,
    plain_facts,
    sum_numbers,
)
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import RunError
from counterpoise.flower import messages
from counterpoise.flower.grid import Grid
from counterpoise.flower.memory import FIRST, next_token
from counterpoise.flower.messages import Judged, MeasureAsk, TrainAsk, TrainReply, measurement_name
from counterpoise.flower.messenger import Messenger
from counterpoise.flower.records import payload_bytes
from counterpoise.flower.refusal import REASONS, Refused, first_answers
from counterpoise.flower.roster import Roster
from counterpoise.flower.specs import (
    TreeSpec,
    check_spec,
    reply_spec,
    spec_of,
    sum_layout,
    sums_spec,
    survey_spec,
    zeros_of,
)
from counterpoise.flower.status import Status
from counterpoise.flower.sums import SumTransport

LOG = logging.getLogger("counterpoise")
NOBODY = -1  # a reply of a node that is no client
KEPT = "kept on the client"  # stands in a checkpoint for memory that is not on the server


@dataclass(frozen=True)
class RoundPolicy:
    """How long a server waits, and how few replies suffice."""

    timeout: float = 600.0  # seconds per round
    min_replies: int = 1
    window: int = 4  # rounds that a resumed run may go back, for which clients keep their memory


@dataclass
class FlowerEngine:
    """An engine whose clients are nodes; a client is identified by its name and index in the roster."""

    work: Workplace
    grid: Grid
    roster: Roster
    run: str  # id of this run on the clients' disks
    policy: RoundPolicy = RoundPolicy()
    status: Status | None = None
    counted: Sequence[int] = ()  # samples that each client counts for; by default all that it has
    memory: Memories = field(default_factory=Memories)  # client -> the token of its memory
    refused: Sequence[Rejection] = ()
    tallied: Mapping[str, Any] = field(default_factory=dict)
    known_counts: torch.Tensor | None = (
        None  # [C] the sum of class counts, where clients were asked for it before
    )
    # Counts a sum with noise; returns what all spent
    spend: Callable[[float], float] = lambda epsilon: epsilon
    messenger: Messenger = field(init=False, repr=False)
    _pending: dict[int, str] = field(default_factory=dict, repr=False)
    _specs: dict[str, TreeSpec] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.messenger = Messenger(self.grid, self.policy.timeout)

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        sha256, spec = messages.broadcast_digest(broadcast), self._spec(tasks[0], broadcast)
        asks, nodes, names = self._asks(tasks, broadcast), self.roster.online(), self.roster.names
        there = {name: ask for name, ask in asks.items() if name in nodes}
        written = messages.write_train(list(there.values()), sha256, self.work.model.frozen_sha256)
        contents = dict(zip(there, written, strict=True))
        if self.status is not None:
            self.status.begin_round(
                broadcast.round, {name: payload_bytes(content) for name, content in contents.items()}
            )
        replies = self._exchange(messages.TRAIN, str(broadcast.round), contents, nodes)

        def read(name: str, content: RecordDict) -> TrainReply:
            samples = int(self.work.federation.samples()[names.index(name)])
            token = next_token(asks[name].memory, name, sha256)
            return messages.read_train_reply(content, asks[name], sha256, samples, token, spec)

        answers, refused = first_answers(replies, nodes, there, read)
        self.refused = sorted(Rejection(names.index(n) if n in names else NOBODY, why) for n, why in refused)
        if self.status is not None:
            self.status.end_round(asks, answers, dict(refused), self.grid.late)
        usable = answers if len(answers) >= self.policy.min_replies else {}
        self._pending = {names.index(n): a.token for n, a in usable.items() if a.token}
        found = [(names.index(name), answer) for name, answer in usable.items()]
        rows = [(k, self._counted(k, a), tree) for k, a in found for tree in a.trees]
        return self._stack(sorted(rows, key=lambda row: row[0]), spec)

    def _counted(self, client: int, answer: TrainReply) -> int:
        return self.counted[client] if self.counted else answer.samples

    def commit(self, round: int, clients: Sequence[int]) -> None:
        """Clients learn of the commit from the token in their next message."""
        for client in clients:
            if client in self._pending:
                self.memory[client] = {KEPT: {"token": _as_tensor(self._pending[client])}}
        self._pending = {}

    def measure(
        self, pairs: Sequence[Pair], models: Params, buffers: Params, measurement: Measurement
    ) -> Tree:
        """Sums [P, ...]; a client that does not answer counts as one without held-out samples."""
        name, wanted = measurement_name(measurement), models_by_client(pairs)
        packed = {
            some: Judged.pack(take_models(models, some), take_models(buffers, some))
            for some in set(wanted.values())
        }
        asked = {
            client: (MeasureAsk(self.run, self.roster.names[client], name), packed[some])
            for client, some in wanted.items()
        }
        one = sums_spec(self.work, take(models, 0), take(buffers, 0), measurement)
        sums = self._measured(asked, one)
        rows = [take(sums[client], wanted[client].index(model)) for client, model in pairs]
        return tmap(self._placed, stack(rows))

    def measure_own(
        self, clients: Sequence[int], params: Params, buffers: Params, measurement: Measurement
    ) -> Tree:
        """Sums [W, ...]; the model that a client would use does not leave it."""
        name, one = measurement_name(measurement), sums_spec(self.work, params, buffers, measurement)
        judged = Judged.pack(*(tmap(lambda leaf: leaf.unsqueeze(0), tree) for tree in (params, buffers)))
        asked = {
            client: (MeasureAsk(self.run, self.roster.names[client], name, True, self._token(client)), judged)
            for client in clients
        }
        sums = self._measured(asked, one)
        return tmap(self._placed, stack([take(sums[client], 0) for client in clients]))

    def _measured(self, asked: Mapping[int, tuple[MeasureAsk, Judged]], one: TreeSpec) -> dict[int, Tree]:
        """Client -> sums [K, ...] of its K models; zeros where it does not answer."""
        nodes, frozen, names = self.roster.online(), self.work.model.frozen_sha256, self.roster.names
        there = {names[client]: ask for client, ask in asked.items() if names[client] in nodes}
        contents = {name: messages.write_measure(*ask, frozen) for name, ask in there.items()}
        replies = self._exchange(messages.MEASURE, "measure", contents, nodes)

        def spec_of_models(judged: Judged) -> TreeSpec:
            return {
                path: (torch.Size((judged.number, *shape)), dtype) for path, (shape, dtype) in one.items()
            }

        def read(name: str, content: RecordDict) -> Tree:
            judged, hello = there[name][1], self.roster.hellos[name]
            form, held_out = spec_of_models(judged), hello.held_out or hello.samples
            return messages.read_measure_reply(content, name, judged.sha256, form, held_out)

        found, refused = first_answers(replies, nodes, list(there), read)
        for name, why in refused:
            LOG.warning("client %s: what it measured is not used: %s (%s)", name or "?", REASONS[why], why)
        return {
            client: found[names[client]] if names[client] in found else zeros_of(spec_of_models(judged))
            for client, (_, judged) in asked.items()
        }

    def survey(self, clients: Sequence[int]) -> dict[str, Tree]:
        """The surveys in the clients' hellos."""
        return self._said(clients, [part.name for part in self.work.method.parts if part.survey is not None])

    def tally(self, clients: Sequence[int]) -> dict[str, Tree]:
        """The sums of the tallies in the clients' hellos, or by the protocol of [privacy]."""
        tallied = [part.name for part in self.work.method.parts if part.tally is not None]
        if self.work.privacy.in_messages:
            return self._summed(clients) if tallied else {}
        said = self._said(clients, tallied)
        if said:
            self.tallied = plain_facts(self.work, len(clients), bytes_of(said), 0.0)
        return {part: tmap(lambda leaf: leaf.sum(0), tree) for part, tree in said.items()}

    def _summed(self, clients: Sequence[int]) -> dict[str, Tree]:
        """Class counts that were added up at the start are not asked for again: every sum tells something."""
        known = self.known_counts
        total: Tree = {} if known is None else {COUNTS: {"counts": known}}
        if what := asked_for(self.work) if known is None else PARTS * bool(other_parts(self.work)):
            total |= self.sum_numbers(clients, what)
        return {part: tmap(self._placed, tree) for part, tree in by_part(self.work, total).items()}

    def sum_numbers(self, clients: Sequence[int], what: str) -> Tree:
        """What these clients count, by the protocol of [privacy]."""
        names, samples = self.roster.names, self.work.federation.samples().tolist()
        known = {names[client]: samples[client] for client in clients}
        transport = SumTransport(self.messenger, self.roster)
        layout, epsilon = sum_layout(self.work, what), self.work.privacy.epsilon
        spent = {} if epsilon is None else {"epsilon_spent": self.spend(epsilon)}
        total, facts = sum_numbers(self.work.privacy, what, layout, known, transport, self.run)
        facts |= spent
        self.tallied = joined_facts(self.tallied, facts)
        return total

    def _said(self, clients: Sequence[int], parts: Sequence[str]) -> dict[str, Tree]:
        """Part name -> [N, ...] what each client said of it before round 0, checked."""
        spec, said = survey_spec(self.work), []
        for name in (self.roster.names[client] for client in clients):
            try:
                said.append(self.roster.hellos[name].surveys)
                check_spec(said[-1], spec)
            except (Refused, KeyError) as refusal:
                raise RunError(
                    f"client {name} gave no usable answer before the first round: {refusal}"
                ) from None
        found = stack(said) if said else {}
        return {part: tmap(self._placed, found[part]) for part in parts if part in found}

    def close(self) -> None:
        """Nodes keep running."""

    def _asks(self, tasks: Sequence[Task], broadcast: Broadcast) -> dict[str, TrainAsk]:
        names, since = self.roster.names, max(0, broadcast.round - self.policy.window)
        mine: dict[int, list[Task]] = {}
        for task in tasks:
            mine.setdefault(task.client, []).append(task)
        return {
            names[client]: TrainAsk(self.run, names[client], broadcast, own, self._token(client), since)
            for client, own in mine.items()
        }

    def _spec(self, task: Task, broadcast: Broadcast) -> TreeSpec:
        """The form of a reply: it depends on names and shapes only, so it is cached by them."""
        key = repr([sorted(task.knobs), sorted(spec_of(broadcast.shared).items())])
        if key not in self._specs:
            self._specs[key] = reply_spec(self.work, task, broadcast)
        return self._specs[key]

    def _token(self, client: int) -> str:
        kept = self.memory.get(client)
        return FIRST if kept is None else bytes(kept[KEPT]["token"].tolist()).hex()

    def _exchange(
        self, kind: str, group: str, contents: Mapping[str, RecordDict], nodes: Mapping[str, int]
    ) -> list[Message]:
        heard = None if self.status is None else self.status.add_reply
        return self.messenger(kind, group, contents, nodes, heard)

    def _stack(self, rows: Sequence[tuple[int, int, Tree]], spec: TreeSpec) -> Replies:
        client = torch.tensor([row[0] for row in rows], dtype=torch.int64)
        samples = torch.tensor([row[1] for row in rows], dtype=torch.int64)
        # Without any reply the names and types are still needed.
        trees = stack([row[2] for row in rows]) if rows else take(stack([zeros_of(spec)]), slice(0))
        return Replies.from_tree(client, samples, tmap(self._placed, trees))

    def _placed(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.to(self.work.federation.train.x.device)


def _as_tensor(token: str) -> torch.Tensor:
    return torch.tensor(list(bytes.fromhex(token)), dtype=torch.uint8)
