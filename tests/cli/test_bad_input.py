"""Whatever a user gives: an exit code that says whose fault it is, one line that says what, and never a traceback."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from fuzzed import random_assignment
from runs import assert_refused, call, finish, spawn, write_tiny

USAGE = {
    "unknown command": (["rnu"], "No such command 'rnu'. Did you mean 'run'? See `counterpoise --help`."),
    "no experiment": (["run"], "Missing argument 'EXPERIMENT'"),
    "no name": (["show"], "Missing argument 'NAME'"),
    "unknown option": (["run", "x.toml", "--otu", "y"], "--out"),
    "option without a value": (["run", "x.toml", "--out"], "--out"),
    "too many words": (["ls", "methods", "parts"], "parts"),
    "no seeds": (["demo", "--seeds", "0"], "Invalid value for '--seeds': "),
    "half a seed": (["demo", "--seeds", "1.5"], "--seeds"),
    "unknown kind": (["ls", "method"], "no kind 'method'; did you mean 'methods'?"),
    "no kind at all": (
        ["ls", "foo"],
        "no kind 'foo'; one of augmentations, data, imbalances, methods, models, partitions, parts, probes, runs, schedules",
    ),
    "unknown name": (
        ["show", "fedproxx"],
        "nothing is called 'fedproxx'; did you mean 'fedprox'? `counterpoise ls` lists all",
    ),
    "empty name": (["show", ""], "nothing is called ''"),
    "name that leads out": (["show", "../../etc/passwd"], "nothing is called '../../etc/passwd'"),
}


@pytest.mark.parametrize(("arguments", "words"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_one_line(arguments: list[str], words: str) -> None:
    told = call(*arguments)
    assert_refused(told, 2)
    assert words.lower() in told.err.lower()  # typers differ in how they write the name of an argument


def test_without_a_command_there_is_help() -> None:
    code, out, _ = call()
    assert code == 2
    assert "Usage: counterpoise" in out


FILES: dict[str, tuple[bytes, str]] = {
    "not TOML": (b"this is not", "not TOML"),
    "binary": (bytes(range(256)) * 50, "not UTF-8 text"),
    "huge": (b"# " * (1 << 20), "bytes: not an experiment"),
    "deep": (b"a = " + b"[" * 100_000, "not TOML"),
    "deep key": (b".".join([b"a"] * 50_000) + b" = 1", "at most 32 parts"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00", "not UTF-8 text"),
    "yaml tag": (b"!!python/object/apply:os.system ['touch canary']", "not TOML"),
    "json": (b'{"seed": 1}', "not TOML"),
    "twice": (b"seed = 1\nseed = 2", "not TOML"),
    "unknown key": (b"sede = 1", "no key sede; did you mean 'seed'?"),
    "unknown table": (b"[locals]\nlr = 1", "no key locals; did you mean 'local'?"),
    "wrong type": (b"rounds = 'ten'", "rounds must be a whole number in [1, inf), not 'ten'"),
}


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize(("content", "words"), FILES.values(), ids=FILES)
def test_a_bad_file_is_named(tmp_path: Path, command: str, content: bytes, words: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    began = time.process_time()
    assert_refused(call(command, path), 2, str(path), words)
    assert time.process_time() - began < 5
    assert [found.name for found in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize("command", ["run", "validate", "advise"])
def test_a_table_in_place_of_an_experiment_leads_to_init(command: str, tmp_path: Path) -> None:
    """The first mistake of who has only a table; it was called bad TOML."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    words = "must be an experiment in TOML, not a table", "`counterpoise init ", "--label COLUMN` writes one"
    assert_refused(call(command, tmp_path / "a.csv"), 2, *words)


@pytest.mark.parametrize("command", [["run"], ["validate"], ["data", "pack"]])
def test_a_sweep_is_told_with_the_command_that_takes_it(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "my sweep.toml"
    path.write_text('methods = ["fedavg"]\nseeds = 2\n[base]\nrounds = 1\n')
    target = [tmp_path / "x.safetensors"] if "pack" in command else []
    words = [f"{path}: methods, seeds, base", "is a sweep", f"`counterpoise compare '{path}'`"]
    assert_refused(call(*command, path, *target), 2, *words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.toml", "No such file or directory"),
        ("", "Is a directory"),
        ("x" * 5000, "File name too long"),
        ("tiny.toml/x", "Not a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, words: str) -> None:
    write_tiny(tmp_path)
    for command in ("run", "validate"):
        assert_refused(call(command, tmp_path / name), 2, words)


VALUES = {
    "method=fedproxx": "no method or part 'fedproxx'; did you mean 'fedprox'?",
    "method=focall": "did you mean 'focal'?",
    "method=../../x": "no method or part '../../x'",
    "method=os.system": "no method or part 'os.system'",
    'method=["fedavg", "focal", "ldam"]': "focal and ldam each set the loss, and only one part may",
    'method=["fedavg", "focal", "focal"]': "part 'focal' is listed twice",
    'method=["fedavg", "scaffold"]': "fedavg weighs clients by 'samples' and scaffold weighs clients by 'uniform'",
    "method=[]": "method must be a name, or a list of names and { name = { argument = value } }, not []",
    "method=3": "{ name = { argument = value } }, not 3",
    "method={fedprox=3}": "fedprox must be { argument = value }, not 3",
    "method={fedprox={mo=1}}": "no argument 'mo'",
    "method={fedprox={mu=-1}}": "mu must be a number in [0, inf), not -1",
    "method={fedprox={mu=nan}}": "mu must be a number in [0, inf), not nan",
    "method={fedprox={mu='x'}}": "mu must be a number in [0, inf), not 'x'",
    "method=[fedavg]": "neither TOML nor a plain word",
    "model.name=mpl": "no model 'mpl'; did you mean 'mlp'?",
    "model.name=torch.hub.load": "no model 'torch.hub.load'",
    "model.hiden=[3]": "no argument 'hiden'; did you mean 'hidden'?",
    "model.hidden=[0]": "hidden.0 must be a whole number in [1, inf), not 0",
    "model.hidden=8": "hidden must be list of a whole number in [1, inf), not 8",
    "model={name='cnn_lstm'}": "model cnn_lstm: the input must be ",
    "partition.name=dirichlett": "no partition 'dirichlett'; did you mean 'dirichlet'?",
    "partition.alpha=0": "alpha must be a number in (0, 1e+09], not 0",
    "partition.alpha=inf": "alpha must be a number in (0, 1e+09], not inf",
    "partition.alfa=1": "no argument 'alfa'; did you mean 'alpha'?",
    "partition.clients=0": "clients must be at least 1, not 0",
    "partition.clients=100000": "100000 clients",
    "partition.clients=1000000000": "partition.clients must be a whole number in [0, 10000000], not 1000000000",
    "model.hidden=[1000000000000]": "model mlp: in training it needs 1,024,000.0 GB of memory",
    "data.name=digit": "no data set 'digit'; did you mean 'digits'?",
    "data.name=../../etc/passwd": "no data set '../../etc/passwd'",
    "data.nmae=digits": "no argument 'nmae'",
    "data.imbalance=0": "data.imbalance must be above 0",
    "data.imbalance=-5": "data.imbalance must be above 0",
    "data.imbalance=steps": "no imbalance 'steps'; did you mean 'step'?",
    'data.augment=["flipp"]': "no augmentation 'flipp'; did you mean 'flip'?",
    "local.schedule=cosin": "no schedule 'cosin'; did you mean 'cosine'?",
    "local.schedule={cosine={flor=1}}": "no argument 'flor'; did you mean 'floor'?",
    "method=['fedavg', {ratio_loss={source='auxiliary'}}]": "data.validation must be above 0",
    "local.lr=-1": "local.lr must be a number in [0, inf), not -1",
    "local.lr=inf": "local.lr must be a number in [0, inf), not inf",
    "engine.device=cuda:99": "not 'cuda:99'",
    "engine.device=gpu": "engine.device must be auto, cpu, or cuda where there is a GPU, not 'gpu'",
    "engine.threads=100000": "engine.threads must be a whole number in [1, 512], not 100000",
    "evaluate.shots=paper": "no printed shots for data set 'digits'",
    "evaluate.clients=true": "evaluate.clients needs samples that clients hold out",
    "evaluate.recall_weights=[1.0]": "evaluate.recall_weights must have 10 numbers",
    "evaluate.shots={head=[0], medium=[1], tail=[99]}": "99",
    "local.lr=": "neither TOML nor a plain word",
    "local": "must be key.sub=value",
    "local.lr=1\nseed=2": "neither TOML nor a plain word",
}


@pytest.mark.parametrize(("assignment", "words"), VALUES.items(), ids=[key[:40] for key in VALUES])
def test_a_bad_value_is_named(tmp_path: Path, assignment: str, words: str) -> None:
    experiment = write_tiny(tmp_path)
    assert_refused(call("validate", experiment, assignment), 2, words)
    assert_refused(call("run", experiment, assignment, "--out", tmp_path / "run"), 2, words)
    assert not (tmp_path / "run").exists()


LATE = {
    "method=[{fedcgnm={group_batches='separate'}}, 'resample']": "list it first",
    "method=[{fedcgnm={group_batches='separate'}}, 'fedhoo']": "list it first",
    "method={pcn={group_batches='separate'}}": "local.batch_size must be at least 8",
}


@pytest.mark.parametrize(("method", "words"), LATE.items(), ids=list(LATE))
def test_validate_says_what_a_client_would_only_find_as_it_is_asked(
    tmp_path: Path, method: str, words: str
) -> None:
    experiment = write_tiny(tmp_path, "local.batch_size=4", "cohort={}", "data.validation=0.2")
    assert_refused(call("validate", experiment, method), 2, words)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"name": "mnist"}, "mnist: no train-images"),
        ({"name": "adult"}, "adult: no "),
        ({"name": "table", "path": "missing.csv", "label": "y"}, "missing.csv"),
        ({"name": "arrays", "path": "tiny.toml"}, "tiny.toml"),
        ({"name": "pack", "path": "tiny.toml"}, "tiny.toml"),
    ],
)
def test_missing_or_bad_data_is_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, str], words: str
) -> None:
    write_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    given = [f"data={{{', '.join(f'{key}={value!r}' for key, value in data.items())}, root='nowhere'}}"]
    partition = ["partition={}"] if data["name"] == "pack" else []
    assert_refused(call("run", "tiny.toml", *given, *partition), 3, words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("tiny.toml", "cannot be created"),
        ("tiny.toml/x", "cannot be created"),
        ("/dev/null/x", "cannot be created"),
        ("/proc/x", "cannot be created"),
        ("x" * 5000, "cannot be created: File name too long"),
    ],
)
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, out: str, words: str) -> None:
    assert_refused(call("run", write_tiny(tmp_path), "--out", tmp_path / out), 2, words)


HOSTILE = [
    "../../x", "/etc/passwd", "~root", "$(touch canary)", "`touch canary`", "; touch canary", "| touch canary", "a\0b",
    "\u202egnp.exe", "C:\\x", "%s%n", "{0.__class__}", "x" * 4096, "CON", "a/../../b", "..", ".", "-rf", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:20])
def test_hostile_names_do_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    experiment = write_tiny(inside)
    monkeypatch.chdir(inside)
    for key in ("data.name", "method", "model.name", "partition.name"):
        assert_refused(call("run", experiment, f"{key}={name}"), 2)
    assert_refused(call("show", name), 2) if name != "-rf" else None
    assert {path.name for path in tmp_path.rglob("*")} == {"a", "b", "tiny.toml"}


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    process = spawn("validate", "tiny.toml", "data.root=\udcff", cwd=tmp_path)
    assert_refused(finish(process), 2, "neither TOML nor a plain word")


def test_out_of_memory_is_said_in_one_line(tmp_path: Path) -> None:
    wide = "data.augment=[{crop={padding=1000000}}]"
    assert_refused(call("run", write_tiny(tmp_path), wide, "--out", tmp_path / "run"), 4, "out of memory")


# Random configs and command lines


def check_fuzzed(folder: Path, seed: int) -> int:
    """The exit code of a random command line, which is one of ours, at once, in one line."""
    draw = random.Random(seed)
    given = [random_assignment(draw) for _ in range(draw.randint(1, 3))]
    began = time.process_time()
    code, out, err = call("validate", folder / "tiny.toml", *given)
    spent = time.process_time() - began
    if code == 0:
        assert (out.splitlines()[-1], err) == ("valid", ""), given
    else:
        assert code in (2, 3), (given, err)
        assert err.startswith("error: "), (given, err)
        assert err.count("\n") == 1, (given, err)
        assert "should not happen" not in err, (given, err)
    assert spent < 10, given
    return code


def test_random_command_lines_are_legal_or_refused_in_one_line(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    codes = [check_fuzzed(tmp_path, seed) for seed in range(200)]
    assert {0, 2} <= {*codes}


@pytest.mark.slow
def test_ten_thousand_random_command_lines_are_legal_or_refused_in_one_line(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    for seed in range(200, 10_200):
        check_fuzzed(tmp_path, seed)


def check_mutated(folder: Path, seed: int) -> None:
    """An experiment file with bytes changed, cut, doubled or thrown in."""
    draw = random.Random(seed)
    content = bytearray((folder / "tiny.toml").read_bytes())
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(content))
        match draw.randrange(4):
            case 0:
                content[place] = draw.randrange(256)
            case 1:
                del content[place : place + draw.randint(1, 20)]
            case 2:
                content[place:place] = content[place : place + draw.randint(1, 20)]
            case _:
                content[place:place] = draw.choice(
                    [b"\n[x]\n", b"=", b"nan", b"-", b"'", b"9" * 9, b"\xff", b"\0"]
                )
    path = folder / "mutated.toml"
    path.write_bytes(content)
    code, _, err = call(
        "validate", path, "rounds=1", "local.epochs=1", "local.batch_size=9", "model.hidden=[3]"
    )
    assert code in (0, 2, 3), (bytes(content), err)
    assert code == 0 or (err.startswith("error: ") and err.count("\n") == 1), (bytes(content), err)
    assert "should not happen" not in err, (bytes(content), err)


def test_mutated_files_are_legal_or_refused_in_one_line(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    for seed in range(100):
        check_mutated(tmp_path, seed)


@pytest.mark.slow
def test_ten_thousand_mutated_files_are_legal_or_refused_in_one_line(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    for seed in range(100, 10_100):
        check_mutated(tmp_path, seed)
