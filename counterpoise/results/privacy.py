"""What the server of a run learned, in plain words: how class counts were added up, what it saw, and what that tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from counterpoise.core.method import Method, build_method
from counterpoise.results.results import RunResult
from counterpoise.run.learned import EACH, ROUNDS, Learned

MODES = {
    "plain": "plain: the server saw each client's numbers and added them up itself",
    "masks": "masks: the server saw each client's numbers under pairwise masks, and learned their sum only",
    "bfv": "bfv: the server saw each client's numbers encrypted, and learned the sum from the client that held the key",
}
TRUST = {
    "plain": "Whoever reads the server's memory reads every client's counts.",
    "masks": "A client's numbers are open to the server if all other clients tell it their masks; a server that claims drop-outs and asks again could compare two sums.",
    "bfv": "A client's numbers are open if the key holder and the server work together; the key holder sees the sum alone.",
}
AGAIN = "The sum was asked for more than once, since the run was stopped before it was kept, each time with noise drawn anew: all these sums together spent epsilon {spent}."
UNSIGNED = "Keys were not signed: a server that lies could have put its own keys between the clients. It was trusted to follow the protocol."
SIGNED = (
    "Keys were signed under the clients' certificates, so the server could not put its own keys between them."
)
SMALL_SUM = "A sum tells too: of a class that one client alone holds it is that client's count."
UPDATES = "Updates of the model were sent as they are. The last layer's part of an update tells which labels a client trained on (LLG, RLU), however the class counts were added up."
NOISED = "The server clipped the updates and added noise to their mean (dp): the model is private to that extent; the server itself saw each update as it was."
SCORES = "{part} weighs clients by numbers that they send. Where these follow from class counts, as FedWCM's scores s_k do, each one tells a linear function of its client's counts."
CONFUSION = "Confusion counts by class of what a client holds out add up to its class counts there, which are a fair sample of all its labels."
COUNTS_OF_EACH = (
    "The server was told class counts of each client, so that it is no secret how they were added up."
)


class Section(NamedTuple):
    """A heading and its lines."""

    title: str
    lines: list[str]


def privacy_report(run: RunResult, learned: Sequence[Learned]) -> list[Section]:
    """All that the server of a run learned; `learned`: what the method and the config make it ask for."""
    method = build_method(run.config["method"])
    return [
        Section("Class counts before the first round", list(_sums(run.record.get("tallied", {})))),
        Section("The server learned", [one.words for one in learned]),
        Section("What that can tell", list(_tells(run, method, learned))),
    ]


def sum_line(tallied: Mapping[str, Any]) -> str:
    """What the sums before round 0 cost, in one line."""
    clients = f"{tallied['clients']} of {tallied['asked']} clients"
    up, down = (f"{tallied[key] / 1000:,.1f} kB" for key in ("bytes_up", "bytes_down"))
    again = f", {tallied['attempts']} attempts" if tallied["attempts"] > 1 else ""
    return f"{tallied['what']} of {clients} ({tallied['histogram']}): {tallied['messages']:,} messages, {up} to the server and {down} from it, {tallied['seconds']:.3g} s{again}"


def _sums(tallied: Mapping[str, Any]) -> Iterator[str]:
    if not tallied:
        yield "Nothing was added up over clients: no part and no setting of this run asks for it."
        return
    mode = str(tallied["histogram"])
    yield MODES[mode]
    yield sum_line(tallied)
    if tallied["epsilon"] is not None:
        yield (
            f"epsilon {tallied['epsilon']:g}: the clients added discrete Laplace noise, so that one sample more or less changes no "
            f"probability of the sum by more than a factor of exp({tallied['epsilon']:g}), if all {tallied['clients']} of them did; "
            f"another label of one sample, where the number of samples is known anyway, by exp({2 * tallied['epsilon']:g})"
        )
        if (spent := tallied.get("epsilon_spent", 0)) > tallied["epsilon"]:
            yield AGAIN.format(spent=f"{spent:g}")
    yield TRUST[mode]
    if mode != "plain":
        yield SIGNED if tallied["signed_keys"] else UNSIGNED
    yield SMALL_SUM


def _tells(run: RunResult, method: Method, learned: Sequence[Learned]) -> Iterator[str]:
    yield UPDATES
    if "dp" in {part.name for part in method.parts}:
        yield NOISED + _spent(run)
    sent = {one.why for one in learned if one.of == ROUNDS}
    for part in method.parts:
        if part.weigh is not None and part.name in sent:
            yield SCORES.format(part=part.name)
    if any("confusion" in one.what for one in learned):
        yield CONFUSION
    if any(one.of == EACH and "of each class" in one.what for one in learned):
        yield COUNTS_OF_EACH
    if run.config["engine"]["name"] != "flower":
        yield "This run was a simulation in one process, which holds all data; over a network a server would learn the above."


def _spent(run: RunResult) -> str:
    """The privacy that updates had spent when the model was last scored."""
    spent = [row["diagnostics"]["dp"]["epsilon"] for row in run.scored if "dp" in row.get("diagnostics", {})]
    return f" Epsilon spent: {spent[-1]:.4g}." if spent else ""
