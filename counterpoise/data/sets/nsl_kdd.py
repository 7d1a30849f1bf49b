"""NSL-KDD, network intrusions, from KDDTrain+ (or its 20 % file) and KDDTest+."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from counterpoise.data.columns import Words, class_codes, classes_by_frequency, encode
from counterpoise.data.columns import TrainTest
from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.delimited import Table, parse_table, read_lines
from counterpoise.data.root import find_file
from counterpoise.data.sets.assemble import tabular

FEATURES = (
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot num_failed_logins logged_in "
    "num_compromised root_shell su_attempted num_root num_file_creations num_shells num_access_files num_outbound_cmds "
    "is_host_login is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate same_srv_rate "
    "diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count dst_host_same_srv_rate dst_host_diff_srv_rate "
    "dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate dst_host_srv_serror_rate "
    "dst_host_rerror_rate dst_host_srv_rerror_rate"
).split()
COLUMNS = (*FEATURES, "attack", "difficulty")
WORDS = ("protocol_type", "service", "flag", "attack")
NUMBERS = tuple(name for name in FEATURES if name not in WORDS)
COARSE = {
    "normal": "normal",
    "DoS": "back land neptune pod smurf teardrop apache2 mailbomb processtable udpstorm",
    "Probe": "ipsweep nmap portsweep satan mscan saint",
    "R2L": (
        "ftp_write guess_passwd imap multihop phf spy warezclient warezmaster named sendmail snmpgetattack snmpguess "
        "worm xlock xsnoop"
    ),
    "U2R": "buffer_overflow loadmodule perl rootkit httptunnel ps sqlattack xterm",
}
COARSE_OF = {attack: coarse for coarse, attacks in COARSE.items() for attack in attacks.split()}


class Labelled(NamedTuple):
    y: np.ndarray
    classes: tuple[str, ...]
    rows: np.ndarray  # those whose label is a class
    notes: tuple[str, ...]


@dataset("nsl_kdd", paper="Tavallaee et al., A Detailed Analysis of the KDD CUP 99 Data Set, CISDA 2009")
def nsl_kdd(labels: Literal["coarse", "fine"] = "coarse") -> Loader:
    """Flows of 38 numbers and one-hot protocol, service and flag, official split.

    "coarse": normal, DoS, Probe, R2L, U2R, with httptunnel under U2R and worm under R2L as in KDD Cup 99. "fine": the
    attacks of the training file by frequency; test rows of any other attack are dropped.
    """

    def load(root: Path | None) -> Dataset:
        train_file = find_file(root, "nsl_kdd", "KDDTrain+.txt", "KDDTrain+_20Percent.txt")
        paths = [train_file, find_file(root, "nsl_kdd", "KDDTest+.txt")]
        train, test = (_read(path) for path in paths)
        attacks = np.concatenate([train.words[:, -1], test.words[:, -1]])
        labelled = _coarse(attacks, train_file.parent) if labels == "coarse" else _fine(attacks, len(train.words))
        numbers = np.concatenate([train.numbers, test.numbers])[labelled.rows]
        words = np.concatenate([train.words, test.words])[labelled.rows, :-1]
        in_train = labelled.rows < len(train.words)
        split = TrainTest(np.flatnonzero(in_train), np.flatnonzero(~in_train))
        encoded = encode(
            dict(zip(NUMBERS, numbers.T, strict=True)), dict(zip(WORDS[:-1], words.T, strict=True)), split.train
        )
        note = f"official split: {paths[0].name} trains, {paths[1].name} tests"
        return tabular("nsl_kdd", encoded, labelled.y, labelled.classes, split, paths, note, *labelled.notes)

    return load


def _coarse(attacks: Words, owner: Path) -> Labelled:
    codes = class_codes(attacks, tuple(COARSE_OF), owner)
    classes = tuple(COARSE)
    place = np.array([classes.index(coarse) for coarse in COARSE_OF.values()])
    return Labelled(place[codes], classes, np.arange(len(attacks)), ())


def _fine(attacks: Words, train_rows: int) -> Labelled:
    classes = classes_by_frequency(attacks[:train_rows])
    known = np.isin(attacks, classes)
    unseen = sorted(set(attacks[~known].tolist()))
    note = f"{np.sum(~known):,} test rows dropped, of labels the training file lacks: {', '.join(unseen)}"
    rows = np.flatnonzero(known)
    return Labelled(class_codes(attacks[rows], classes, "nsl_kdd"), classes, rows, (note,) if unseen else ())


def _read(path: Path) -> Table:
    numbers, words = ([COLUMNS.index(name) for name in names] for names in (NUMBERS, WORDS))
    return parse_table(path, read_lines(path), len(COLUMNS), numbers, words)
