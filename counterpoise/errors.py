"""What can go wrong, each with the exit code of the command line."""

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

# What moves the cursor, colours or reorders text on a terminal, and what is no text at all; not a tab or a line break.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
OUT_OF_MEMORY = (
    "allocate memory", "out of memory", "bad_alloc", "failed to map segment", "start new thread", "unable to mmap",
)  # fmt: skip
BYTE = 0xDC00  # a byte of a file name that is no text arrives as this and its value


class CounterpoiseError(Exception):
    """Base of every error this package raises on purpose: one line that says what was given and what is legal."""

    exit_code = 4


class ConfigError(CounterpoiseError):
    """A config, an argument or a composition of parts that is not legal."""

    exit_code = 2


class DataError(CounterpoiseError):
    """A file or a row that cannot be used."""

    exit_code = 3


class RunError(CounterpoiseError):
    """A run that stopped before its end and can be resumed."""

    exit_code = 4


def legal_words(word: str, legal: Iterable[str], command: str = "") -> str:
    """End of a sentence about a wrong word: the nearest legal one, then all where they are few, or the command that lists them."""
    names = sorted({*legal})
    word = shorten(word, SHOWN_CHARACTERS)
    near = get_close_matches(word, names, n=5)
    guess = max(near, key=lambda name: _nearness(name, word), default=None)
    if guess and not command and len(names) > FEW_WORDS:
        return f"did you mean {short(guess)}?"
    known = f"`{command}` lists all" if command and len(names) > FEW_WORDS else f"legal: {listed(names)}"
    return f"did you mean {short(guess)}? {known}" if guess else known


def listed(words: Sequence[str]) -> str:
    """Words between commas; of thousands, or of very long ones, the first few and their number."""
    shown = [printable(shorten(word, SHOWN_CHARACTERS)) for word in words[:SHOWN_WORDS]]
    while len(shown) > 1 and sum(map(len, shown)) > SHOWN_OF_A_LINE // 2:
        shown.pop()
    rest = f", ... ({len(words):,} in all)" if len(words) > len(shown) else ""
    return ", ".join(shown) + rest


def short(value: object, most: int = SHOWN_CHARACTERS) -> str:
    """What was given, as every error shows it: in quotes, but for a path, and without its middle where it is long."""
    if isinstance(value, PurePath):
        return printable(shorten(str(value), SHOWN_OF_A_PATH))
    try:
        text = repr(value)
    except Exception:  # such as a number of too many digits, or whatever an object of the user's raises
        return f"a value of type {type(value).__name__}"
    return shorten(printable(text), most)


def shorten(text: str, width: int, cut: str = CUT) -> str:
    """A text without its middle, where it is too long: names and paths differ at both ends."""
    if len(text) <= width:
        return text
    kept = max(width - len(cut), 0)
    return (text[: kept - kept // 2] + cut + text[len(text) - kept // 2 :])[:width]


def printable(text: str) -> str:
    """The text with all that a terminal would obey or could not write as escapes that can be read."""
    return UNPRINTABLE.sub(lambda found: _escape(ord(found[0])), text)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says, in any of the ways there are, that there is no room for more data, code or threads."""
    if isinstance(error, CounterpoiseError):  # which says already what is the matter
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


def _nearness(name: str, word: str) -> tuple[float, int]:
    """How much is shared; of words that share as much, how long they begin alike: fedcn is fedcm, not fedlc."""
    alike = next((k for k, (a, b) in enumerate(zip(name, word, strict=False)) if a != b), len(name))
    return SequenceMatcher(None, name, word).ratio(), alike
