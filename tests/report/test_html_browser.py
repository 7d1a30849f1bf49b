"""The report at work in a real browser; skipped where there is no Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, chromium

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt install chromium)"
)

TABLE = "#table table"
CURVES = "[data-chart=curves]"
TIP = f"{CURVES} .tip"
EVIL_CLASS = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    """The page on a desktop; no test may leave a complaint or a request behind."""
    browser.open(page)
    yield browser
    assert browser.messages == []
    assert browser.requests == [page.resolve().as_uri()]


def names_in(browser: Browser) -> list[str]:
    return list(
        browser.ask(
            f"[...document.querySelectorAll('{TABLE} tbody')[0].rows].map(r => r.cells[0].innerText.trim())"
        )
    )


def column(browser: Browser, title: str) -> int:
    titles = browser.ask(
        f"[...document.querySelector('{TABLE}').tHead.rows[0].cells].map(c => c.innerText.trim())"
    )
    return int(next(place for place, text in enumerate(titles) if text.startswith(title)))


def values_in(browser: Browser, place: int) -> list[float]:
    return list(
        browser.ask(
            f"[...document.querySelector('{TABLE}').tBodies[0].rows].map(r => +r.cells[{place}].dataset.value)"
        )
    )


def title(place: int) -> str:
    return f"{TABLE} thead th:nth-child({place + 1})"


def test_a_click_on_a_title_sorts_and_another_turns_it_round(opened: Browser) -> None:
    tail = column(opened, "Tail")
    for order in ("descending", "ascending"):
        opened.click(f"{title(tail)} button")
        assert opened.ask(f"document.querySelector('{title(tail)}').getAttribute('aria-sort')") == order
        values = values_in(opened, tail)
        assert values == sorted(values, reverse=order == "descending")
    assert opened.ask(f"document.querySelectorAll('{TABLE} [aria-sort=none]').length") > 3


def test_the_keyboard_sorts_too(opened: Browser) -> None:
    opened.ask(f"document.querySelector('{title(0)} button').focus()")
    opened.press("Enter")
    assert names_in(opened) == sorted(names_in(opened))
    before = names_in(opened)
    opened.press("Enter")
    assert names_in(opened) == before[::-1]


def test_hiding_a_method_takes_its_curve_away_everywhere(opened: Browser) -> None:
    line = f"{CURVES} svg [data-method='1'] .line"
    bar = "[data-chart=groups] svg [data-method='1'] .bar"
    assert opened.ask(f"document.querySelectorAll(`{line}`).length") == 1
    opened.click(f"{CURVES} .legend button:nth-child(2)")
    assert opened.ask(f"document.querySelectorAll(`{line}`).length") == 0
    assert opened.ask(f"document.querySelectorAll(`{bar}`).length") == 0
    assert (
        opened.ask(f"document.querySelector('{CURVES} .legend button:nth-child(2)').ariaPressed") == "false"
    )
    opened.press("Enter")  # the button still has the focus
    assert opened.ask(f"document.querySelectorAll(`{line}`).length") == 1


def test_another_score_is_drawn_when_chosen(opened: Browser) -> None:
    line = f"document.querySelector(`{CURVES} svg [data-method='0'] .line`).getAttribute('d')"
    before = opened.ask(line)
    opened.ask(
        f"(() => {{ const s = document.querySelector('{CURVES} select'); s.selectedIndex = s.length - 1;"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert "Cross-entropy of the scored samples" in opened.ask(
        f"document.querySelector('{CURVES} .note').textContent"
    )
    assert opened.ask(line) != before


def test_values_appear_under_the_mouse(opened: Browser) -> None:
    assert opened.ask(f"document.querySelector('{TIP}').hidden")
    opened.hover(*opened.middle(f"{CURVES} .plot > svg"))
    shown = opened.ask(f"document.querySelector('{TIP}').innerText")
    assert shown.startswith("Round ")
    assert "fedavgm" in shown
    assert "%" in shown
    opened.hover(1, 1)
    assert opened.ask(f"document.querySelector('{TIP}').hidden")


def test_values_appear_by_the_keyboard_and_are_spoken(opened: Browser) -> None:
    opened.middle(f"{CURVES} .plot > svg")
    opened.ask(f"document.querySelector('{CURVES} .legend button:last-of-type').focus()")
    opened.press("Tab")
    spoken = f"document.querySelector('{CURVES} [aria-live]').textContent"
    assert opened.ask(f"document.querySelector('{TIP}').hidden") is False
    assert opened.ask(spoken).startswith("Round 6")
    opened.press("ArrowLeft")
    assert opened.ask(spoken).startswith("Round 4")
    opened.press("Escape")
    assert opened.ask(f"document.querySelector('{TIP}').hidden")


def test_every_kind_of_diagnostic_is_drawn_when_the_reader_comes_near(opened: Browser) -> None:
    assert opened.ask("document.querySelectorAll('[data-chart=diagnostics] .plot svg').length") == 0
    opened.middle("[data-chart=diagnostics]")
    opened.resize(1279, 900)
    drawn = opened.ask(
        "[...document.querySelectorAll('[data-chart=diagnostics] figure')]"
        ".map(f => [f.querySelector('h3').textContent, f.querySelectorAll('svg .line, svg .cell').length])"
    )
    assert {words.partition(" ·")[0]: count > 0 for words, count in drawn} == {
        "Norm of the server's momentum": True,
        "Rounds so far": True,
        "Weights of classes": True,
        "Who hears whom": True,
        "What was tried": True,
    }
    assert opened.ask("document.querySelectorAll('[data-chart=diagnostics] .edge').length") == 4


def test_every_chart_has_its_numbers_as_a_table(opened: Browser) -> None:
    opened.middle("[data-chart=diagnostics]")
    opened.resize(1280, 900)
    opened.ask("document.querySelectorAll('.numbers').forEach(d => { d.open = true; })")
    opened.resize(1279, 900)  # lets the event of opening pass
    counts = opened.ask(
        "[...document.querySelectorAll('figure')].map(f => [f.querySelectorAll('.numbers caption').length,"
        "f.querySelectorAll('.numbers tbody tr').length])"
    )
    assert len(counts) >= 9
    assert all(captions == 1 and rows > 0 for captions, rows in counts)


def test_a_name_that_attacks_is_only_text(opened: Browser) -> None:
    assert opened.ask("document.scripts.length") == 2
    opened.ask("document.querySelector('[data-chart=recall] .plot svg').focus()")
    opened.ask("document.querySelector('[data-chart=recall] .numbers').open = true")
    opened.resize(1279, 900)
    names = opened.ask(
        "[...document.querySelectorAll('[data-chart=recall] .numbers tbody th')].map(t => t.textContent)"
    )
    assert EVIL_CLASS in names


@pytest.mark.parametrize("width", [360, 390, 768, 1920])
def test_no_width_makes_the_page_scroll_sideways(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width, 780)
    assert browser.ask("document.documentElement.scrollWidth") == width
    assert browser.messages == []


def test_dark_and_light_follow_the_reader(browser: Browser, page: Path) -> None:
    grounds = []
    for dark in (False, True):
        browser.open(page, dark=dark)
        grounds.append(
            browser.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        )
    assert min(grounds[0]) > 240
    assert max(grounds[1]) < 40


def test_on_paper_everything_is_open_and_nothing_is_left_to_press(opened: Browser, tmp_path: Path) -> None:
    opened.ask(
        "addEventListener('beforeprint', () => { window.seen = [...document.querySelectorAll('.run')].every(d => d.open); })"
    )
    opened.paper(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert opened.ask("window.seen")
    assert opened.ask("document.querySelectorAll('.run[open]').length") == 0  # closed again afterwards
    opened.send("Emulation.setEmulatedMedia", media="print")
    assert opened.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    opened.send("Emulation.setEmulatedMedia", media="")


def test_without_a_script_the_tables_and_the_text_are_there(browser: Browser, page: Path) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        text = browser.ask("document.body.innerText")
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert "fedavgm" in text
    assert "This chart is drawn by a script" in text
    assert "Each method minus fedavg in balanced accuracy" in text


def test_tail_and_worst_class_are_on_the_first_screen_of_a_browser(opened: Browser) -> None:
    for name in ("Tail", "Worst class"):
        place = title(column(opened, name))
        assert opened.ask(f"document.querySelector('{place}').getBoundingClientRect().right") <= 1280
