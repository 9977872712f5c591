"""Replay, plan, experiments and the model of a drive."""

from __future__ import annotations

import array
import importlib.util
import random
import signal
import threading
import time
from typing import Any

import larder
import pytest

HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_PANDAS = importlib.util.find_spec("pandas") is not None


def columns(count: int) -> tuple[list[int], list[int]]:
    """Small objects that are overwritten at random, and large ones."""
    draw = random.Random(1)
    keys = [draw.randrange(60_000) if draw.random() < 0.8 else 100_000 + draw.randrange(8000) for _ in range(count)]
    return keys, [300 if key < 100_000 else 12_000 for key in keys]


def test_placement_lowers_write_amplification() -> None:
    keys, sizes = columns(250_000)
    shares: list[float] = []
    replay = larder.replay(
        keys, sizes, dram="1M", flash="32M", soc=30, progress=lambda share: shares.append(share)
    )
    assert replay.on.dlwa is not None and replay.off.dlwa is not None
    assert 1 <= replay.on.dlwa < replay.off.dlwa and replay.dlwa == replay.on.dlwa
    assert replay.on.hit_ratio == replay.off.hit_ratio == replay.hit_ratio > 0
    assert shares[-1] == 1.0 and shares == sorted(shares)
    told = replay.to_dict()
    assert told["command"] == "replay" and told["runs"][0]["requests"] == 250_000
    assert told["parameters"]["workload"] == "250000 recorded requests"
    assert "DLWA" in repr(replay)
    page = replay._repr_html_()
    assert "<table>" in page and "<svg" in page and "placement off" in page
    again = larder.replay(keys, sizes, dram="1M", flash="32M", soc=30, placement=True, progress=False)
    assert again.dlwa == replay.dlwa and list(again.runs) == ["on"]


def test_columns_of_all_kinds_are_one_workload() -> None:
    keys, sizes = columns(20_000)
    options: dict[str, Any] = {"dram": "1M", "flash": "16M", "placement": False, "progress": False}
    expected = larder.replay(keys, sizes, **options).to_dict()["runs"][0]["host_bytes"]
    kinds: list[tuple[Any, Any]] = [
        (array.array("Q", keys), array.array("I", sizes)),
        (array.array("q", keys), tuple(sizes)),
        (keys, [float(size) for size in sizes]),
    ]
    if HAS_NUMPY:
        import numpy

        kinds += [
            (numpy.array(keys), numpy.array(sizes, dtype="int32")),
            (numpy.array(keys, dtype="uint32")[:], numpy.array(sizes, dtype="float64")),
        ]
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow

        kinds += [(pyarrow.array(keys), pyarrow.chunked_array([sizes[:100], sizes[100:]]))]
    if HAS_PANDAS:
        import pandas

        kinds += [(pandas.Series(keys), pandas.Series(sizes))]
    for of_keys, of_sizes in kinds:
        assert larder.replay(of_keys, of_sizes, **options).to_dict()["runs"][0]["host_bytes"] == expected
    texts = [f"user:{key}" for key in keys]
    of_texts = larder.replay(texts, sizes, ["set"] * len(keys), **options).to_dict()["runs"][0]
    assert of_texts["gets"] == 0 and of_texts["requests"] == len(keys)
    ops = ["get", "set", "delete", "GET"] * 5000
    timed = larder.replay(keys, sizes, ops, times=range(20_000), ttls=[1] * 20_000, **options)
    assert timed.to_dict()["runs"][0]["gets"] == 10_000 and timed.hit_ratio < 0.01


def test_what_cannot_be_replayed_is_named() -> None:
    keys, sizes = [1, 2], [100, 200]
    for call, says in [
        (lambda: larder.replay(keys, [1]), "sizes has 1 entries, and keys has 2"),
        (lambda: larder.replay(keys, [1, -1]), "sizes: -1"),
        (lambda: larder.replay(keys, sizes, ["get", "put"]), "'put'|\"put\""),
        (lambda: larder.replay(keys, sizes, flash="1X"), "flash='1X'"),
        (lambda: larder.replay(keys, sizes, flash=1000), "flash 1000: must be a multiple"),
        (lambda: larder.replay(keys, sizes, soc=200), "soc 200"),
        (lambda: larder.replay(keys, sizes, admission="some"), "admission policy"),
        (lambda: larder.replay(keys, sizes, placement="some"), "placement"),  # type: ignore[arg-type]
        (lambda: larder.replay(workload="no-such-workload"), "no-such-workload"),
        (lambda: larder.lab.run("no-such-experiment"), "ftl-uniform"),
        (lambda: larder.lab.run("ftl-uniform", {"sugar": 1}), "sugar"),
        (lambda: larder.Ssd("1M", unit="64M"), "unit"),
    ]:
        with pytest.raises((ValueError, larder.Error), match=says):
            call()
    with pytest.raises(TypeError, match="give keys and sizes, or workload"):
        larder.replay(keys)


def test_progress_that_raises_and_interrupts_stop_the_work() -> None:
    def enough(share: float) -> None:
        raise LookupError("enough")

    begin = time.monotonic()
    with pytest.raises(LookupError, match="enough"):
        larder.replay(workload="meta-kv", requests=50_000_000, progress=enough)
    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            larder.replay(workload="meta-kv", requests=50_000_000, progress=False)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begin < 20


def test_a_replay_leaves_other_threads_their_turns() -> None:
    ticks: list[float] = []
    end = threading.Event()

    def tick() -> None:
        while not end.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    larder.replay(workload="meta-kv", requests=300_000, progress=False)
    end.set()
    thread.join()
    assert max(b - a for a, b in zip(ticks, ticks[1:])) < 0.5


def test_data_frames() -> None:
    if not HAS_PANDAS:
        pytest.skip("pandas is not there")
    keys, sizes = columns(50_000)
    replay = larder.replay(keys, sizes, dram="1M", flash="16M", progress=False)
    frame = replay.to_pandas()
    assert list(frame.index) == ["on", "off"] and frame.loc["on", "requests"] == 50_000
    assert 1 < len(replay.on.timeline()) <= 256 and "dlwa" in replay.on.timeline()


def test_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = larder.plan(
        workload="meta-kv", requests=80_000, simulate="16M", flash="16M", dram="1M", progress=True
    )
    assert set(plan.answers) == {"on", "off"} and plan.answers["on"]["dlwa"] >= 1
    assert plan.advice and plan.advice[0] in repr(plan)
    assert plan._repr_html_().count("<polyline") == 2 and "share of the drive" in plan._repr_html_()
    assert plan.advice[0].split()[0] in plan._repr_html_() and plan.to_dict()["command"] == "plan"
    assert "100%" in capsys.readouterr().err


def test_experiments_are_listed_and_run() -> None:
    experiments = {it.name: it for it in larder.lab.list()}
    assert len(experiments) > 30 and experiments["ftl-uniform"].criterion
    smallest = {it.name: it.default for it in experiments["ftl-uniform"].parameters}
    assert smallest
    result = larder.lab.run("ftl-uniform", seeds=1, progress=False)
    assert result.verdict and result.reason and result.metrics
    assert "<table>" in result._repr_html_() and "ftl-uniform" in repr(result)


def test_the_model_of_a_drive() -> None:
    drive = larder.Ssd("16M", seed=1)
    assert drive.dlwa is None and drive.pages == 4096
    drive.write(0, drive.pages)
    assert drive.dlwa == 1.0
    full = drive.stats()
    draw = random.Random(1)
    drive.write_pages([draw.randrange(drive.pages) for _ in range(5 * drive.pages)])
    dlwa = drive.dlwa_since(full)
    assert dlwa is not None and 1.5 < dlwa < 6
    drive.trim(0, drive.pages)
    stats = drive.stats()
    assert stats["deallocated_pages"] == drive.pages and stats["erased_units"] > 0
    assert sum(stats["host_pages_by_handle"]) == stats["host_pages"] == 6 * drive.pages
    for page, handle in ((drive.pages, 0), (0, 99)):
        with pytest.raises(ValueError, match=r"\d"):
            drive.write(page, 1, handle)
