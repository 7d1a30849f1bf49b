"""What the server of a run learns of its clients, in words: of each of them, or only as a sum over all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from counterpoise.core.method import Method
from counterpoise.core.part import Part, Reveals
from counterpoise.parts.counts import OF_EACH_CLASS, SUM_OF_COUNTS, class_counts
from counterpoise.run.config.experiment import Experiment

Of: TypeAlias = Literal["each client", "each client, in its rounds", "all clients, as a sum"]

EACH: Of = "each client"
ROUNDS: Of = "each client, in its rounds"
SUM: Of = "all clients, as a sum"
# Questions of a run itself, named after the setting that asks.
CLIENT_COUNTS, CLASS_COUNTS = "flower.client_counts", "evaluate.shots"
UNSAID = "something that the part does not describe"


class Learned(NamedTuple):
    """One thing that the server learns: what, of whom, and who asks for it."""

    what: str
    of: Of
    why: str

    @property
    def words(self) -> str:
        return f"of {self.of}: {self.what} ({self.why})"


def what_the_server_learns(method: Method, asked: Sequence[Part] = (), measured: str = "") -> list[Learned]:
    """All that leaves a client; `asked`: questions of the run beside the method's, `measured`: who scores held-out samples."""
    if (apart := _without_federation(method)) is not None:
        return apart
    weights = "weights of the average" if method.weighting == "samples" else "to know who has any"
    found = [Learned("how many samples it trains on, and how many it holds out", EACH, weights)]
    found += [one for part in (*method.parts, *asked) for one in _before_round_0(part)]
    found += [Learned("its change of the model, its buffers and its mean training loss", ROUNDS, "training")]
    found += [one for part in method.parts for one in _in_rounds(part)]
    if measured:
        what = (
            "its confusion counts, by class, and sums of confidences and losses on the samples it holds out"
        )
        found.append(Learned(what, EACH, measured))
    return found


def _without_federation(method: Method) -> list[Learned] | None:
    """Of methods that need no federation, or leave none; None of all others."""
    if (pools := method.pools) is not None:
        return [
            Learned("everything: all of its samples and labels, which lie in one place", EACH, pools.name)
        ]
    if (alone := method.alone) is not None:
        return [Learned("nothing: each client trains alone, and nothing is sent", EACH, alone.name)]
    return None


def _before_round_0(part: Part) -> Iterator[Learned]:
    if part.survey is not None:
        yield Learned(part.reveals.survey or UNSAID, EACH, part.name)
    if part.tally is not None:
        yield Learned(part.reveals.tally or UNSAID, SUM, part.name)


def _in_rounds(part: Part) -> Iterator[Learned]:
    """Whether a `finish` uploads anything is known only when it runs; so a part that says nothing is not trusted."""
    if part.finish is not None and part.reveals.upload != "nothing":
        yield Learned(part.reveals.upload or UNSAID, ROUNDS, part.name)
    if part.reveals.judged:
        yield Learned(part.reveals.judged, ROUNDS, part.name)


def learned_in(experiment: Experiment) -> list[Learned]:
    """What the server of an experiment learns; in a simulation: what it would learn over a network."""
    method = experiment.build_method()
    return what_the_server_learns(method, own_questions(experiment), _who_measures(experiment, method))


def own_questions(experiment: Experiment) -> tuple[Part, ...]:
    """What a run itself asks of clients that bring their own data, beside its method: class counts, where they are needed.

    Where the data is the experiment's, the process that writes the record has it, and asks nobody.
    """
    if not experiment.flower.clients:
        return ()
    if experiment.flower.client_counts:
        return (Part(CLIENT_COUNTS, survey=class_counts, reveals=Reveals(survey=OF_EACH_CLASS)),)
    if experiment.evaluate.shots == "rule":
        return (Part(CLASS_COUNTS, tally=class_counts, reveals=SUM_OF_COUNTS),)
    return ()


def _who_measures(experiment: Experiment, method: Method) -> str:
    """Who has models scored by clients; a search does without where the server has validation samples."""
    search = method.owner("choose")
    alone = experiment.data.validation > 0 and not experiment.flower.clients
    searching = [] if search is None or alone else [f"{search.name}, as the server has no validation samples"]
    scored = [f"evaluate.{key}" for key in ("clients", "personal") if getattr(experiment.evaluate, key)]
    return "; ".join([*searching, *scored])
