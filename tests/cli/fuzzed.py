"""Random assignments, experiment files and command lines, the same for the same seed, most of them illegal."""

from __future__ import annotations

import copy
import json
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from counterpoise.cli.commands import app
from counterpoise.registry.schema import is_table
from counterpoise.run.config.experiment import Experiment

TABLES = {
    name: [*one.type.parameters()] if is_table(one.type) else []
    for name, one in Experiment.parameters().items()
}
KEYS = [
    *Experiment.parameters(),
    *(
        f"{table}.{key}"
        for table, known in TABLES.items()
        for key in known
    ),
    "data.path", "partition.alpha", "partition.minimum", "model.hidden", "model.norm", "model.width", "method.fedprox.mu",
    "local", "nonsense", "data.nonsense", "method.x", "__class__", "a.b.c", "", ".", "local.lr.x",
]  # fmt: skip
WORDS = [
    "0", "1", "2", "-1", "0.5", "-0.0", "1e-300", "1e300", "inf", "-inf", "nan", "true", "false", "''", '""', "[]", "{}",
    "[1]", "[[1]]", "['a']", "{a=1}", "{a={}}", "1979-05-27", "12:00:00", "9223372036854775807", "9223372036854775808",
    "0xff", "1_0", "fedavg", "scaffold", "focal", "auto", "loop", "stacked", "none", "None", "null", "dirichlet", "iid",
    "natural", "digits", "mlp", "x", "../x", "a b", "[", "{", "'", "=", "\n", "\t", "\0", "é", "\u202e", "\ud800", "%s",
    '["fedavg", {focal={gamma=2.0}}]', '["fedavg", "ldam"]', '[{fedprox={mu=0.1}}, "fedavg"]', "{fedprox={mu=0.1}}",
    "[" * 300 + "]" * 300, "{a=" * 100 + "1" + "}" * 100, "x" * 3000, "9" * 5000, "",
]  # fmt: skip
# Legal, but slow or large: not what is looked for here.
LARGE = {"9223372036854775807", "0xff", "1_0"}
COSTLY = (
    "rounds",
    "local.epochs",
    "local.batch_size",
    "engine.threads",
    "engine.processes",
    "model.hidden",
    "model.width",
)


def random_assignment(draw: random.Random) -> str:
    key, value = draw.choice(KEYS), draw.choice(WORDS)
    if key.startswith(COSTLY) and value in LARGE:
        value = "2"
    if draw.random() < 0.1:
        place = draw.randrange(len(value) + 1)
        value = value[:place] + draw.choice("[]{}'\"=.,#\\ \n0") + value[place:]
    return f"{key}={value}"


# Experiment files

EXAMPLES = Path(__file__).parents[2] / "experiments"
VALUES: list[Any] = [
    0, 1, 2, -1, 3.5, -0.0, 1e-300, 1e300, -1e300, 1.8e308, float("nan"), float("-inf"), True, False, "", "x", "1", "0.1", "nan", [], {},
    [1], [[1]], ["a"], {"a": 1}, {"a": {}}, {"a": {"b": {}}}, [{}], 2**31, 2**63 - 1, -(2**63), 2**63, 10**40, "fedavg", "auto",
    "a" * 5000, "\u202e", "\x1b[31m", "é", "\u2028", "%s", "{0}", "../../x", "os.system", "C:\\x", "a\tb", "\U0001f600", "\ufdd0",
    ["fedavg", "focal"], ["focal", "ldam"], {"fedprox": {"mu": "x"}}, {"fedprox": {"mu": -1}}, {"fedprox": {"x": 1}},
    {"step": {"factor": -1}}, {"cosine": {"floor": -1.0}}, [0.5] * 100, list(range(100)),
]  # fmt: skip
# Legal, but slow or large: not what is looked for here.
DEAR = (
    "rounds",
    "epochs",
    "batch_size",
    "threads",
    "processes",
    "hidden",
    "width",
    "depth",
    "chunk",
    "keep",
    "clients",
)
MOST = 100


class Fuzzed(NamedTuple):
    """An experiment file, and the keys that were changed, of which an error has to name one."""

    content: bytes
    keys: tuple[str, ...]


def examples() -> list[dict[str, Any]]:
    """The example experiments, on data that is small and always there."""
    found = [tomllib.loads(path.read_text()) for path in sorted(EXAMPLES.glob("*.toml"))]
    for tables in found:
        tables["data"]["name"], tables["model"] = "digits", {"name": "mlp", "hidden": [4]}
        tables["partition"]["clients"] = tables["cohort"]["size"] = 4
    return found


def random_experiment(draw: random.Random, known: list[dict[str, Any]]) -> Fuzzed:
    """An example with some of its values changed, or its text damaged."""
    tables = copy.deepcopy(draw.choice(known))
    keys = [key for _ in range(draw.randint(1, 3)) for key in mutate(draw, tables)]
    text = as_toml(tables)
    if draw.random() < 0.15:
        return Fuzzed(damage(draw, text.encode(errors="replace")), ())
    return Fuzzed(text.encode(errors="replace"), tuple(keys))


def mutate(draw: random.Random, tables: dict[str, Any]) -> Iterator[str]:
    """Change one value, key or table in place; yields the keys it touched."""
    name = draw.choice([*TABLES, "nonsense", "Rounds", "données"])
    inner = tables.get(name)
    if not isinstance(inner, dict) or draw.random() < 0.15:
        tables[name] = fitting(draw, name)
        yield name
        return
    legal = [*TABLES.get(name, ()), *inner, "alpha", "nonsense", "ключ", "a.b", ""]
    key = draw.choice(legal)
    yield from (name, key)
    if draw.random() < 0.1:
        inner.pop(key, None)
    else:
        inner[key] = nested(draw) if draw.random() < 0.05 else fitting(draw, key)


def fitting(draw: random.Random, key: str) -> Any:
    """A value that takes neither hours nor all memory, if it is legal at all."""
    value = copy.deepcopy(draw.choice(VALUES))
    dear = key in DEAR and isinstance(value, int | float | list)
    return 3 if dear and not (isinstance(value, list) or value <= MOST) else value


def nested(draw: random.Random) -> Any:
    value: Any = 1
    for _ in range(draw.choice([5, 31, 33, 100])):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return value


def damage(draw: random.Random, content: bytes) -> bytes:
    """Bytes changed, cut out, doubled or thrown in."""
    place, size = draw.randrange(len(content)), draw.randint(1, 20)
    middle = {
        "cut": b"",
        "double": content[place : place + size] * 2,
        "throw": draw.choice([b"\n[x]\n", b"=", b"[" * 5000, b"{a=" * 2000, b"a." * 2000, b"'", b"\xff", b"\0", b'"""']),
        "change": bytes([draw.randrange(256)]),
    }[draw.choice(["cut", "double", "throw", "change"])]  # fmt: skip
    return content[:place] + middle + content[place + size :]


def as_toml(tables: dict[str, Any]) -> str:
    """TOML text of anything, one line a key: what the program writes itself never holds half of this."""
    plain = [
        f"{json.dumps(key)} = {inline(value)}" for key, value in tables.items() if not isinstance(value, dict)
    ]
    for name, table in tables.items():
        if isinstance(table, dict):
            plain += [
                f"[{json.dumps(name)}]",
                *(f"{json.dumps(key)} = {inline(value)}" for key, value in table.items()),
            ]
    return "\n".join(plain) + "\n"


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)


# Command lines

# With arguments that are legal these take long, listen, reach out, or open a browser.
COSTLY_COMMANDS = {"compare", "demo", "advise", "up", "simulate", "server", "client", "download"}
PATHS = [
    "", ".", "..", "missing", "missing/x", "tiny.toml", "tiny.toml/x", "bad.toml", "sweep.toml", "t.csv", "folder", "x" * 300, "x" * 5000,
    "/dev/null/x", "/proc/none/x", "\udcff", "\u202e", "\x1b[31m", "~", "$HOME", "-", "--", "-x", "a b", "%s", "é", "x.safetensors",
]  # fmt: skip
NAMES = [
    "fedavg",
    "digits",
    "mlp",
    "methods",
    "runs",
    "data",
    "parts",
    "y",
    "a",
    "focal",
    "fedavgg",
    "no such",
    "0",
    "1e9",
]


def commands() -> dict[tuple[str, ...], Any]:
    """Every command by its words."""
    found: dict[tuple[str, ...], Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            found[words] = command

    walk(typer.main.get_command(app), ())
    return found


def random_command(draw: random.Random, known: dict[tuple[str, ...], Any]) -> list[str]:
    """A command with options and arguments of which most are wrong."""
    words, command = draw.choice([*known.items()])
    options = [
        option for option in command.params if option.param_type_name == "option" and option.name != "open_"
    ]
    given = [*words]
    for _ in range(draw.randint(0, 3)):
        if draw.random() < 0.4 and options:
            given += random_option(draw, draw.choice(options))
        else:
            given.append(random_word(draw))
    if words[-1] in COSTLY_COMMANDS:
        given.insert(len(words), draw.choice(["--nonsense", "--nonsense=1", "--jso", "-?"]))
    elif draw.random() < 0.1:
        given[draw.randrange(len(given))] = random_word(draw)
    return given


def random_option(draw: random.Random, option: Any) -> list[str]:
    flag = draw.choice(option.opts)
    return [flag] if option.is_flag or draw.random() < 0.1 else [flag, random_word(draw)]


def random_word(draw: random.Random) -> str:
    """A word as a shell can pass it: it has no NUL, and bytes that are no text arrive as one half of a character."""
    kind = draw.randrange(4)
    word = random_assignment(draw) if kind == 3 else draw.choice((PATHS, NAMES, WORDS)[kind])
    return word.replace("\0", "").replace("\ud800", "\udcff")
