"""`counterpoise check`: each broken part is told by its contract in one line, sound ones pass, and PART may be written in every form."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import assert_refused, call

from counterpoise.contracts import agreement, composition, lost_replies, padding, purity, state, words
from counterpoise.contracts.check import CONTRACTS, check_part
from counterpoise.contracts.contract import Contract, Rule
from counterpoise.contracts.load import read_part
from counterpoise.core.method import METHODS, PARTS, build_method
from counterpoise.errors import ConfigError

FILE = Path(__file__).parent / "broken_parts.py"
BESIDE = ("focal", "client_focus")  # few of the parts that a part must stand beside


def beside_few(spec: object) -> None:
    composition.composes(spec, BESIDE)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _plugins_are_forgotten() -> Iterator[None]:
    """What a file registers is gone after the test: others go over all that is registered."""
    kept = [(registry, dict(registry._entries)) for registry in (PARTS, METHODS) if registry.names()]
    yield
    for registry, entries in kept:
        registry._entries.clear()  # type: ignore[attr-defined]
        registry._entries.update(entries)  # type: ignore[attr-defined]
    sys.modules.pop(FILE.stem, None)


BROKEN: list[tuple[str, Rule, str]] = [
    ("speechless", words.factory_has_words, "speechless has no docstring"),
    ("vague", words.factory_has_words, "vague: rate has no type that can be told in words"),
    ("sneaky", purity.hooks_are_sound, "sneaky.adjust changes the gradients.body.1.bias in place"),
    ("secretive", words.revealing_has_words, "secretive does not say what the server learns by `finish`"),
    ("secretive says", words.uploads_are_told, "secretive uploads something, which is not what"),
    ("counting", agreement.second_build_repeats, "built twice with the same seed, a run does not repeat itself"),
    ("drawing", agreement.second_build_repeats, "built twice with the same seed, a run does not repeat itself"),
    ("hoarding", agreement.second_run_repeats, "run again from its start, a run does not repeat itself"),
    ("branching", agreement.stacked_equals_loop, "branching.adjust fails: RuntimeError: vmap: "),
    ("numbering", agreement.stacked_equals_loop, "stacked in chunks of 1 and one by one, clients train apart"),
    ("whispering", agreement.processes_equal_loop, "in worker processes and in this one, clients train apart"),
    ("hoarding", state.resumes, "a run that is resumed ends otherwise"),
    ("late", purity.state_stays, "a round changes the state.slots.late.rounds before it"),
    ("planning", agreement.longer_runs_begin_alike, "the first rounds of a longer run are others"),
    ("unmasked", padding.padding_is_ignored, "what fills up a short batch changes a step"),
    ("counting", state.order_is_free, "50 orders of the same replies give 50 models, not one"),
    ("counting", lost_replies.bad_reply_is_none, "a reply that was refused leaves a trace"),
    ("late", lost_replies.bad_round_is_skipped, "a round that is skipped leaves a trace: slots/late/rounds differs by 1"),
    ("counting", lost_replies.diverged_client_is_left_out, "a client that diverged leaves a trace"),
    ("unenrolled", state.only_enrolled_keep, "memory without `enroll`"),
    ("forgetful", state.memory_counts, "what clients keep of round 0 changes nothing in round 1"),
    ("never_off", state.off_is_fedavg, "by its off value {'strength': 0.0} it is not FedAvg"),
    ("lonely", beside_few, "with client_focus: lonely.update fails: AssertionError: who is this?"),
]  # fmt: skip


def _written(name: str) -> str:
    place = f"{FILE}:{name.split()[0]}"
    return f"{{ '{place}' = {{ says = 1.0 }} }}" if name.endswith("says") else place


@pytest.mark.parametrize(("name", "rule", "line"), BROKEN, ids=[f"{n}-{r.__name__}" for n, r, _ in BROKEN])
def test_a_part_that_breaks_a_contract_is_told_so(name: str, rule: Rule, line: str) -> None:
    (verdict,) = check_part(read_part(_written(name)), (Contract("it", rule),))
    assert (verdict.state, verdict.line[: len(line)]) == ("failed", line)
    assert "\n" not in verdict.line


def test_a_part_that_breaks_the_contract_of_messages_is_told_so() -> None:
    pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")
    from counterpoise.contracts.local_grid import messages_equal_loop

    (verdict,) = check_part(read_part(_written("whispering")), (Contract("it", messages_equal_loop),))
    assert verdict.line.startswith("asked over Flower and in this process, clients train apart: params/")


def test_every_contract_has_a_part_that_breaks_it() -> None:
    tried = {rule for _, rule, _ in BROKEN} | {composition.composes}
    left = [contract.words for contract in CONTRACTS if contract.holds not in tried]
    assert left == ["clients over Flower equal the loop bit for bit"]  # by a test of its own


def test_after_a_broken_hook_nothing_else_is_tried() -> None:
    verdicts = list(check_part(read_part(_written("sneaky"))))
    assert [verdict.state for verdict in verdicts] == ["passed", "failed"]
    assert verdicts[-1].words == "hooks return what they must and change nothing in place"


def test_a_sound_part_passes_what_is_tried() -> None:
    dear = (agreement.processes_equal_loop, composition.composes)
    quick = tuple(c for c in CONTRACTS if c.holds not in dear and "Flower" not in c.words)
    verdicts = list(check_part(read_part(_written("sound")), quick))
    assert [verdict for verdict in verdicts if verdict.state == "failed"] == []
    assert sum(verdict.state == "skipped" for verdict in verdicts) == 2


FORMS = [
    "focal",
    "fedprox",
    "{ focal = { gamma = 3.0 } }",
    f"{FILE}:sound",
    f"{{ '{FILE}:sound' = {{ strength = 0.5 }} }}",
    f"{FILE}:sound_method",
    f"{FILE}:undecorated",
    "counterpoise.parts.losses:focal",
]


@pytest.mark.parametrize("text", FORMS)
def test_a_part_may_be_written_in_every_form(text: str) -> None:
    spec = read_part(text)
    assert build_method(spec).parts
    assert read_part(text) == spec  # a second time too


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("focall", "did you mean 'focal'?"),
        ("{ focal = {}, mixup = {} }", "PART must be one part or method, not 2"),
        ("nowhere.py:x", "there is no file nowhere.py"),
        ("no_such_package.x:y", "cannot be imported: ModuleNotFoundError"),
        (f"{FILE}:soundd", "has no function 'soundd'; did you mean 'sound'?"),
        (f"{FILE}:no_part", "no_part must return a Part or a Method, not int"),
        ("{ focal = { gamma = -1.0 } }", "gamma must be"),
    ],
)
def test_a_part_that_is_not_there_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r".") as caught:
        build_method(read_part(text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_prints_a_row_per_contract_and_exits_with_4() -> None:
    done = call("check", f"{FILE}:sneaky")
    assert done.code == 4
    rows = done.out.splitlines()
    assert any(
        row.strip().startswith("sneaky.adjust changes the gradients.body.1.bias in place") for row in rows
    )
    left = f"{len(CONTRACTS) - 2} not tried: mend the hook first"
    assert rows[-1].startswith(f"{len(CONTRACTS)} contracts: 1 passed, 1 failed, {left}; ")


def test_the_command_gives_json_and_refuses_what_is_not_there() -> None:
    found = json.loads(call("check", f"{FILE}:sneaky", "--json").out)
    assert [(row["words"], row["state"]) for row in found] == [
        (CONTRACTS[0].words, "passed"),
        (CONTRACTS[1].words, "failed"),
    ]
    assert_refused(call("check", "no_such_part"), 2, "no method or part 'no_such_part'")


def test_the_contracts_need_nothing_that_only_tests_have() -> None:
    home = Path(composition.__file__).parent
    assert all("pytest" not in path.read_text() for path in home.glob("*.py"))


@pytest.mark.faults
@pytest.mark.parametrize("name", ["sound", "sound_method"])
def test_the_command_passes_a_sound_part(name: str) -> None:
    done = call("check", f"{FILE}:{name}")
    assert done.code == 0, done.out
    assert " failed" not in done.out
