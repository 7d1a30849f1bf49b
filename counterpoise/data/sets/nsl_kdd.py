"""NSL-KDD, network intrusions, from KDDTrain+ (or its 20 % file) and KDDTest+."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.root import find_file
from counterpoise.data.sets.assemble import tabular
from counterpoise.data.split import split_at
from counterpoise.data.tables.delimited import (
    FileColumns,
    Table,
    Words,
    class_codes,
    classes_by_frequency,
    encode,
    parse_table,
    read_lines,
    stack,
)

COLUMNS = (
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot num_failed_logins logged_in "
    "num_compromised root_shell su_attempted num_root num_file_creations num_shells num_access_files num_outbound_cmds "
    "is_host_login is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate same_srv_rate "
    "diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count dst_host_same_srv_rate dst_host_diff_srv_rate "
    "dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate dst_host_srv_serror_rate "
    "dst_host_rerror_rate dst_host_srv_rerror_rate attack difficulty"
)
ATTACKS = {
    "normal": "normal",
    "DoS": "back land neptune pod smurf teardrop apache2 mailbomb processtable udpstorm",
    "Probe": "ipsweep nmap portsweep satan mscan saint",
    "R2L": (
        "ftp_write guess_passwd imap multihop phf spy warezclient warezmaster named sendmail snmpgetattack snmpguess "
        "worm xlock xsnoop"
    ),
    "U2R": "buffer_overflow loadmodule perl rootkit httptunnel ps sqlattack xterm",
}
COARSE = {attack: coarse for coarse, attacks in ATTACKS.items() for attack in attacks.split()}
LAYOUT = FileColumns(
    COLUMNS.split(),
    words=("protocol_type", "service", "flag"),
    label="attack",
    labels=tuple(COARSE),
    ignored=("difficulty",),
)


@dataset("nsl_kdd", paper="Tavallaee et al., A Detailed Analysis of the KDD CUP 99 Data Set, CISDA 2009")
def nsl_kdd(labels: Literal["coarse", "fine"] = "coarse") -> Loader:
    """Flows of 38 numbers and one-hot protocol, service and flag, official split.

    "coarse": normal, DoS, Probe, R2L, U2R, with httptunnel under U2R and worm under R2L as in KDD Cup 99. "fine": the
    attacks of the training file by frequency; test rows of any other attack are dropped.
    """

    def load(root: Path | None) -> Dataset:
        train_file = find_file(root, "nsl_kdd", "KDDTrain+.txt", "KDDTrain+_20Percent.txt")
        paths = [train_file, find_file(root, "nsl_kdd", "KDDTest+.txt")]
        train, test = (parse_table(path, read_lines(path), LAYOUT) for path in paths)
        classes, notes = tuple(ATTACKS), [f"official split: {paths[0].name} trains, {paths[1].name} tests"]
        if labels == "coarse":
            train, test = (table._replace(labels=_coarse(table.labels)) for table in (train, test))
        else:
            classes = classes_by_frequency(train.labels)
            test, dropped = _keep(test, classes)
            notes += dropped
        table = stack([train, test])
        split = split_at(len(train.labels), len(table.labels))
        encoded = encode(table.numbers, table.words, split.train)
        y = class_codes(table.labels, classes, "nsl_kdd")
        meant = COARSE if labels == "coarse" else {name: name for name in classes}
        known = {attack: classes.index(name) for attack, name in meant.items()}
        return tabular("nsl_kdd", encoded, y, classes, split, paths, *notes, label=LAYOUT.label, labels=known)

    return load


def _coarse(attacks: Words) -> Words:
    return np.array([COARSE[attack] for attack in attacks.tolist()])


def _keep(test: Table, classes: tuple[str, ...]) -> tuple[Table, list[str]]:
    known = np.isin(test.labels, classes)
    unseen = ", ".join(sorted(set(test.labels[~known].tolist())))
    note = f"{np.sum(~known):,} test rows dropped, of labels the training file lacks: {unseen}"
    return test.take(known), [note] if unseen else []
