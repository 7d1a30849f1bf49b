"""UNSW-NB15, network intrusions, from its two official CSV files or the one that is present."""

from __future__ import annotations

from pathlib import Path

from counterpoise.core.rng import numpy_generator
from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.root import find_file, look_for
from counterpoise.data.sets.assemble import tabular
from counterpoise.data.split import TrainTest, split_at, stratified_split
from counterpoise.data.tables.delimited import (
    FileColumns,
    Table,
    class_codes,
    classes_by_frequency,
    encode,
    parse_table,
    read_lines,
    stack,
)
from counterpoise.data.types import Rows
from counterpoise.errors import DataError

HEADER = (
    "id,dur,proto,service,state,spkts,dpkts,sbytes,dbytes,rate,sttl,dttl,sload,dload,sloss,dloss,sinpkt,dinpkt,sjit,"
    "djit,swin,stcpb,dtcpb,dwin,tcprtt,synack,ackdat,smean,dmean,trans_depth,response_body_len,ct_srv_src,ct_state_ttl,"
    "ct_dst_ltm,ct_src_dport_ltm,ct_dst_sport_ltm,ct_dst_src_ltm,is_ftp_login,ct_ftp_cmd,ct_flw_http_mthd,ct_src_ltm,"
    "ct_srv_dst,is_sm_ips_ports,attack_cat,label"
)
CLASSES = "Normal Generic Exploits Fuzzers DoS Reconnaissance Analysis Backdoor Shellcode Worms"
LAYOUT = FileColumns(
    HEADER.split(","),
    words=("proto", "service", "state"),
    label="attack_cat",
    labels=CLASSES.split(),
    ignored=("id", "label"),
)
FILES = ("UNSW_NB15_training-set.csv", "UNSW_NB15_testing-set.csv")


@dataset("unsw_nb15", paper="Moustafa and Slay, UNSW-NB15, MilCIS 2015")
def unsw_nb15() -> Loader:
    """Flows of 39 numbers and one-hot proto, service and state in 10 classes by frequency, Normal to Worms.

    With both files the larger one (175,341 rows) trains and the other (82,332) tests, 196 inputs; with one file a fixed
    fifth of each class is held out. The test set keeps the natural imbalance.
    """
    return _load


def _load(root: Path | None) -> Dataset:
    found = [path for path in (look_for(root, "unsw_nb15", file) for file in FILES) if path is not None]
    tables = {path: _read(path) for path in found or [find_file(root, "unsw_nb15", *FILES)]}
    # some copies have the two names swapped: the authors train on the larger file, whatever it is called
    paths = sorted(tables, key=lambda path: -len(tables[path].labels))
    table = stack([tables[path] for path in paths])
    classes = classes_by_frequency(table.labels)
    y = class_codes(table.labels, classes, "unsw_nb15")
    split, note = _split(paths, len(tables[paths[0]].labels), y)
    encoded = encode(table.numbers, table.words, split.train)
    return tabular("unsw_nb15", encoded, y, classes, split, paths, note, label=LAYOUT.label)


def _split(paths: list[Path], first: int, y: Rows) -> tuple[TrainTest, str]:
    if len(paths) == 2:
        return split_at(first, len(y)), f"official split: {paths[0].name} trains, {paths[1].name} tests"
    note = f"only {paths[0].name} is present: 80/20, stratified by class, not the published split"
    return stratified_split(y, 0.2, numpy_generator(0, "unsw_nb15-test")), note


def _read(path: Path) -> Table:
    header, *rows = read_lines(path) or [""]
    if header.lower() != HEADER:
        raise DataError(f"{path}: starts with {header[:40]!r}; needs the official header, {HEADER[:40]}...")
    return parse_table(path, rows, LAYOUT)
