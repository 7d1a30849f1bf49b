"""The form of clients' data in the words of a config, for a server that has no data of its own."""

from __future__ import annotations

from typing import Any

from counterpoise.data.dataset import Scaling, no_scaling, pixel_scaling
from counterpoise.errors import ConfigError
from counterpoise.flower.data_form import Form
from counterpoise.flower.own_columns import Columns, Number
from counterpoise.registry.registry import Entry
from counterpoise.registry.schema import Count

NAME = "described"
PAIR = 2  # mean and deviation
BYTE = 255
IMAGE_DIMENSIONS = 3  # channels, height, width


def described(
    classes: list[str],
    label: str | None = None,
    numbers: dict[str, Any] | None = None,
    words: dict[str, Any] | None = None,
    shape: list[Count] | None = None,
    mean: list[float] | None = None,
    deviation: list[float] | None = None,
) -> Form:
    """Of a table: label, numbers = { name = [mean, deviation] } and words = { name = [word, ...] }; else the shape of a
    sample, and of images the mean and deviation of each channel's pixels in [0, 1]."""
    if len(classes) < PAIR or len(set(classes)) < len(classes):
        raise ConfigError(f"data.classes = {classes} is not legal; legal: two or more names that differ")
    if shape is None:
        return _table(tuple(classes), label, numbers or {}, words or {})
    if label or numbers or words:
        raise ConfigError("data.shape is not legal with label, numbers or words, which describe a table")
    scaling = _pixels(shape, mean, deviation) if mean or deviation else no_scaling()
    return Form(tuple(classes), tuple(shape), bool(mean), scaling, None)


def _pixels(shape: list[int], mean: list[float] | None, deviation: list[float] | None) -> Scaling:
    image = len(shape) == IMAGE_DIMENSIONS
    channels = shape[0] if image else 1
    if not mean or not deviation or not len(mean) == len(deviation) == channels or min(deviation) <= 0:
        raise ConfigError(
            f"data.mean = {mean} and data.deviation = {deviation} are not legal; legal: {channels} each, deviations above 0"
        )
    scaling = pixel_scaling(tuple(mean), tuple(deviation))
    return scaling if image else Scaling(*(tensor.view(()) for tensor in scaling))


def _table(
    classes: tuple[str, ...], label: str | None, numbers: dict[str, Any], words: dict[str, Any]
) -> Form:
    if label is None or not numbers.keys() | words.keys():
        raise ConfigError(
            "data.shape is missing; legal: the shape of a sample, or of a table label, numbers and words"
        )
    fitted = {name: _number(name, given) for name, given in numbers.items()}
    for name, given in words.items():
        if not given or not isinstance(given, list) or not all(isinstance(word, str) for word in given):
            raise ConfigError(f"data.words.{name} = {given!r} is not legal; legal: a list of words")
    columns = Columns(label, fitted, words)
    return Form(classes, (columns.width,), False, no_scaling(), columns)


def _number(name: str, given: Any) -> Number:
    """A gap is filled with the mean."""
    pair = isinstance(given, list) and len(given) == PAIR and all(isinstance(v, int | float) for v in given)
    if not pair or not given[1] > 0:
        raise ConfigError(
            f"data.numbers.{name} = {given!r} is not legal; legal: [mean, deviation], the deviation above 0"
        )
    return Number(float(given[0]), float(given[0]), float(given[1]))


DESCRIBED = Entry(NAME, described)


def in_words(form: Form) -> dict[str, Any]:
    """The arguments that describe a form: what the server's config takes instead of a file."""
    found: dict[str, Any] = {"name": NAME, "classes": list(form.classes)}
    if form.columns is not None:
        numbers = {name: [number.mean, number.deviation] for name, number in form.columns.numbers.items()}
        return {**found, "label": form.columns.label, "numbers": numbers, "words": form.columns.words}
    found["shape"] = list(form.shape)
    if form.pixels:
        deviation = 1 / (BYTE * form.scaling.scale.double())
        mean = -form.scaling.shift.double() * deviation
        found |= {"mean": mean.flatten().tolist(), "deviation": deviation.flatten().tolist()}
    return found
