"""Errors, each with the exit code of the command line, and how they show what was given."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import PurePath

SHOWN_WORDS = 40
FEW_WORDS = 12  # listed even where a near one or a command is named
SHOWN_CHARACTERS = 80  # of a value
SHOWN_OF_A_PATH = 300
SHOWN_OF_A_LINE = 1200
CUT = " ... "  # in the middle of what is too long

# Control characters, bidirectional overrides and lone surrogates; not a tab or a line break.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
OUT_OF_MEMORY = (
    "allocate memory", "out of memory", "bad_alloc", "failed to map segment", "start new thread", "unable to mmap",
)  # fmt: skip
BYTE = 0xDC00  # an undecodable byte of a file name arrives as this plus its value (surrogateescape)


class CounterpoiseError(Exception):
    """Base of every error this package raises on purpose: one line that says what was given and what is needed."""

    exit_code = 4


class ConfigError(CounterpoiseError):
    """A config, an argument or a composition of parts that cannot be used."""

    exit_code = 2


class HookError(ConfigError):
    """A part whose hook fails, changes what it is given, or returns what its callers cannot use."""


class DataError(CounterpoiseError):
    """A file or a row that cannot be used."""

    exit_code = 3


class RunError(CounterpoiseError):
    """A run that stopped before its end and can be resumed."""

    exit_code = 4


class SecurityError(CounterpoiseError):
    """A step that would tell somebody more than the config allows, or a message that was changed on its way."""

    exit_code = 5


def legal_words(word: str, legal: Iterable[str], command: str = "", few: int = FEW_WORDS) -> str:
    """End of an error about an unknown name: the nearest known one, then all where they are few, or the command that lists them."""
    names = sorted({*legal})
    word = shorten(word, SHOWN_CHARACTERS)
    near = get_close_matches(word, names, n=5)
    guess = max(near, key=lambda name: _similarity(name, word), default=None)
    if guess and not command and len(names) > few:
        return f"did you mean {short(guess)}?"
    known = f"`{command}` lists all" if command and len(names) > few else _choices(names)
    return f"did you mean {short(guess)}? {known}" if guess else known


def _choices(names: Sequence[str]) -> str:
    return (
        f"one of {listed(names)}"
        if len(names) > 1
        else f"only {listed(names)}"
        if names
        else "there are none"
    )


def plural(count: int, word: str) -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{count} {noun(count, word)}"


def noun(count: int, word: str) -> str:
    """The word for so many things, without their number."""
    return word if count == 1 else f"{word}s"


def few_digits(number: float, digits: int = 3) -> str:
    """A number by its first digits, large ones whole: ``0.0123``, ``1.5``, ``1,234``, where `g` alone has ``1.23e+03``."""
    text = f"{number:.{digits}g}"
    return f"{number:,.0f}" if "e+" in text else text


def first_few(items: Iterable[object], most: int = 8) -> str:
    """The first few, and how many more."""
    words = [str(item) for item in items]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def listed(words: Sequence[str]) -> str:
    """Names separated by commas; where they are many or long, the first few and their number."""
    shown = [printable(shorten(word, SHOWN_CHARACTERS)) for word in words[:SHOWN_WORDS]]
    while len(shown) > 1 and sum(map(len, shown)) > SHOWN_OF_A_LINE // 2:
        shown.pop()
    rest = f", ... ({len(words):,} in all)" if len(words) > len(shown) else ""
    return ", ".join(shown) + rest


def short(value: object, most: int = SHOWN_CHARACTERS) -> str:
    """A value as every error shows it: its repr, or a path as it is, with the middle cut out where it is long."""
    if isinstance(value, PurePath):
        return printable(shorten(str(value), SHOWN_OF_A_PATH))
    try:
        text = repr(value).replace("\n", " ")  # of arrays and data sets it has lines
    except Exception:  # an integer of too many digits, or a user's object whose repr fails
        return f"a value of type {type(value).__name__}"
    return shorten(printable(text), most)


def shorten(text: str, width: int, cut: str = CUT) -> str:
    """The text with its middle cut out where it is too long: names and paths differ at both ends."""
    if len(text) <= width:
        return text
    kept = max(width - len(cut), 0)
    return (text[: kept - kept // 2] + cut + text[len(text) - kept // 2 :])[:width]


def printable(text: str) -> str:
    """The text with control characters and what cannot be encoded as readable escapes."""
    return UNPRINTABLE.sub(lambda found: _escape(ord(found[0])), text)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means, in any library's words, that memory for data, code or threads ran out."""
    if isinstance(error, CounterpoiseError):  # it already says what is wrong
        return False
    words = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or any(phrase in words for phrase in OUT_OF_MEMORY)
    )


def one_line(message: str) -> str:
    """A message as one line that a terminal can show, whatever was put into it."""
    return shorten(printable(" ".join(message.split())), SHOWN_OF_A_LINE)


def _escape(code: int) -> str:
    return f"\\x{code - BYTE:02x}" if BYTE < code <= BYTE + 0xFF else f"\\u{code:04x}"


def _similarity(name: str, word: str) -> tuple[float, int]:
    """Similarity, then the length of the common prefix: fedcn is fedcm, not fedlc."""
    prefix = next((k for k, (a, b) in enumerate(zip(name, word, strict=False)) if a != b), len(name))
    return SequenceMatcher(None, name, word).ratio(), prefix
