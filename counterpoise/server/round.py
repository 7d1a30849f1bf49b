"""The round: send, train, check, weigh, average, update. The only place that orders one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from counterpoise.core.checked import checked
from counterpoise.core.messages import Broadcast, Replies, Task, average_buffers
from counterpoise.core.method import Method
from counterpoise.core.part import Census, Exchange, Pair, call
from counterpoise.core.protocol import Ask
from counterpoise.core.tree import Params, Tree, add, bytes_of, mix, plain, tmap
from counterpoise.metrics.scoring import count
from counterpoise.server.replies import (
    check_replies,
    limit_influence,
    select,
    treat_replies,
    weigh_replies,
)
from counterpoise.server.search import Traffic, choose_replies
from counterpoise.server.state import Outcome, Server, ServerState


def ask_everyone(census: Census, ask: Ask) -> dict[str, Tree]:
    """Part name -> what the clients say before the first round, each of them or as a sum, where a part asks."""
    everyone = range(census.clients)
    return ask.survey(everyone) | ask.tally(everyone)


def first_slots(method: Method, params: Params, census: Census, known: Mapping[str, Tree]) -> dict[str, Tree]:
    """Part name -> its server slot before the first round."""
    return {
        part.name: part.init(params, census, known.get(part.name, {}))
        for part in method.parts
        if part.init is not None
    }


def open_round(
    method: Method, state: ServerState, tasks: Sequence[Task], lr: float
) -> tuple[Broadcast, Outcome]:
    """The broadcast of the next round, and its outcome so far."""
    broadcast, asked = announce(method, state, lr), len({task.client for task in tasks})
    sent = asked * broadcast.bytes() if _is_federated(method) else 0
    return broadcast, Outcome(state.round, lr, asked, len(tasks), 0, (), None, sent)


def _is_federated(method: Method) -> bool:
    """Whether models travel at all: neither where clients train alone nor where all samples are in one place."""
    return method.alone is None and method.pools is None


def announce(method: Method, state: ServerState, lr: float) -> Broadcast:
    shared = {
        part.name: call(part.send, {}, state.slots.get(part.name, {}), state.round) for part in method.parts
    }
    return Broadcast(state.round, lr, state.params, state.buffers, shared)


def conclude(
    server: Server, state: ServerState, replies: Replies | None, outcome: Outcome
) -> tuple[ServerState, Outcome]:
    """The state after the replies of a round: accepted, weighed, treated, averaged. Without usable ones only the round's number changes."""
    after = replace(state, round=state.round + 1)
    method = server.method if state.round else checked(server.method)
    if replies is None:
        return after, outcome
    accepted, outcome = accept(server, method, state, replies, outcome)
    if accepted is None:
        return after, outcome
    exchange, slots, spent = decide(server, method, state, accepted)
    exchange = treat_replies(method, exchange, slots)
    delta, slots = update_model(method, slots, exchange)
    after = replace(after, slots=slots)
    if method.alone is None:
        buffers = average_buffers(exchange.weights, exchange.replies.buffers)
        after = replace(after, params=add(state.params, delta), buffers=buffers)
    loss = float(exchange.replies.loss.double().mean())
    return after, outcome.with_traffic(*spent)._replace(loss=loss)


def accept(
    server: Server, method: Method, state: ServerState, replies: Replies, outcome: Outcome
) -> tuple[Replies | None, Outcome]:
    """The sound replies in the order of clients, none too long, and None where they cannot be used; clients are told which count."""
    sent = replies.bytes() if _is_federated(method) else 0
    outcome = outcome._replace(replied=len(set(replies.client.tolist())), bytes_up=sent)
    replies, rejected = check_replies(select(replies, replies.client.argsort(stable=True)), state.params)
    replies, clipped = limit_influence(replies, server.max_influence, state.params)
    # A search compares settings, so it needs every reply.
    enough = method.owner("choose") is None or len(replies.client) == outcome.tasks
    usable = enough and int(replies.samples.sum()) > 0
    server.ask.commit(state.round, sorted(set(replies.client.tolist())) if usable else [])
    if not usable:
        return None, outcome._replace(rejected=rejected)
    return replies, outcome._replace(rejected=rejected, clipped=clipped)


def decide(
    server: Server, method: Method, state: ServerState, replies: Replies
) -> tuple[Exchange, dict[str, Tree], list[Traffic]]:
    """Which of the replies are used and with which weights, the slots after that, and what was sent to find out."""
    exchange = Exchange(
        params=state.params,
        replies=replies,
        weights=replies.samples,
        clients=server.clients,
        measure=server.measure,
        round=state.round,
        seed=server.seed,
        secret=server.secret,
    )
    slots, spent, searched = state.slots, list[Traffic](), method.owner("choose")
    if searched is not None:
        replies, slots = choose_replies(method, searched, exchange, slots, server.score, spent)
        exchange = exchange._replace(replies=replies)
    asking = exchange._replace(ask=partial(_ask, server, exchange, spent))
    exchange, slots = weigh_replies(method, asking, slots)
    return exchange, slots, spent


def _ask(server: Server, exchange: Exchange, spent: list[Traffic], pairs: Sequence[Pair]) -> Tree:
    """Counts of clients' models on other clients' held-out samples; what this sends is appended to `spent`."""
    replies = exchange.replies
    models = tmap(torch.add, exchange.params, replies.delta)
    sums = server.ask.measure(pairs, models, replies.buffers, count)
    each = (bytes_of(models) + bytes_of(replies.buffers)) // len(replies.client)
    spent.append(Traffic(len(pairs) * each, bytes_of(sums)))
    return sums


def update_model(
    method: Method, slots: Mapping[str, Tree], exchange: Exchange
) -> tuple[Params, dict[str, Tree]]:
    """The weighted mean of the updates, passed through the chain of server rules, and the slots after it."""
    delta, slots = mix(exchange.weights, exchange.replies.delta), dict(slots)
    for part in method.parts:
        if part.update is not None:
            seen = exchange.seen_by(part.name)
            delta, kept = part.update(delta, slots.get(part.name, {}), seen)
            slots.update({part.name: kept} if kept else {})
    return delta, slots


def present(method: Method, state: ServerState) -> tuple[Params, Params]:
    """The parameters and buffers that are scored and saved."""
    params, buffers = state.params, state.buffers
    for part in (method if state.round > 1 else checked(method)).parts:
        if part.present is not None:
            params, buffers = part.present(params, buffers, state.slots.get(part.name, {}))
    return params, buffers


def diagnose(method: Method, state: ServerState, scored: bool = True) -> dict[str, dict[str, Any]]:
    """Part name -> chart name -> its present values; after a round that is not scored, of charts of every round alone."""
    found = {
        part.name: {
            chart.name: plain(chart.read(state.slots.get(part.name, {})))
            for chart in part.charts
            if scored or chart.every_round
        }
        for part in method.parts
    }
    return {name: charts for name, charts in found.items() if charts}
