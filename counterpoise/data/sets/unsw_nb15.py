"""UNSW-NB15, network intrusions, from its two official CSV files or the one that is present."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from counterpoise.core.rng import numpy_generator
from counterpoise.data.columns import TrainTest, class_codes, classes_by_frequency, encode, stratified_split
from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.delimited import Table, parse_table, read_lines
from counterpoise.data.root import find_file, look_for
from counterpoise.data.sets.assemble import tabular
from counterpoise.errors import DataError

COLUMNS = (
    "id,dur,proto,service,state,spkts,dpkts,sbytes,dbytes,rate,sttl,dttl,sload,dload,sloss,dloss,sinpkt,dinpkt,sjit,"
    "djit,swin,stcpb,dtcpb,dwin,tcprtt,synack,ackdat,smean,dmean,trans_depth,response_body_len,ct_srv_src,ct_state_ttl,"
    "ct_dst_ltm,ct_src_dport_ltm,ct_dst_sport_ltm,ct_dst_src_ltm,is_ftp_login,ct_ftp_cmd,ct_flw_http_mthd,ct_src_ltm,"
    "ct_srv_dst,is_sm_ips_ports,attack_cat,label"
).split(",")
WORDS = ("proto", "service", "state", "attack_cat")
NUMBERS = tuple(name for name in COLUMNS if name not in {*WORDS, "id", "label"})
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
    paths = found or [find_file(root, "unsw_nb15", *FILES)]
    tables = [_read(path) for path in paths]
    numbers = np.concatenate([table.numbers for table in tables])
    words = np.concatenate([table.words for table in tables])
    classes = classes_by_frequency(words[:, -1])
    y = class_codes(words[:, -1], classes, paths[0].parent)
    split, note = _split(paths, [len(table.words) for table in tables], y)
    encoded = encode(
        dict(zip(NUMBERS, numbers.T, strict=True)), dict(zip(WORDS[:-1], words[:, :-1].T, strict=True)), split.train
    )
    return tabular("unsw_nb15", encoded, y, classes, split, paths, note)


def _split(paths: list[Path], sizes: list[int], y: np.ndarray) -> tuple[TrainTest, str]:
    if len(paths) == 1:
        note = f"only {paths[0].name} is present: 80/20, stratified by class, not the published split"
        return stratified_split(y, 0.2, numpy_generator(0, "unsw_nb15-test")), note
    larger = int(np.argmax(sizes))  # some copies have the two names swapped; the authors train on the larger file
    in_train = np.repeat([larger == 0, larger == 1], sizes)
    note = f"official split: {paths[larger].name} trains, {paths[1 - larger].name} tests"
    return TrainTest(np.flatnonzero(in_train), np.flatnonzero(~in_train)), note


def _read(path: Path) -> Table:
    header, *rows = read_lines(path) or [""]
    if header.lower().split(",") != COLUMNS:
        raise DataError(f"{path}: starts with {header[:40]!r}; legal: the header {','.join(COLUMNS[:5])},... of {len(COLUMNS)} names")
    numbers, words = ([COLUMNS.index(name) for name in names] for names in (NUMBERS, WORDS))
    return parse_table(path, rows, len(COLUMNS), numbers, words)
