"""Files that commands write, as --out or another argument names them: what cannot be written, or would be lost, is refused before any work is done."""

from __future__ import annotations

from pathlib import Path

OUT = "--out"


def refuse_no_file(path: Path, name: str = OUT) -> None:
    """Refuse a folder or a device."""
    from counterpoise.errors import ConfigError, short

    if path.exists() and not path.is_file():
        raise ConfigError(f"{name} must be a file, not {short(path)}, which is {_kind(path)}")


def check_target(path: Path, name: str = OUT) -> None:
    """Refuse what is no place for a file."""
    from counterpoise.errors import ConfigError, short

    refuse_no_file(path, name)
    if not path.parent.is_dir():
        raise ConfigError(
            f"{name} {short(path)} needs the folder {short(path.parent)}, which is not there; make it, or name another"
        )


def refuse_within_run(path: Path, name: str = OUT) -> None:
    """Refuse a place among the files of a run, which are sealed and cannot be made again in a moment."""
    from counterpoise.errors import ConfigError, short

    for folder in path.resolve().parents:
        if _is_run(folder):
            raise ConfigError(
                f"{name} must not lie in the folder of a run, as {short(path)} does; name another folder"
            )


def _kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "no plain file"


def _is_run(folder: Path) -> bool:
    from counterpoise.run.store.folder import RunFolder

    run = RunFolder(folder)
    return run.holds_run() and run.record.exists()  # an experiment may be called config.toml too
