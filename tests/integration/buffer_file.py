"""Reads a buffer's file without our code: what src/rollout/store_schema.cpp and token_record.h say of it."""

import json
import sqlite3
import struct


def _tokens(record, turns):
    """Adds a record's arrays to the transcript's turns."""
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, record, at)
        at += struct.calcsize("<" + form)
        return list(values)

    (count,) = take("I")
    assert count == len(turns), (count, len(turns))
    before = []
    for turn in turns:
        shared, prompt, response, runs = take("4I")
        turn["prompt_tokens"] = before[:shared] + take(f"{prompt}i")
        turn["response_tokens"] = take(f"{response}i")
        turn["log_probs"] = take(f"{response}f")
        turn["weight_versions"] = []
        for _ in range(runs):
            version, tokens = take("qI")
            turn["weight_versions"] += [version] * tokens
        before = turn["prompt_tokens"] + turn["response_tokens"]
    assert at == len(record), "bytes are left over"


def trajectories(db):
    """Every stored trajectory as GET /v2/groups/{id} shows it, in the order in which they were written; those whose
    tokens retention took have none."""
    rows = db.execute(
        "SELECT t.body, t.sample, k.record, g.credit FROM trajectories t JOIN groups g ON g.id = t.group_id "
        "LEFT JOIN tokens k ON k.trajectory = t.seq ORDER BY t.seq"
    )
    for body, sample, record, credit in rows:
        trajectory = json.loads(body)
        trajectory |= {name: values[sample] for name, values in json.loads(credit).items()}
        if record is not None:
            _tokens(record, trajectory["turns"])
        yield trajectory


def read(path):
    """The same of a file, which a running buffer may have open."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as db:
        db.execute("BEGIN")
        return list(trajectories(db))
