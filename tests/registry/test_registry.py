"""A factory's signature is its schema: what fits is taken, what does not is refused in one line."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.core.method import build_method
from counterpoise.errors import ConfigError
from counterpoise.registry.registry import Registry
from counterpoise.registry.schema import (
    Count,
    Fraction,
    Interval,
    NonNegative,
    Positive,
    ProperFraction,
    Whole,
)

THINGS: Registry[dict[str, Any]] = Registry("thing")


@THINGS.register("sample", paper="Someone 2020", off={"rate": 0.0})
def sample(
    rate: NonNegative = 0.5,
    count: Count = 3,
    rule: Literal["mean", "median"] = "mean",
    sizes: tuple[Count, ...] = (2,),
    limit: Annotated[float, Interval(0, 1, open_low=True)] | None = None,
    on: bool = False,
    title: str = "",
    anything: Any = None,
) -> dict[str, Any]:
    """``rate * count``.

    More words.
    """
    return dict(locals())


@THINGS.register("needy")
def needy(at: list[Whole], share: Fraction) -> dict[str, Any]:
    """Needs both."""
    return dict(locals())


def test_defaults_are_used_and_given_values_taken() -> None:
    built = THINGS.build("sample", {"count": 5, "rule": "median", "limit": 0.5, "on": True})
    assert (built["rate"], built["count"], built["rule"], built["limit"], built["on"]) == (
        0.5,
        5,
        "median",
        0.5,
        True,
    )


def test_values_convert_only_where_nothing_is_lost() -> None:
    built = THINGS.build("sample", {"rate": 2, "sizes": [4, 5], "limit": 1})
    assert isinstance(built["rate"], float)
    assert built["sizes"] == (4, 5)
    assert isinstance(built["limit"], float)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("rate", "0.5"), ("rate", True), ("rate", None), ("rate", -1e-9), ("rate", math.nan), ("rate", [1.0]),
        ("count", 2.0), ("count", True), ("count", 0), ("count", "3"),
        ("rule", "mode"), ("rule", None), ("rule", 0),
        ("sizes", 3), ("sizes", [1.5]), ("sizes", [0]), ("sizes", "12"), ("sizes", [True]),
        ("limit", 0), ("limit", 1.5), ("limit", "none"),
        ("on", 1), ("on", "true"), ("title", 3), ("title", None),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_what_was_given_and_what_is_legal(
    argument: str, value: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        THINGS.build("sample", {argument: value})
    text = str(caught.value)
    inside = value[0] if argument == "sizes" and isinstance(value, list) else None
    place = argument if inside is None else f"{argument}.0"  # of a list, the item that does not fit
    assert text.startswith(f"thing sample: {place} must be ")
    assert text.endswith(f", not {(value if inside is None else inside)!r}")
    assert (
        THINGS.entry("sample").parameters[argument].legal.removeprefix("list of " * (inside is not None))
        in text
    )
    assert "\n" not in text


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["large", "small"])
def test_a_whole_number_too_large_for_a_float_is_refused(value: int) -> None:
    with pytest.raises(ConfigError, match="count must be "):
        THINGS.build("sample", {"count": value})
    with pytest.raises(ConfigError, match="rate must be "):
        THINGS.build("sample", {"rate": value})


def test_infinity_is_outside_of_every_interval_that_is_printed_open_there() -> None:
    for interval in (Interval(0), Interval(), Interval(1, open_low=True)):
        assert str(interval).endswith("inf)")
        assert math.inf not in interval
    assert -math.inf not in Interval(high=3)


def test_legal_values_are_told_in_words() -> None:
    legal = {name: parameter.legal for name, parameter in THINGS.entry("sample").parameters.items()}
    assert legal["rate"] == "a number in [0, inf)"
    assert legal["count"] == "a whole number in [1, inf)"
    assert legal["rule"] == "'mean' or 'median'"
    assert legal["sizes"] == "list of a whole number in [1, inf)"
    assert legal["limit"] == "a number in (0, 1] or none"
    assert legal["on"] == "true or false"
    assert legal["title"] == "a word"


def test_missing_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match=r"^thing needy: share is missing: .* a number in \[0, 1\]$"):
        THINGS.build("needy", {"at": [1]})


def test_near_misses_are_guessed() -> None:
    with pytest.raises(
        ConfigError, match=r"no thing 'smaple'; did you mean 'sample'[?] one of needy, sample"
    ):
        THINGS.build("smaple")
    with pytest.raises(
        ConfigError, match=r"no argument 'cuont'; did you mean 'count'[?] one of anything, count"
    ):
        THINGS.build("sample", {"cuont": 1})
    with pytest.raises(ConfigError, match=r"^no thing 'xyz'; one of needy, sample$"):
        THINGS.entry("xyz")


def test_entries_tell_their_paper_facts_and_rule() -> None:
    entry = THINGS.entry("sample")
    assert (entry.paper, entry.facts["off"], entry.summary) == (
        "Someone 2020",
        {"rate": 0.0},
        "``rate * count``.",
    )
    assert THINGS.names() == ["needy", "sample"]
    assert "sample" in THINGS
    assert "other" not in THINGS


def test_a_name_belongs_to_one_module() -> None:
    registry: Registry[int] = Registry("number")
    registry.register("one")(_named("first.module"))
    registry.register("one")(_named("first.module"))  # the same module again, as on a reload
    with pytest.raises(ConfigError, match=r"number 'one' is registered already, by first\.module"):
        registry.register("one")(_named("second.module"))


def _named(module: str) -> Any:
    def factory() -> int:
        return 1

    factory.__module__ = module
    return factory


def test_modules_are_loaded_once_and_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "lazy_home"
    home.mkdir()
    (home / "__init__.py").touch()
    (home / "inner.py").write_text("import sys\nsys.lazy_loads = getattr(sys, 'lazy_loads', 0) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "lazy_loads", 0, raising=False)
    registry: Registry[int] = Registry("lazy", ["lazy_home"])
    registry.register("a")(_named("m"))
    assert sys.lazy_loads == 0  # type: ignore[attr-defined]
    assert registry.names() == ["a"]
    assert "a" in registry
    assert sys.lazy_loads == 1  # type: ignore[attr-defined]


def test_after_a_module_that_fails_every_question_fails_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "failing_home.py"
    module.write_text("raise ValueError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    registry: Registry[int] = Registry("failing", ["failing_home"])
    registry.register("a")(_named("m"))
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            registry.names()
    module.write_text("")
    assert registry.names() == ["a"]


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        (Interval(0, 1), [0, 0.5, 1], [-1e-300, 1.0000001]),
        (Interval(0, 1, open_low=True), [5e-324, 1], [0]),
        (Interval(0, 1, open_high=True), [0, 1 - 1e-16], [1]),
        (Interval(), [-1e308, 1e308], [math.nan]),
    ],
)
def test_intervals_hold_their_bounds(interval: Interval, inside: list[float], outside: list[float]) -> None:
    assert all(value in interval for value in inside)
    assert not any(value in interval for value in outside)


def test_intervals_print_their_bounds() -> None:
    printed = [
        str(i)
        for i in (Interval(0, 1), Interval(0, open_low=True), Interval(), Interval(2, 3, open_high=True))
    ]
    assert printed == ["[0, 1]", "(0, inf)", "(-inf, inf)", "[2, 3)"]


@given(st.floats(allow_nan=True, allow_infinity=False))
def test_a_number_is_taken_exactly_where_it_lies_inside(value: float) -> None:
    registry: Registry[float] = Registry("number")

    @registry.register("it")
    def it(x: ProperFraction = 0.5, y: Positive = 1.0) -> float:
        """It."""
        return x * y

    for name, inside in (("x", 0 <= value < 1), ("y", value > 0)):
        if inside:
            registry.build("it", {name: value})
        else:
            with pytest.raises(ConfigError, match=f"{name} must be "):
                registry.build("it", {name: value})


def test_numbers_of_a_registry_may_be_bounded_in_size() -> None:
    registry: Registry[float] = Registry("number", largest=1e38)

    @registry.register("it")
    def it(y: Positive = 1.0, z: tuple[float, ...] = (), word: str | float = "") -> float:
        """It."""
        return y

    assert registry.build("it", {"y": 1e38, "z": [-1e38], "word": "x"}) == 1e38
    for arguments in ({"y": 1e39}, {"z": [0.0, -1e39]}, {"word": 1e39}):
        with pytest.raises(ConfigError, match=r"must be .*, at most 1e\+38 in size, not "):
            registry.build("it", arguments)


def test_threads_that_ask_first_at_once_all_find_everything() -> None:
    """In a process of its own, where nothing is loaded yet."""
    program = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from counterpoise.core.method import build_method\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    print({method.name for method in pool.map(build_method, ['scaffold'] * 8)})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'scaffold'}", done.stderr


def renaming(name: str) -> Registry[float]:
    """A registry with one factory whose argument had another name before."""
    things: Registry[float] = Registry("thing")

    @things.register(name, renamed={"server": "server_lr"})
    def step(server_lr: Positive = 1.0) -> float:
        return server_lr

    return things


def test_an_old_argument_name_works_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    things = renaming("warned")
    assert [things.build("warned", {"server": 0.5}) for _ in range(3)] == [0.5] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "thing warned: `server` is called `server_lr` now; the old name goes in the next release"
    ]


def test_the_present_name_of_a_renamed_argument_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert renaming("quiet").build("quiet", {"server_lr": 0.5}) == 0.5
    assert not caplog.records


def test_both_names_of_a_renamed_argument_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^thing both: `server` .*`server_lr`"):
        renaming("both").build("both", {"server": 0.5, "server_lr": 0.5})


def test_a_value_under_an_old_name_is_checked_under_the_new_one() -> None:
    with pytest.raises(ConfigError, match=r"server_lr must be .*, not -1"):
        renaming("checked").build("checked", {"server": -1.0})


def test_an_old_name_is_not_listed() -> None:
    assert list(renaming("listed").entry("listed").parameters) == ["server_lr"]


@pytest.mark.parametrize("name", ["fedavg", "fedavgm", "fedcm", "mofedsam", "scaffold"])
def test_methods_take_the_server_learning_rate_under_both_names(name: str) -> None:
    old, new = (build_method({name: {key: 0.5}}) for key in ("server", "server_lr"))
    assert [part.name for part in old.parts] == [part.name for part in new.parts]
    assert "server_step" in [part.name for part in old.parts]
