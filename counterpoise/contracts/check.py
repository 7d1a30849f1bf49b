"""All contracts, and how a part keeps them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias

from counterpoise.contracts.agreement import (
    longer_runs_begin_alike,
    processes_equal_loop,
    second_build_repeats,
    second_run_repeats,
    stacked_equals_loop,
    without_processes,
)
from counterpoise.contracts.composition import composes
from counterpoise.contracts.contract import Contract
from counterpoise.contracts.lost_replies import (
    bad_reply_is_none,
    bad_round_is_skipped,
    diverged_client_is_left_out,
)
from counterpoise.contracts.padding import padding_is_ignored
from counterpoise.contracts.purity import hooks_are_sound, state_stays
from counterpoise.contracts.state import (
    memory_counts,
    off_is_fedavg,
    only_enrolled_keep,
    only_searches,
    order_is_free,
    resumes,
    without_memory,
    without_off,
)
from counterpoise.contracts.words import factory_has_words, revealing_has_words, uploads_are_told
from counterpoise.core.method import MethodSpec
from counterpoise.errors import is_out_of_memory, one_line

State: TypeAlias = Literal["passed", "failed", "skipped"]


class Verdict(NamedTuple):
    """How a part keeps a contract; `line` says what is wrong, or why it does not concern the part."""

    words: str
    state: State
    line: str
    seconds: float


def _over_messages(spec: MethodSpec) -> None:
    from counterpoise.contracts.local_grid import messages_equal_loop

    messages_equal_loop(spec)


def _without_flower(spec: MethodSpec) -> str:
    return "" if find_spec("flwr") else "flwr is not installed: pip install 'counterpoise[flower]'"


CONTRACTS = (
    Contract("its arguments and its rule are told in words", factory_has_words),
    Contract("hooks return what they must and change nothing in place", hooks_are_sound),
    Contract("what the server learns is told in words", revealing_has_words),
    Contract("it uploads what it says", uploads_are_told),
    Contract("a second build repeats the run bit for bit", second_build_repeats),
    Contract("the same simulation repeats the run bit for bit", second_run_repeats),
    Contract("stacked clients equal the loop", stacked_equals_loop),
    Contract("worker processes equal the loop bit for bit", processes_equal_loop, without_processes),
    Contract("clients over Flower equal the loop bit for bit", _over_messages, _without_flower),
    Contract("a resumed run ends alike: state is plain tensors", resumes),
    Contract("a round leaves the state before it untouched", state_stays),
    Contract("a longer run begins alike, or the part plans", longer_runs_begin_alike),
    Contract("padding changes nothing", padding_is_ignored),
    Contract("the order of clients changes nothing", order_is_free, only_searches),
    Contract("a bad reply equals a lost one", bad_reply_is_none, only_searches),
    Contract("a round without usable replies changes nothing", bad_round_is_skipped),
    Contract("a client that diverges is left out", diverged_client_is_left_out, only_searches),
    Contract("only parts that enroll keep memory", only_enrolled_keep),
    Contract("memory of round 0 alters round 1", memory_counts, without_memory),
    Contract("its off value equals FedAvg", off_is_fedavg, without_off),
    Contract("it stands beside every other part, or is refused", composes),
)


def check_part(spec: MethodSpec, contracts: tuple[Contract, ...] = CONTRACTS) -> Iterator[Verdict]:
    """One verdict after another, each as soon as it is known; none after a broken hook, which would break every other run too."""
    for contract in contracts:
        began = time.perf_counter()
        state, line = _tried(contract, spec)
        yield Verdict(contract.words, state, line, time.perf_counter() - began)
        if state == "failed" and contract.holds is hooks_are_sound:
            return


def _tried(contract: Contract, spec: MethodSpec) -> tuple[State, str]:
    try:
        if idle := contract.idle(spec):
            return "skipped", idle
        contract.holds(spec)
    except Exception as error:  # a part may raise anything; it is told as one line
        if is_out_of_memory(error):
            raise
        kind = "" if hasattr(error, "exit_code") else f"{type(error).__name__}: "
        return "failed", one_line(f"{kind}{error}")
    return "passed", ""
