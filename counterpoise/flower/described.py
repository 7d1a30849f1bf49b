"""The form of clients' data in the words of a config, for a server that has no data of its own."""

from __future__ import annotations

from typing import Any

from counterpoise.data.dataset import Scaling, no_scaling, pixel_scaling
from counterpoise.data.faults import brief
from counterpoise.data.limits import MAX_CATEGORIES, MAX_NUMBER
from counterpoise.data.tables.encoder import Encoder, Number
from counterpoise.errors import ConfigError
from counterpoise.flower.data_form import Form
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
    """Of a table: label, numbers = { name = [mean, deviation] } and words = { name = [word, ...] }; of a number with gaps
    [mean, deviation, what stands for a gap], which adds an input that marks them; else the shape of a sample, and of images
    the mean and deviation of each channel's pixels in [0, 1]."""
    if len(classes) < PAIR or len(set(classes)) < len(classes):
        raise ConfigError(f"data.classes = {classes} is not legal; legal: two or more names that differ")
    if shape is None:
        return _table(tuple(classes), label, numbers or {}, words or {})
    if label or numbers or words:
        raise ConfigError("data.shape is not legal with label, numbers or words, which describe a table")
    scaling = _pixels(shape, mean, deviation) if mean or deviation else no_scaling()
    return Form(tuple(classes), tuple(shape), bool(mean), scaling)


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
    for name in [*numbers.keys() & words.keys(), *({label} & (numbers.keys() | words.keys()))]:
        raise ConfigError(f"data describes column {name!r} twice; legal: a label, a number or words")
    fitted = {name: _number(name, given) for name, given in numbers.items()}
    kinds = {name: _words(name, given) for name, given in words.items()}
    columns = Encoder(fitted, kinds)
    return Form(classes, (columns.width,), False, no_scaling(), label, columns)


def _words(name: str, given: Any) -> tuple[str, ...]:
    words = isinstance(given, list) and all(isinstance(word, str) for word in given)
    if not words or not 0 < len(set(given)) == len(given) <= MAX_CATEGORIES + 1:
        legal = f"a list of up to {MAX_CATEGORIES:,} words that differ"
        raise ConfigError(f"data.words.{name} = {brief(given)} is not legal; legal: {legal}")
    return tuple(given)


def _number(name: str, given: Any) -> Number:
    """A gap is filled with the mean, unless something else is given for it."""
    fits = isinstance(given, list) and len(given) in (PAIR, PAIR + 1)
    if not fits or not all(map(_is_number, given)) or not given[1] > 0:
        raise ConfigError(
            f"data.numbers.{name} = {brief(given)} is not legal; legal: [mean, deviation], the deviation above 0, or [mean, deviation, gap]"
        )
    mean, deviation, gap = map(float, (*given, given[0])[: PAIR + 1])
    return Number(0.0, gap, mean, deviation, flagged=len(given) > PAIR)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MAX_NUMBER


DESCRIBED = Entry(NAME, described)


def in_words(form: Form) -> dict[str, Any]:
    """The arguments that describe a form: what the server's config takes instead of a file."""
    found: dict[str, Any] = {"name": NAME, "classes": list(form.classes)}
    if form.columns is not None:
        numbers = {name: _in_words(number) for name, number in form.columns.numbers.items()}
        words = {name: list(kinds) for name, kinds in form.columns.words.items()}
        return {**found, "label": form.label, "numbers": numbers, "words": words}
    found["shape"] = list(form.shape)
    if form.pixels:
        deviation = 1 / (BYTE * form.scaling.scale.double())
        mean = -form.scaling.shift.double() * deviation
        found |= {"mean": mean.flatten().tolist(), "deviation": deviation.flatten().tolist()}
    return found


def _in_words(number: Number) -> list[float]:
    gap = [number.centre + number.gap] if number.flagged else []
    return [number.centre + number.mean, number.deviation, *gap]
