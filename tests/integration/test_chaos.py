"""A dozen faults of every kind in small runs, by fixed seeds; `make chaos SEED=n FAULTS=m` for more (tests/chaos)."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "chaos"))
import chaos


def test_a_dozen_faults_change_nothing(tmp_path):
    report = chaos.campaign(tmp_path, seed=8, faults=12, gap_s=3)
    assert report.faults == 12
