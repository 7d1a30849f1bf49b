"""Every form of the table holds the numbers, and text that would break it is escaped."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from made_runs import made_run, paired_runs
from PIL import Image
from rich.console import Console

from counterpoise.report.diagram import draw_ranks
from counterpoise.report.render import (
    latex,
    markdown,
    print_comparison,
    render_csv,
    render_json,
    render_latex,
    render_markdown,
    write_tables,
)
from counterpoise.report.render.layout import show_cell, style_rows
from counterpoise.results.cells import Cell
from counterpoise.results.comparison import Comparison, Labels, compare_results
from counterpoise.results.results import RunResult

SIX = [0.5, 0.51, 0.52, 0.53, 0.54, 0.55]
EVIL = r"a_b & 100% of #1 {x} ~y^z $w$ \input{v} | <p> *s* `t`"


@pytest.fixture
def comparison() -> Comparison:
    """Scaffold better, fedcm worse, each by seven pairs; one run failed."""
    seven = [*SIX, 0.56]
    scores = {
        "fedavg": seven,
        "scaffold": [score + 0.1 + 0.01 * place for place, score in enumerate(seven)],
        "fedcm": [score - 0.1 - 0.01 * place for place, score in enumerate(seven)],
    }
    failed = made_run("moon", finished=False, failure="the disk is full", folder="moon-0")
    return compare_results([*paired_runs(scores), failed])


@pytest.fixture
def evil() -> Comparison:
    """Two problems, and names that no format would like."""
    runs = paired_runs({"fedavg": SIX, "scaffold": SIX, "fedcm": SIX})
    labels = {run.path: Labels(f"{EVIL} {run.seed % 2}", f"{run.method} {EVIL}") for run in runs}
    return compare_results(runs, labels=labels, baseline=f"fedavg {EVIL}")


@pytest.fixture
def empty() -> Comparison:
    return compare_results([made_run(finished=False)])


def terminal(comparison: Comparison, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_comparison(comparison, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("values", "column", "text"),
    [
        ((0.5, 0.6, 0.7), "accuracy", "60.0 ± 10.0"),
        ((0.5,), "tail", "50.0"),
        ((0.5, None), "tail", "50.0 (1/2)"),
        ((None,), "tail", "n/a"),
        ((None,), "rounds_to_target", "never"),
        ((12.0, 14.0, None), "rounds_to_target", "13.0 ± 1.4 (2/3)"),
        ((2_500_000,), "bytes", "2.50"),
        ((31.26,), "seconds", "31.3"),
    ],
)
def test_cells_as_text(values: tuple[float | None, ...], column: str, text: str) -> None:
    assert show_cell(Cell(values), column) == text


def test_markdown_marks_the_best_and_the_verdicts(comparison: Comparison) -> None:
    lines = {
        line.split("|")[1].strip(): line for line in render_markdown(comparison).split("\n\n")[1].splitlines()
    }
    cells = [cell.strip() for cell in lines["scaffold"].split("|")]
    assert cells[3:5] == ["**66.0 ± 4.3**", "**66.0 ± 4.3**†"]
    assert re.search(r"40\.0 ± 0\.0‡", lines["fedcm"])
    assert "†" not in lines["fedavg"]
    assert "**" not in lines["fedavg"]


def best_at(column: str, *runs: RunResult) -> list[str]:
    """Methods that stand out in a column."""
    found = compare_results(runs, target=0.8)
    styled = style_rows(found, found.rows, [column])
    return [row.method for row, (cell,) in zip(found.rows, styled, strict=True) if cell.best]


def test_the_quickest_stands_out_if_it_reaches_the_target_with_every_seed() -> None:
    slow = made_run("fedavg", 0, [0.1, 0.9]), made_run("fedavg", 1, [0.1, 0.9])
    quick = made_run("scaffold", 0, [0.9, 0.9])
    assert best_at("rounds_to_target", *slow, quick, made_run("scaffold", 1, [0.8, 0.9])) == ["scaffold"]
    assert best_at("rounds_to_target", *slow, quick, made_run("scaffold", 1, [0.1, 0.1])) == ["fedavg"]


def test_nothing_stands_out_where_all_are_alike() -> None:
    runs = made_run("fedavg", 0, 0.5), made_run("scaffold", 0, 0.5)
    assert best_at("accuracy", *runs) == []
    assert best_at("accuracy", *runs, made_run("fedcm", 0, 0.4)) == ["fedavg", "scaffold"]


def test_markdown_opens_with_what_to_use(comparison: Comparison) -> None:
    assert render_markdown(comparison).splitlines()[0] == (
        "Use scaffold: balanced accuracy +13.0 points against fedavg (95 % interval +10.0 to +16.0);"
        " gains 13.0 points of accuracy, the same time, the same traffic."
        " Confidence: high, since the difference is significant after Holm's correction over 7 pairs."
    )


def test_markdown_has_the_verdicts_in_one_table_and_ends_with_what_was_left_out(
    comparison: Comparison,
) -> None:
    text = render_markdown(comparison)
    [table] = [block for block in text.split("\n\n") if block.startswith("| method") and "| verdict" in block]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert cells[0] == ["method", "verdict", "points", "95 % interval", "pairs", "p", "after Holm"]
    assert cells[2] == ["scaffold", "better", "+13.0", "+10.0 to +16.0", "7", "0.016", "0.031"]
    assert [line[0] for line in cells[2:]] == [verdict.method for verdict in comparison.verdicts]
    assert "- Average ranks over 7 blocks (seeds): scaffold 1.00, fedavg 2.00, fedcm 3.00." in text
    assert "- Left out: runs/moon-0: the disk is full" in text


@pytest.mark.parametrize("name", ["comparison", "evil", "empty"])
def test_markdown_tables_have_as_many_cells_in_every_line(name: str, request: pytest.FixtureRequest) -> None:
    text = render_markdown(request.getfixturevalue(name))
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    for block in tables:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1
    assert bool(tables) == (name != "empty")


def test_markdown_shows_names_as_they_are() -> None:
    assert markdown.escape("a|b *c* `d` <e>\nf") == r"a\|b \*c\* \`d\` \<e> f"


def test_latex_marks_the_best_and_the_verdicts(comparison: Comparison) -> None:
    text = render_latex(comparison)
    assert r"scaffold & \textbf{66.0 $\pm$ 4.3} & \textbf{66.0 $\pm$ 4.3}$^\dagger$ &" in text
    assert r"$^\ddagger$" in text.split(r"\midrule")[1].split(r"\bottomrule")[0]


def test_latex_caption_states_score_moment_seeds_and_test(comparison: Comparison) -> None:
    caption = re.search(r"\\caption\{(.*)\}", render_latex(comparison))
    assert caption is not None
    for words in (
        "balanced accuracy",
        "after the last round",
        "7 seeds",
        "Wilcoxon",
        "Holm",
        r"5 \%",
        "fedavg",
    ):
        assert words in caption[1]


@pytest.mark.parametrize("name", ["comparison", "evil", "empty"])
def test_latex_is_well_formed(name: str, request: pytest.FixtureRequest) -> None:
    text = render_latex(request.getfixturevalue(name))
    body = text.split("\n", 1)[1]
    bare = re.sub(r"\\[\\{}$&#%_]", "", body)  # without what is escaped
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    for sign in "#%_~|<>":
        assert sign not in bare
    opened, closed = (re.findall(rf"\\{word}\{{(\S+?)\}}", body) for word in ("begin", "end"))
    assert sorted(opened) == sorted(closed) == ["table*"] * 2 + ["tabular"] * 2
    for table in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", body, re.S):
        columns, lines = table
        for line in lines.splitlines():
            if line.endswith(r"\\") and "multicolumn" not in line:
                assert len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1


def test_latex_escapes_every_special_character() -> None:
    assert latex.escape(r"50% a_b & #1 {x} \y") == r"50\% a\_b \& \#1 \{x\} \textbackslash{}y"
    assert latex.escape("~^$") == r"\textasciitilde{}\textasciicircum{}\$"


def test_csv_keeps_full_precision(comparison: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(comparison))))
    assert [row["method"] for row in rows] == ["fedavg", "scaffold", "fedcm"]
    for row, known in zip(rows, comparison.rows, strict=True):
        for column, cell in known.cells.items():
            assert (float(row[column]) if row[column] else None) == cell.mean
            assert int(row[f"{column}_seeds"]) == len(cell.known)
        assert row["seeds"] == "0 1 2 3 4 5 6"
    verdict = comparison.verdicts[0]
    assert verdict.interval is not None
    assert float(rows[1]["p"]) == verdict.p
    assert float(rows[1]["interval_low"]) == verdict.interval[0]
    assert float(rows[1]["rank_biserial"]) == 1
    assert (rows[0]["verdict"], rows[1]["verdict"], rows[2]["verdict"]) == ("", "better", "worse")
    assert rows[0]["rounds_to_target"] == ""


def test_json_holds_everything(comparison: Comparison) -> None:
    content = json.loads(render_json(comparison))
    assert list(content) == list(Comparison._fields)
    assert content["rows"][1]["cells"]["tail"]["values"] == list(comparison.rows[1].cells["tail"].values)
    assert content["verdicts"][0]["sentence"] == comparison.verdicts[0].sentence
    assert content["ranking"]["methods"] == ["scaffold", "fedavg", "fedcm"]
    assert content["ranking"]["iman_davenport"] is None
    assert content["failures"] == [{"path": "runs/moon-0", "error": "the disk is full"}]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("name", ["comparison", "evil", "empty"])
def test_the_terminal_is_not_overrun(name: str, width: int, request: pytest.FixtureRequest) -> None:
    assert max(map(len, terminal(request.getfixturevalue(name), width).splitlines())) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_cuts_no_number(comparison: Comparison, width: int) -> None:
    text = terminal(comparison, width)
    assert "…" not in text
    for number in ("66.0", "±4.3", "†", "‡", "never"):
        assert number in text
    assert "+10.0 to +16.0" in text
    assert " ".join(comparison.recommendations[0].paragraph.split()) in " ".join(text.split())


def test_everything_is_written(comparison: Comparison, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tables"
    written = write_tables(comparison, folder)
    assert [path.name for path in written] == [
        "table.md",
        "table.tex",
        "table.csv",
        "table.json",
        "ranks.png",
        "ranks.svg",
    ]
    assert sorted(folder.iterdir()) == sorted(written)
    assert (folder / "ranks.svg").read_text().lstrip().startswith("<?xml")


def test_without_a_ranking_no_picture_of_an_earlier_one_stays(comparison: Comparison, tmp_path: Path) -> None:
    write_tables(comparison, tmp_path)
    written = write_tables(compare_results([made_run()]), tmp_path)
    assert [path.name for path in written] == ["table.md", "table.tex", "table.csv", "table.json"]
    assert sorted(tmp_path.iterdir()) == sorted(written)


@pytest.mark.parametrize("name", ["ranks.png", "ranks.svg"])
def test_the_same_ranks_give_the_same_picture(comparison: Comparison, tmp_path: Path, name: str) -> None:
    assert comparison.ranking is not None
    for folder in ("one", "two"):
        draw_ranks(comparison.ranking, tmp_path / folder / name, "tail")
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_pictures_take_names_as_they_are_and_grow_with_them(
    evil: Comparison, comparison: Comparison, tmp_path: Path
) -> None:
    sizes = []
    for place, found in enumerate((comparison, evil)):
        assert found.ranking is not None
        draw_ranks(found.ranking, tmp_path / f"{place}.png", found.score)
        with Image.open(tmp_path / f"{place}.png") as image:
            sizes.append(image.size)
    assert sizes[0][0] < sizes[1][0] < 3000


def with_positive(run: RunResult) -> RunResult:
    found = {"positive_recall": 0.625, "positive_precision": 0.375, "threshold_recall": 0.875}
    return run._replace(rows=[row | found for row in run.rows])


def test_the_class_to_find_has_columns_where_a_run_has_one() -> None:
    runs = paired_runs({"fedavg": SIX, "scaffold": SIX})
    plain, found = compare_results(runs), compare_results([with_positive(runs[0]), *runs[1:]])
    assert "positive" not in render_markdown(plain) + render_csv(plain)
    assert "| positive recall | positive precision | threshold recall |" in render_markdown(found)
    assert "threshold precision" not in render_markdown(found)
    assert "62.5 (1/6)" in render_markdown(found)
    assert "positive_recall" in render_csv(found)
