"""A reply that is wrong in any way equals no reply, with the reason; so do repeated, late and uninvited ones."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from damages import DAMAGES, damaged
from federations import QUICK, ask_clients, method_specs, searches, simulate, spec_name, suited
from flwr.app import ConfigRecord, Error, Message
from local_grid import FIRST_NODE, LocalGrid, over_flower, seats_of

from counterpoise.core.codec import digest
from counterpoise.core.method import PARTS, MethodSpec
from counterpoise.flower.refusal import REASONS
from counterpoise.flower.roster import Roster
from counterpoise.flower.server import RoundPolicy
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import Outcome, ServerState

COHORT, BAD = (0, 1, 2, 4), 2


def test_the_page_lists_all_words_of_refusals() -> None:
    page = (Path(__file__).parents[2] / "docs" / "flower.md").read_text()
    listed = page.partition("exactly the effect of no reply:\n\n")[2].partition("\n\n")[0]
    assert listed.replace("`", "").split() == list(REASONS)


def aggregation_rules() -> list[MethodSpec]:
    """Every method that goes on without a client, and every part with a say in what the server makes of the replies."""
    ruling = [n for n in PARTS.names() if {"weigh", "update"} & set(PARTS.build(n).hooks())]
    named = [spec for spec in method_specs() if not searches(spec)]
    return [*named, *(["fedavg", suited(name, QUICK)] for name in ruling)]


@dataclass
class Scene:
    """A run after a sound round, and the sound replies of the next: what arrives can be altered at no cost."""

    sim: Simulation
    grid: LocalGrid
    state: ServerState
    older: list[Message]
    replies: list[Message]

    def end(self, arriving: list[Message]) -> tuple[str, Outcome]:
        """What the second round comes to with these replies; nothing of it is kept."""
        engine: Any = self.sim.engine
        before, self.grid.canned = dict(engine.memory), arriving
        state, outcome = ask_clients(self.sim, self.state, COHORT)
        memory = {str(client): kept for client, kept in engine.memory.items()}
        engine.memory.clear()
        engine.memory.update(before)
        found = {"params": state.params, "buffers": state.buffers, "slots": state.slots, "memory": memory}
        return digest(found), outcome

    def reasons(self) -> list[tuple[int, str]]:
        return [(refusal.client, refusal.reason) for refusal in self.sim.engine.refused]


def scene(spec: MethodSpec, path: Path) -> Scene:
    sim, grid = over_flower(spec, path)
    caught: list[Message] = []
    grid.alter = lambda replies: caught.extend(_trained(replies)) or replies  # type: ignore[func-returns-value]
    state, _ = ask_clients(sim, sim.open(), COHORT)
    older = list(caught)
    caught.clear()
    before = dict(sim.engine.memory)
    ask_clients(sim, state, COHORT)
    sim.engine.memory.clear()
    sim.engine.memory.update(before)
    return Scene(sim, grid, state, older, list(caught))


def _trained(replies: list[Message]) -> list[Message]:
    """Replies of clients that trained, not of those that judge models."""
    return [r for r in replies if r.has_content() and "trees" in r.content.config_records.get("reply", {})]


def node_of(client: int) -> int:
    return FIRST_NODE - client


def sent_by(reply: Message, client: int) -> Message:
    return _with_source(reply, node_of(client))


def _with_source(reply: Message, node: int) -> Message:
    twin = copy.copy(reply)
    twin.__dict__["_metadata"] = copy.deepcopy(reply.metadata)
    twin.metadata.__dict__["_src_node_id"] = node
    return twin


def _spoilt(reply: Message, damage: str) -> Message:
    twin = copy.copy(reply)
    twin.__dict__["_content"] = damaged(reply.content, damage)
    return twin


@pytest.mark.parametrize("spec", aggregation_rules(), ids=spec_name)
def test_a_malformed_reply_equals_no_reply_bit_for_bit(spec: MethodSpec, tmp_path: Path) -> None:
    here = scene(spec, tmp_path)
    others = [r for r in here.replies if r.metadata.src_node_id != node_of(BAD)]
    (bad,) = [r for r in here.replies if r.metadata.src_node_id == node_of(BAD)]
    everyone, _ = here.end(here.replies)
    expected, _ = here.end(others)
    assert everyone != expected
    for damage, (_, reason) in DAMAGES.items():
        found, _ = here.end([_spoilt(bad, damage), *others])
        assert here.reasons() == [(BAD, reason)], damage
        assert found == expected, damage


def test_there_are_at_least_26_kinds_of_malformed_replies() -> None:
    assert len(DAMAGES) >= 26


@pytest.mark.parametrize("trials", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_repeated_late_early_and_uninvited_replies_change_nothing(trials: int, tmp_path: Path) -> None:
    here = scene("scaffold", tmp_path)
    expected, _ = here.end(here.replies)
    rng = random.Random(0)
    uninvited = [sent_by(here.replies[0], 3), sent_by(here.replies[0], 5), _with_source(here.replies[0], 17)]
    for trial in range(trials):
        replies = list(here.replies)
        junk = rng.choices([*here.replies, *uninvited], k=rng.choice([1, 2, 10]))
        late = rng.choices(here.older, k=rng.choice([0, 1, 4]))
        early = [_spoilt(rng.choice(here.replies), "future round") for _ in range(rng.choice([0, 1]))]
        mixed = [*replies, *junk, *uninvited[: rng.choice([0, 3])], *late, *early]
        rng.shuffle(mixed)
        found, outcome = here.end(mixed)
        assert found == expected, trial
        assert not outcome.skipped


def test_an_answer_in_anothers_name_is_refused(tmp_path: Path) -> None:
    here = scene("fedavg", tmp_path)
    others = [r for r in here.replies if r.metadata.src_node_id != node_of(BAD)]
    expected, _ = here.end(others)
    forged = sent_by(others[0], BAD)
    found, _ = here.end([forged, *others])
    assert found == expected
    assert here.reasons() == [(BAD, "client")]


def test_a_failed_client_is_named_with_its_word(tmp_path: Path) -> None:
    here = scene("fedavg", tmp_path)
    others = [r for r in here.replies if r.metadata.src_node_id != node_of(BAD)]
    for word, reason in (("memory", "memory"), ("/home/someone: secret", "error")):
        failed = Message(Error(100, word), reply_to=here.grid.sent[-1])
        here.end([_with_source(failed, node_of(BAD)), *others])
        assert here.reasons() == [(BAD, reason)]


def test_flowers_word_that_a_node_is_gone_is_no_reply(tmp_path: Path) -> None:
    here = scene("fedavg", tmp_path)
    others = [r for r in here.replies if r.metadata.src_node_id != node_of(BAD)]
    expected, _ = here.end(others)
    found, outcome = here.end([Message(Error(3, "node unavailable"), reply_to=here.grid.sent[-1]), *others])
    assert found == expected
    assert here.reasons() == []
    assert outcome.replied == len(COHORT) - 1


def test_refusals_are_in_the_rounds_row(tmp_path: Path) -> None:
    sim, grid = over_flower("fedavg", tmp_path, cohort=None)
    start = sim.open()
    grid.alter = lambda replies: [_spoilt(replies[0], "nan"), *replies[1:]]
    _, outcome = sim.advance(start)
    assert outcome.replied == 6
    assert [(r.client, r.reason) for r in outcome.rejected] == [(5, "finite")]


def test_a_round_below_the_least_number_of_replies_is_skipped_and_changes_nothing(tmp_path: Path) -> None:
    sim, grid = over_flower("scaffold", tmp_path, RoundPolicy(min_replies=3))
    start = sim.open()
    grid.alter = lambda replies: replies[:2]
    state, outcome = sim.advance(start)
    assert outcome.skipped
    assert digest(state.params) == digest(start.params)
    assert not sim.engine.memory


GREETINGS: dict[str, tuple[dict[str, Any], str]] = {
    "fewer than none": ({"samples": -1}, "samples"),
    "too many": ({"samples": 10**12}, "samples"),
    "bool": ({"samples": True}, "samples"),
    "fewer than none held out": ({"held_out": -1}, "samples"),
    "more than is asked for": ({"counts": [50, 0, 0, 0]}, "records"),
    "a number for a digest": ({"share": 7}, "share"),
    "another version": ({"version": "0.0.0"}, "version"),
    "unknown name": ({"client": "mallory"}, "client"),
}


@pytest.mark.parametrize("kind", GREETINGS)
def test_a_client_with_an_impossible_greeting_counts_as_not_there(kind: str, tmp_path: Path) -> None:
    facts, reason = GREETINGS[kind]
    work = simulate("fedavg").work
    grid = LocalGrid(seats_of(work, tmp_path))

    def alter(replies: list[Message]) -> list[Message]:
        for reply in replies:
            if reply.metadata.src_node_id == node_of(0):
                reply.content["reply"] = ConfigRecord(
                    {**dict(reply.content.config_records["reply"]), **facts}
                )
        return replies

    grid.alter = alter
    roster = Roster(grid, [str(k) for k in range(6)])
    roster.identify_nodes(1.0)
    assert roster.missing() == ["0"]
    assert [word for _, word in roster.refusals] == [reason]


def test_the_second_node_that_claims_a_client_is_refused(tmp_path: Path) -> None:
    work = simulate("fedavg").work
    grid = LocalGrid(seats_of(work, tmp_path))
    grid.seats[FIRST_NODE + 1] = grid.seats[node_of(3)]
    roster = Roster(grid, [str(k) for k in range(6)])
    roster.identify_nodes(1.0)
    assert roster.missing() == []
    assert roster.refusals == [("3", "sender")]
    assert roster.online()["3"] == node_of(3)


def test_a_node_registered_under_another_name_is_refused(tmp_path: Path) -> None:
    work = simulate("fedavg").work
    grid = LocalGrid(seats_of(work, tmp_path), names={node_of(k): str(k) for k in range(6)})
    grid.names[node_of(3)] = "4"
    roster = Roster(grid, [str(k) for k in range(6)], named_nodes=True)
    roster.identify_nodes(1.0)
    assert roster.missing() == ["3"]
    assert roster.refusals == [("3", "sender")]


def test_a_newcomer_may_speak_for_a_client_whose_node_is_gone(tmp_path: Path) -> None:
    sim, grid = over_flower("scaffold", tmp_path, cohort=None)
    state, _ = sim.advance(sim.open())
    grid.seats[FIRST_NODE + 9] = grid.seats.pop(node_of(3))
    _, outcome = sim.advance(state)
    assert outcome.replied == 6
    assert not outcome.rejected


def test_a_node_that_was_away_is_asked_again_as_soon_as_it_is_back(tmp_path: Path) -> None:
    """With a key of its own a node has the same id each time it comes."""
    sim, grid = over_flower("scaffold", tmp_path, cohort=None)
    state, _ = sim.advance(sim.open())
    context = grid.seats.pop(node_of(3))
    state, alone = sim.advance(state)
    grid.seats[node_of(3)] = context
    _, together = sim.advance(state)
    assert (alone.replied, together.replied) == (5, 6)
