"""The commands `predict` and `export`: a finished run in use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterpoise.cli.runs import AsJson, percent
from counterpoise.cli.target import check_target, refuse_within_run

if TYPE_CHECKING:
    from counterpoise.trained.predict import Predicted

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
MOST_CLASSES = 30  # whose recall is printed


def add_to(app: typer.Typer) -> None:
    app.command()(predict)
    app.command()(export)


def predict(
    run: Run,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="New data: a table, an .npz, an image or a folder of images."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file to write.")] = Path("predictions.csv"),
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite a file that is there, even if it holds no predictions."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the class and probabilities of every row of a file; a label column, where there is one, gives scores too.

    Data is read as in training: columns in any order, gaps and unseen words as there, pixels as they are. A run with a
    threshold (evaluate.threshold) answers by it, as it was scored.
    """
    from counterpoise.errors import short
    from counterpoise.trained.load import load_run
    from counterpoise.trained.predict import predict_file, write_predictions

    _check_out(out, file, force)
    predicted = predict_file(load_run(run), file)
    write_predictions(predicted, out)
    for note in predicted.given.notes:
        typer.echo(f"note: {note}", err=True)
    if predicted.trained_on:
        typer.echo(
            f"warning: the run was trained on some of these rows, since {short(file)} is its training file: scores on them are no test",
            err=True,
        )
    if as_json:
        facts = {"rows": len(predicted.said.codes), "out": str(out), "trained_on": predicted.trained_on}
        typer.echo(json.dumps(facts | predicted.threshold | predicted.scores(), indent=2))
        return
    _print_predicted(predicted, out)


def _check_out(out: Path, file: Path, force: bool) -> None:
    """Refuse a place whose file would be lost, before anything is worked out."""
    from counterpoise.errors import ConfigError, short
    from counterpoise.trained.predict import holds_predictions

    if out.exists() and file.exists() and out.samefile(file):
        raise ConfigError(f"--out must not be FILE itself, {short(file)}, which would be lost")
    check_target(out)
    refuse_within_run(out)
    if out.exists() and not force and not holds_predictions(out):
        raise ConfigError(
            f"{short(out)} is there already and holds no predictions; --force overwrites it, --out names another file"
        )


def _print_predicted(predicted: Predicted, out: Path) -> None:
    from counterpoise.errors import noun, printable
    from counterpoise.trained.answers import called_from

    rows = len(predicted.said.codes)
    typer.echo(f"{rows:,} {noun(rows, 'row')}: {out}")
    if predicted.decision is not None:
        called = called_from(predicted.decision, predicted.said.classes)
        typer.echo(printable(f"{called}, the threshold that the run chose on validation samples"))
    _print_scores(predicted)


def export(
    run: Run,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder to write.")],
) -> None:
    """Write a run's model for use without this package: ONNX, plain PyTorch, safetensors, inputs as JSON, a model card."""
    from counterpoise.trained.export import export_run
    from counterpoise.trained.load import load_run

    for path in export_run(load_run(run), folder):
        typer.echo(str(path))


def _print_scores(predicted: Predicted) -> None:
    scores = predicted.scores()
    if not scores:
        typer.echo("no labels in it, so no scores")
        return
    named = ("accuracy", "balanced_accuracy", "macro_f1")
    words = ", ".join(f"{key.replace('_', ' ')} {percent(scores[key])}" for key in named)
    typer.echo(f"{scores['samples']:,} labelled: {words}")
    recalls = scores["per_class_recall"]
    for name, recall in list(recalls.items())[:MOST_CLASSES]:
        typer.echo(f"  recall of {name}: {percent(recall) or 'no sample'}")
    if len(recalls) > MOST_CLASSES:
        typer.echo(f"  and {len(recalls) - MOST_CLASSES} more classes; --json has all")
