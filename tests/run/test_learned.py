"""What the server learns, in words: of each client, and what only as a sum."""

from __future__ import annotations

from typing import Any

from counterpoise.core.method import Method, build_method
from counterpoise.core.part import ClientData, Part, Reveals
from counterpoise.core.tree import Tree
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.learned import (
    CLASS_COUNTS,
    CLIENT_COUNTS,
    EACH,
    ROUNDS,
    SUM,
    UNSAID,
    Learned,
    learned_in,
    what_the_server_learns,
)

COUNTS = "how many samples there are of each class"
GROUPS = {"head": [0], "medium": [1], "tail": [2]}


def learned(spec: Any) -> list[Learned]:
    return what_the_server_learns(build_method(spec))


def of_counts(found: list[Learned]) -> list[tuple[str, str]]:
    return [(one.of, one.why) for one in found if one.what == COUNTS]


def test_of_fedavg_the_server_learns_sizes_and_updates() -> None:
    sizes, updates = learned("fedavg")
    assert sizes.words == (
        "of each client: how many samples it trains on, and how many it holds out (weights of the average)"
    )
    assert updates.words == (
        "of each client, in its rounds: its change of the model, its buffers and its mean training loss (training)"
    )


def test_a_tally_is_learned_as_a_sum_and_a_survey_of_each_client() -> None:
    tallied = learned(["fedavg", {"balanced_softmax": {"counts": "global"}}])
    assert of_counts(tallied) == [(SUM, "balanced_softmax")]
    assert of_counts(learned({"fedhoo": {"clusters": 2}})) == [(EACH, "fedhoo")]
    assert of_counts(learned(["fedavg", "balanced_softmax"])) == []


def test_uploads_are_named_and_memory_that_stays_is_not() -> None:
    assert [one.why for one in learned("scaffold") if one.of == ROUNDS] == ["training", "control_variates"]
    assert [one.why for one in learned("feddyn") if one.of == ROUNDS] == ["training"]


def test_a_part_that_says_nothing_is_not_passed_over() -> None:
    def ask(data: ClientData, classes: int) -> Tree:
        return {}

    def finish(*given: Any) -> tuple[Tree, Tree]:
        return {}, {}

    quiet = Part("quiet", survey=ask, finish=finish)
    found = [one for one in what_the_server_learns(Method((quiet,))) if one.why == "quiet"]
    assert [(one.what, one.of) for one in found] == [(UNSAID, EACH), (UNSAID, ROUNDS)]
    said = Part("said", survey=ask, reveals=Reveals(survey="its age"))
    assert Learned("its age", EACH, "said") in what_the_server_learns(Method((said,)))


def test_judgements_of_clients_are_named() -> None:
    words = "its right answers with models of others"
    judge = Part("judge", reveals=Reveals(judged=words))
    assert Learned(words, ROUNDS, "judge") in what_the_server_learns(Method((judge,)))


def in_a_run(**tables: Any) -> list[Learned]:
    return learned_in(make_experiment(tables))


def test_a_run_asks_for_class_counts_only_where_clients_bring_their_own_data() -> None:
    assert of_counts(in_a_run()) == []
    assert of_counts(in_a_run(flower={"client_counts": True})) == []
    own = ["a", "b"]
    assert of_counts(in_a_run(flower={"clients": own})) == [(SUM, CLASS_COUNTS)]
    assert of_counts(in_a_run(flower={"clients": own}, evaluate={"shots": GROUPS})) == []
    asked = in_a_run(flower={"clients": own, "client_counts": True}, evaluate={"shots": GROUPS})
    assert of_counts(asked) == [(EACH, CLIENT_COUNTS)]


def test_who_scores_held_out_samples_is_named() -> None:
    def measured(**tables: Any) -> list[str]:
        return [one.why for one in in_a_run(**tables) if one.what.startswith("its confusion counts")]

    assert measured() == []
    assert measured(evaluate={"clients": True}) == ["evaluate.clients"]
    assert measured(evaluate={"clients": True, "personal": True}) == ["evaluate.clients; evaluate.personal"]
    [why] = measured(method="fedhoo")
    assert why.startswith("fedhoo, as the server has no validation samples")
    assert measured(method="fedhoo", data={"validation": 0.1}) == []
    assert measured(method="fedhoo", data={"validation": 0.1}, flower={"clients": ["a"]}) == [why]
