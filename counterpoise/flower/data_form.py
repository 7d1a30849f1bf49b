"""What every client's data must look like: as the server sends it, and as a config describes it without data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from counterpoise.data.dataset import Scaling, no_scaling, pixel_scaling, whole_scaling
from counterpoise.data.faults import MAX_CATEGORIES, MAX_NUMBER
from counterpoise.data.form import IMAGE_DIMENSIONS, DataForm, form_from_json
from counterpoise.data.tables.encoder import Encoder, Number
from counterpoise.errors import ConfigError, DataError, short
from counterpoise.registry.registry import Entry
from counterpoise.registry.schema import Count

NAME = "described"
PAIR = 2  # mean and deviation
BYTE = 255
MAX_TEXT = 16 << 20  # characters of a form


def form_text(form: DataForm) -> str:
    """The form as the server sends it: all that clients learn of the server's own data."""
    text = json.dumps(form.to_json())
    if len(text) > MAX_TEXT:
        raise DataError(f"the form of the data takes {len(text):,} characters; at most {MAX_TEXT:,}")
    return text


def read_form(text: str) -> DataForm:
    """Parse the form that a server sent; a damaged, hostile or incompatible one is a DataError."""
    if len(text) > MAX_TEXT:
        raise _bad(f"has {len(text):,} characters; at most {MAX_TEXT:,}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("is not JSON") from None
    return form_from_json(found, _bad)


def _bad(words: str) -> DataError:
    return DataError(f"the server's description of the data {words}; is it of another version?")


def described(
    classes: list[str],
    label: str | None = None,
    numbers: dict[str, Any] | None = None,
    words: dict[str, Any] | None = None,
    shape: list[Count] | None = None,
    mean: list[float] | None = None,
    deviation: list[float] | None = None,
    whole: bool = False,
) -> DataForm:
    """Of a table: label, numbers = { name = [mean, deviation] } and words = { name = [word, ...] }; of a number with missing values
    [mean, deviation, their replacement], which adds an input that marks them; else the shape of a sample, and of images
    the mean and deviation of each channel's pixels in [0, 1]; whole: inputs are whole numbers, such as token ids, and stay so."""
    if len(classes) < PAIR or len(set(classes)) < len(classes):
        raise ConfigError(f"data.classes must be two or more names that differ, not {short(classes)}")
    if whole and (shape is None or mean or deviation):
        raise ConfigError("data.whole = true needs data.shape, and neither columns nor mean and deviation")
    if shape is None:
        return _table(tuple(classes), label, numbers or {}, words or {})
    if label or numbers or words:
        raise ConfigError("data.shape must not stand beside label, numbers or words, which describe a table")
    plain = whole_scaling() if whole else no_scaling()
    scaling = _pixels(shape, mean, deviation) if mean or deviation else plain
    return DataForm(tuple(classes), tuple(shape), bool(mean), scaling)


def _pixels(shape: list[int], mean: list[float] | None, deviation: list[float] | None) -> Scaling:
    image = len(shape) == IMAGE_DIMENSIONS
    channels = shape[0] if image else 1
    if not mean or not deviation or not len(mean) == len(deviation) == channels or min(deviation) <= 0:
        raise ConfigError(
            f"data.mean and data.deviation must be {channels} numbers each, deviations above 0, not {short(mean)} and {short(deviation)}"
        )
    scaling = pixel_scaling(tuple(mean), tuple(deviation))
    return scaling if image else Scaling(*(tensor.view(()) for tensor in scaling))


def _table(
    classes: tuple[str, ...], label: str | None, numbers: dict[str, Any], words: dict[str, Any]
) -> DataForm:
    if label is None or not numbers.keys() | words.keys():
        raise ConfigError(
            "data.shape is missing; needs the shape of a sample, or of a table label, numbers and words"
        )
    for name in [*numbers.keys() & words.keys(), *({label} & (numbers.keys() | words.keys()))]:
        raise ConfigError(f"data describes column {name!r} twice; it must be the label, a number or words")
    fitted = {name: _read_moments(name, given) for name, given in numbers.items()}
    kinds = {name: _read_kinds(name, given) for name, given in words.items()}
    columns = Encoder(fitted, kinds)
    return DataForm(classes, (columns.width,), False, no_scaling(), label, columns)


def _read_kinds(name: str, given: Any) -> tuple[str, ...]:
    words = isinstance(given, list) and all(isinstance(word, str) for word in given)
    if not words or not 0 < len(set(given)) == len(given) <= MAX_CATEGORIES + 1:
        needed = f"a list of up to {MAX_CATEGORIES:,} words that differ"
        raise ConfigError(f"data.words.{name} must be {needed}, not {short(given)}")
    return tuple(given)


def _read_moments(name: str, given: Any) -> Number:
    """A missing value is filled with the mean, unless a third number is given."""
    fits = isinstance(given, list) and len(given) in (PAIR, PAIR + 1)
    if not fits or not all(map(_is_number, given)) or not given[1] > 0:
        raise ConfigError(
            f"data.numbers.{name} must be [mean, deviation], the deviation above 0, or [mean, deviation, gap], not {short(given)}"
        )
    mean, deviation, gap = map(float, (*given, given[0])[: PAIR + 1])
    return Number(0.0, gap, mean, deviation, flagged=len(given) > PAIR)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MAX_NUMBER


DESCRIBED = Entry(NAME, described)


def read_description(arguments: Mapping[str, Any]) -> DataForm:
    """The form that a config describes, if clients will take it."""
    form = DESCRIBED.build(arguments, owner="data")
    return form_from_json(form.to_json(), lambda words: ConfigError(f"data, as it is described, {words}"))


def to_config(form: DataForm) -> dict[str, Any]:
    """The form as values of [data], which a server's config takes instead of a file."""
    found: dict[str, Any] = {"name": NAME, "classes": list(form.classes)}
    if form.columns is not None:
        numbers = {name: _moments(number) for name, number in form.columns.numbers.items()}
        words = {name: list(kinds) for name, kinds in form.columns.words.items()}
        return {**found, "label": form.label, "numbers": numbers, "words": words}
    found |= {"shape": list(form.shape)} | ({"whole": True} if form.scaling.whole else {})
    if form.pixels:
        deviation = 1 / (BYTE * form.scaling.scale.double())
        mean = -form.scaling.shift.double() * deviation
        found |= {"mean": mean.flatten().tolist(), "deviation": deviation.flatten().tolist()}
    return found


def _moments(number: Number) -> list[float]:
    gap = [number.centre + number.gap] if number.flagged else []
    return [number.centre + number.mean, number.deviation, *gap]
