"""A Rich console that shows names from data and configs as plain text: control characters never reach the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from counterpoise.errors import printable

if TYPE_CHECKING:
    from rich.console import Console


def screen(**options: Any) -> Console:
    """A Rich console that escapes control characters in text."""
    import sys

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class Screen(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text), **how)

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                own = segment.control is not None
                yield segment if own else Segment(printable(segment.text), segment.style)

    # The stream beneath ours, for good: a live display puts one of its own on top, and Rich looks through one only.
    stream = sys.stderr if options.get("stderr") else sys.stdout
    return Screen(**{"file": getattr(stream, "rich_proxied_file", stream), **options})
