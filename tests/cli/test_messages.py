"""What errors say: the key, a piece of what was given, however long it is, and what is legal; and of memory, how to go on."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from runs import COMMAND, Finished, assert_refused, call, write_tiny

import counterpoise as cp
from counterpoise.cli import main
from counterpoise.cli.interrupt import interruptible
from counterpoise.errors import ConfigError, CounterpoiseError, RunError
from counterpoise.run.store.folder import RunFolder

LONG = "x" * 300_000
MOST = 2000  # bytes of an error

# Names that there are not: key, what was given, the nearest, and how all are found

UNKNOWN = {
    "data.name=digit": "data.name: no data set 'digit'; did you mean 'digits'? `counterpoise ls data` lists all",
    "data.name=zzz": "data.name: no data set 'zzz'; `counterpoise ls data` lists all",
    "data.imbalance=steps": "data.imbalance: no imbalance 'steps'; did you mean 'step'?",
    'data.augment=["flipp"]': "data.augment: no augmentation 'flipp'; did you mean 'flip'?",
    "partition.name=idd": "partition.name: no partition 'idd'; did you mean 'iid'?",
    "model.name=mpl": "model.name: no model 'mpl'; did you mean 'mlp'?",
    "local.schedule=cosin": "local.schedule: no schedule 'cosin'; did you mean 'cosine'?",
    "method=fedproxx": "method: no method or part 'fedproxx'; did you mean 'fedprox'? `counterpoise ls` lists all",
    'method=["fedavg", "focall"]': "method: no method or part 'focall'; did you mean 'focal'? `counterpoise ls` lists all",
    "local.schedule={cosine=3}": "local.schedule",
    "local.schedule={cosine={}, steps={}}": "local.schedule must be one name",
}


@pytest.mark.parametrize(("assignment", "words"), UNKNOWN.items(), ids=list(UNKNOWN))
def test_an_unknown_name_is_told_with_its_key(tmp_path: Path, assignment: str, words: str) -> None:
    assert_refused(call("validate", write_tiny(tmp_path), assignment), 2, words)


def test_python_callers_are_told_as_much() -> None:
    with pytest.raises(
        ConfigError, match=r"no data set 'digit'; did you mean 'digits'\? `counterpoise ls data`"
    ):
        cp.load_data("digit")
    with pytest.raises(ConfigError, match=r"no partition 'idd'; did you mean 'iid'\?"):
        cp.split(cp.load_data("digits"), "idd", 2)
    with pytest.raises(ConfigError, match=r"model.name: no model 'mpl'; did you mean 'mlp'\?"):
        cp.simulate(cp.split(cp.load_data("digits"), "iid", 2), "fedavg", "mpl", rounds=1)


# Numbers beyond what parameters are stepped in

TOO_LARGE = {
    "local.lr=1e300": "local.lr must be at most 3.403e+38 in size with float32, not 1e+300",
    "local.weight_decay=1e300": "local.weight_decay must be at most",
    f"evaluate.recall_weights={[1e308] * 10}": "evaluate.recall_weights.0 must be a number in [0, 3.40282e+38], not 1e+308",
    "local.schedule={cosine={floor=1.8e308}}": "floor must be a number in [0, inf), not inf",
    "local.schedule={cosine={floor=1.7e308}}": "floor must be a number in [0, inf), at most 3.403e+38 in size, not 1.7e+308",
    "local.schedule={steps={at=[1, 2], by=1e38}}": "local.schedule: the rate of round 4 must be at most 3.403e+38 in size with float32, not 1e+75",
    "local.schedule={steps={at=[1, 2, 3, 3, 3, 3, 3, 3, 3, 3], by=1e38}}": "local.schedule: the learning rate overflows in round 4 of 4",
    "method={fedprox={mu=1e300}}": "mu must be a number in [0, inf), at most 3.403e+38 in size, not 1e+300",
    "method={fedadam={tau=1e38}}": "tau must be a number in (0, 1e+15], not 1e+38",
    "partition.alpha=1e300": "alpha must be a number in (0, 1e+09], not 1e+300",
}


@pytest.mark.parametrize(("assignment", "words"), TOO_LARGE.items(), ids=[key[:50] for key in TOO_LARGE])
def test_a_number_that_no_step_can_hold_is_refused(tmp_path: Path, assignment: str, words: str) -> None:
    experiment = write_tiny(tmp_path)
    assert_refused(call("validate", experiment, assignment), 2, words)
    assert_refused(call("run", experiment, assignment, "--out", tmp_path / "run"), 2, words)
    assert not (tmp_path / "run").exists()


# Values of any length

OVERRIDES = {
    "value": f"rounds='{LONG}'",
    "number": f"rounds={'9' * 300_000}",
    "list": f"rounds=[{'1, ' * 100_000}1]",
    "key": f"{LONG}=1",
    "key of a table": f"local.{LONG}=1",
    "table": f"{LONG}.{LONG}=1",
    "no assignment": LONG,
    "no value": f"rounds={LONG} {LONG}",
    "method": f"method={LONG}",
    "methods": f"method=['{LONG}', '{LONG}']",
    "argument of a method": f"method={{fedprox={{{LONG}=1}}}}",
    "value of a method": f"method={{fedprox={{mu='{LONG}'}}}}",
    "no arguments": f"method={{{LONG}='{LONG}'}}",
    "parts": "method=[" + "'focal', " * 10_000 + "'ldam']",
    "data": f"data.name={LONG}",
    "data argument": f"data.{LONG}=1",
    "path": f"data={{name='table', path='{LONG}', label='y'}}",
    "label": f"data={{name='table', path='t.csv', label='{LONG}'}}",
    "root": f"data={{name='mnist', root='{LONG}'}}",
    "imbalance": f"data.imbalance={LONG}",
    "imbalances": f"data.imbalance={{{LONG}={{}}, b={{}}}}",
    "augmentation": f"data.augment=['{LONG}']",
    "partition": f"partition.name={LONG}",
    "partition argument": f"partition.alpha='{LONG}'",
    "model": f"model.name={LONG}",
    "model argument": f"model.hidden=[{'0, ' * 100_000}0]",
    "schedule": f"local.schedule={LONG}",
    "device": f"engine.device={LONG}",
    "weights": f"evaluate.recall_weights=[{'-1, ' * 100_000}0]",
    "shots": f"evaluate.shots={{head=[{'3, ' * 100_000}0], medium=[], tail=[]}}",
    "tracker": f"track.to={LONG}",
}


@pytest.mark.parametrize("assignment", OVERRIDES.values(), ids=list(OVERRIDES))
def test_no_value_makes_an_error_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assignment: str
) -> None:
    experiment = write_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,y\n1,x\n")
    finished = call("validate", experiment, assignment)
    assert_refused(finished, finished.code)
    assert finished.code in (2, 3)
    assert len(finished.err.encode()) < MOST


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", LONG], ["validate", LONG], ["resume", LONG], ["show", LONG], ["ls", LONG], ["ls", "runs", LONG],
        [LONG], ["run", "tiny.toml", f"--{LONG}"], ["run", "tiny.toml", "--out", LONG], ["data", "inspect", LONG],
        ["compare", LONG], ["compare", "tiny.toml", LONG], ["demo", "--seeds", LONG], ["report", LONG], ["diff", LONG, LONG],
        ["data", "pack", "tiny.toml", LONG], ["data", "download", LONG], ["ls", "methods", LONG], ["watch", "--once", LONG],
    ],
    ids=lambda arguments: " ".join(word[:10] for word in arguments),
)  # fmt: skip
def test_no_argument_makes_an_error_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    write_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    finished = call(*arguments)
    assert "should not happen" not in finished.err
    assert len(finished.err.encode()) < MOST
    assert finished.code == 2 or (arguments[0] == "data" and finished.code == 3) or finished.err == ""


FILES = {
    "key": f"{LONG} = 1",
    "table": f"[{LONG}]\n[{LONG}]",
    "value": f"rounds = '{LONG}'",
    "word": LONG,
    "sweep": f"methods = ['{LONG}']\n[base]\nrounds = '{LONG}'",
    "sweep of": f"methods = ['fedavg']\n[vary]\n'{LONG}' = '{LONG}'",
}


@pytest.mark.parametrize("content", FILES.values(), ids=list(FILES))
def test_no_file_makes_an_error_long(tmp_path: Path, content: str) -> None:
    path = tmp_path / "long.toml"
    path.write_text(content)
    for command in ("validate", "compare"):
        finished = call(command, path)
        assert_refused(finished, 2, str(path))
        assert len(finished.err.encode()) < MOST


def test_class_names_and_columns_do_not_make_an_error_long(tmp_path: Path) -> None:
    rows = "".join(f"{k},{LONG if k % 2 else 'b'}\n" for k in range(4))
    (tmp_path / "t.csv").write_text(f"{LONG},y\n{rows}")
    for label in ("y", LONG, "z"):
        finished = call("data", "inspect", tmp_path / "t.csv", "--label", label)
        assert finished.code in (0, 3)
        assert len(finished.err.encode()) < MOST


def test_python_callers_see_no_long_errors_either() -> None:
    for give in (
        lambda: cp.load_data(LONG),
        lambda: cp.load_data("digits", **{LONG: 1}),
        lambda: cp.split(cp.load_data("digits"), LONG, 2),
        lambda: cp.split(cp.load_data("digits"), "dirichlet", 2, alpha=LONG),
    ):
        with pytest.raises(CounterpoiseError) as caught:
            give()
        assert len(str(caught.value)) < MOST


# Class names that no file can hold


@pytest.mark.parametrize("name", ["\ud800", "a\x00b", "\x1b[31mred", "line\nbreak", "\x9b"], ids=ascii)
def test_a_class_name_that_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    x, y = np.zeros((20, 3), np.float32), np.arange(20) % 2
    np.savez(tmp_path / "a.npz", x=x, y=y, classes=np.array([name, "b"]))
    given = [f"data={{name='arrays', path='{tmp_path / 'a.npz'}'}}", "model={}", "cohort={}"]
    finished = call("validate", write_tiny(tmp_path), *given)
    assert_refused(finished, 3, "a.npz: the class name", "must be text without control characters")


def test_numbers_that_are_no_characters_are_refused(tmp_path: Path) -> None:
    x, y = np.zeros((20, 3), np.float32), np.arange(20) % 2
    np.savez(tmp_path / "a.npz", x=x, y=y, classes=np.array([0x110000, 98], np.uint32).view("U1"))
    given = [f"data={{name='arrays', path='{tmp_path / 'a.npz'}'}}", "model={}", "cohort={}"]
    assert_refused(call("validate", write_tiny(tmp_path), *given), 3, "a.npz: classes cannot be read")


# Names of files that are no text


def test_folders_whose_names_are_no_text_are_used_and_shown(tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"\xff\xfe")
    strange.mkdir()
    (strange / "t.csv").write_text("a,y\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(40)))
    folder, commands = strange / "run", []
    commands += [["run", write_tiny(tmp_path), "--out", folder], ["resume", folder], ["ls", "runs", strange]]
    commands += [["watch", "--once", strange], ["report", strange], ["diff", folder, folder]]
    commands += [["data", "inspect", strange / "t.csv", "--label", "y", "--picture", strange / "p.png"]]
    for command in commands:
        finished = strictly(*command)
        assert (finished.code, finished.err) == (0, ""), command
    assert "\\xff\\xfe/run" in strictly("ls", "runs", strange).out
    assert_refused(strictly("run", strange / "no.toml"), 2, "\\xff\\xfe/no.toml: No such file or directory")


def strictly(*arguments: object) -> Finished:
    """A command whose output takes text alone, as where the language is not C."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "strict") for _ in range(2))
    given = mock.patch.object(sys, "argv", ["counterpoise", *map(str, arguments)])
    with given, redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
        main()
    texts = [(stream.flush(), stream.buffer.getvalue().decode())[1] for stream in (out, err)]  # type: ignore[attr-defined]
    return Finished(int(end.value.code or 0), *texts)


@pytest.mark.parametrize("name", ["p.jpg", "p.safetensors", "p", "p.exe"])
def test_a_picture_that_cannot_be_drawn_is_refused_before_the_data_is_read(tmp_path: Path, name: str) -> None:
    finished = call("data", "inspect", "digits", "--picture", tmp_path / name)
    assert_refused(finished, 2, "--picture must end in one of .png, .svg", str(tmp_path / name))
    assert not [*tmp_path.iterdir()]


# Memory that runs out


def limited(megabytes: int, *arguments: object) -> Finished:
    """A command that is given so much memory and no more."""
    most = megabytes << 20

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, preexec_fn=limit
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("megabytes", [200, 400, 750])
def test_without_room_for_the_program_memory_is_what_is_told(tmp_path: Path, megabytes: int) -> None:
    finished = limited(megabytes, "run", write_tiny(tmp_path))
    assert_refused(
        finished, 4, "out of memory: the limit (ulimit -v)", "1024 MiB", f"not {megabytes}", "again"
    )
    assert limited(megabytes, "--version").code == 0


def test_without_room_for_the_model_it_is_refused_before_it_is_made(tmp_path: Path) -> None:
    large = write_tiny(tmp_path, "model.hidden=[100000, 100000]")
    finished = limited(6000, "run", large, "--out", tmp_path / "run")
    assert_refused(finished, 2, "model mlp: in training it needs 160.1 GB of memory")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")], ids=repr)
def test_in_the_middle_of_a_run_it_is_told_how_to_go_on(tmp_path: Path, error: Exception) -> None:
    call("run", write_tiny(tmp_path, "rounds=1"), "--out", tmp_path / "run")
    resume_hint = RunFolder(tmp_path / "run").resume_hint
    with (
        pytest.raises(
            RunError, match=f"out of memory; .*; continue with `counterpoise resume {tmp_path}/run`"
        ),
        interruptible(resume_hint),
    ):
        raise error
    with pytest.raises(ZeroDivisionError), interruptible(resume_hint):
        raise ZeroDivisionError


def test_workers_that_run_out_of_memory_leave_the_telling_to_their_parent(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom counterpoise.engines import processes\nfrom counterpoise.cli import main\n"
        "def train_task(*_): raise MemoryError\nprocesses.train_task = train_task\n"
        f"sys.argv = ['counterpoise', 'run', {str(write_tiny(tmp_path))!r}, '--out', {str(tmp_path / 'run')!r},"
        " 'engine.name=loop', 'engine.processes=2']\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    words = ["(out of memory?); engine.processes = 1 needs the least", "counterpoise resume"]
    assert_refused(Finished(done.returncode, done.stdout, done.stderr), 4, *words)
