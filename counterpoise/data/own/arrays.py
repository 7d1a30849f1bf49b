"""An npz file as a data set."""

from __future__ import annotations

from pathlib import Path

from counterpoise.data.dataset import Dataset
from counterpoise.data.own.assemble import split_note, split_rows
from counterpoise.data.own.faults import check_share, fault
from counterpoise.data.own.limits import MAX_BYTES
from counterpoise.data.own.npy import AnyArray, Arrays, read_arrays
from counterpoise.data.own.samples import Raw, checked, class_names, coded_clients, join
from counterpoise.data.root import sha256_of
from counterpoise.errors import listed

WHOLE = ("x", "y")
HALVES = ("x_train", "y_train", "x_test", "y_test")
CLIENTS = ("client", "clients")
CLASSES = "classes"


def read_npz(path: Path | str, test_share: float = 0.2, seed: int = 0, limit: int = MAX_BYTES) -> Dataset:
    """Arrays x and y, or x_train, y_train, x_test and y_test; optionally `client` (of each training sample) and `classes`.

    Labels are whole numbers: places in `classes`, or where that is not given, any from 0 on. Rows in errors count from 1.
    """
    check_share(test_share)
    path = Path(path)
    found = read_arrays(path, (*WHOLE, *HALVES, *CLIENTS, CLASSES), limit)
    arrays = found.wanted
    classes = class_names(path, arrays.get(CLASSES))
    clients = _clients(path, arrays)
    notes = (f"arrays not used: {listed(found.unused)}",) if found.unused else ()
    files = {path.name: sha256_of(path)}
    if _layout(path, found) == HALVES:
        train = checked(path, Raw(arrays["x_train"], arrays["y_train"], "x_train", "y_train"), classes)
        test = checked(path, Raw(arrays["x_test"], arrays["y_test"], "x_test", "y_test"), classes)
        coded = None if clients is None else coded_clients(path, clients, len(train.y))
        return join(path, train, test, classes, coded, notes, files)
    whole = checked(path, Raw(arrays["x"], arrays["y"]), classes)
    coded = None if clients is None else coded_clients(path, clients, len(whole.y))
    split = split_rows(path, whole.y, test_share, seed)
    coded = None if coded is None else coded._replace(codes=coded.codes[split.train])
    notes = (*notes, split_note(split, test_share, seed))
    return join(path, whole.take(split.train), whole.take(split.test), classes, coded, notes, files)


def _layout(path: Path, found: Arrays) -> tuple[str, ...]:
    given = tuple(name for name in (*WHOLE, *HALVES) if name in found.wanted)
    if given not in (WHOLE, HALVES):
        names = listed([*found.wanted, *found.unused]) or "nothing"
        raise fault(path, f"holds {names}; legal: {' and '.join(WHOLE)}, or {', '.join(HALVES)}")
    return given


def _clients(path: Path, arrays: dict[str, AnyArray]) -> AnyArray | None:
    given = [name for name in CLIENTS if name in arrays]
    if len(given) > 1:
        raise fault(path, f"holds both {' and '.join(given)}; legal: one of them")
    return arrays[given[0]] if given else None
