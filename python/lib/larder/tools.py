"""The tools of the command `larder`, for programs and notebooks: replay, plan, and the model of an SSD.

::

    import larder, numpy as np
    rng = np.random.default_rng(1)
    keys = rng.zipf(1.2, 2_000_000) % 200_000          # a column of keys: numbers, or texts
    sizes = np.where(keys % 10 == 0, 20_000, 300)      # and one of sizes, in bytes
    replay = larder.replay(keys, sizes, dram="4M", flash="128M")
    print(replay.on.dlwa, replay.off.dlwa)             # write amplification of the drive, with and without placement
    replay.to_pandas()

Columns may be arrays of numpy, Arrow arrays (with `to_numpy`), pandas or polars series, or lists. Work runs on a thread
of its own without the interpreter's lock; Ctrl-C ends it. Progress goes to standard error where a person sees it, or to
a function of yours, which gets a share from 0 to 1 some times a second, and stops the work by raising.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, Union

from . import _larder
from ._larder import Recorded
from ._larder import Ssd as _Ssd
from ._sizes import Size, size_bytes

__all__ = ["Plan", "Progress", "Replay", "Run", "Ssd", "plan", "replay"]

Progress = Union[bool, Callable[[float], object], None]
"""A function; ``True`` for a bar on standard error, ``False`` for none; ``None``: a bar where a person sees it."""

Column = Iterable[Any]

_COLORS = {"on": "#2a78b8", "off": "#c8553d"}
_WIDTH, _HEIGHT = 480, 140


def replay(
    keys: Column | None = None,
    sizes: Column | None = None,
    ops: Column | None = None,
    *,
    times: Column | None = None,
    ttls: Column | None = None,
    workload: str | None = None,
    dram: Size = "4M",
    flash: Size = "128M",
    placement: bool | Literal["both"] = "both",
    requests: int | None = None,
    repeat: int = 1,
    utilization: float = 100.0,
    soc: float = 4.0,
    soc_max_object: int = 640,
    op: float = 17.0,
    unit: Size | None = None,
    admission: str = "all",
    warmup: float = 50.0,
    seed: int = 1,
    progress: Progress = None,
) -> Replay:
    """Replay a workload through the cache on the model of a drive, and count what the drive writes to its media.

    A run is a function of its arguments. DLWA is steady once the drive was written over some times: `Run.to_dict` has
    ``drive_writes_before``, which should be 3 or more; use more requests, `repeat`, or less `flash`.

    :param keys: numbers, or texts. :param sizes: bytes of the values. :param ops: ``"get"``, ``"set"`` or ``"delete"``
        for each; omitted, all are gets, and a miss is followed by a set.
    :param times: seconds of each request, ascending. :param ttls: seconds that a value lives; 0 is for ever.
    :param workload: instead of columns, the name of a generator (`larder workload list`) or the path of a trace.
    :param dram: bytes of memory of the cache. :param flash: logical bytes of the drive, a multiple of 4096.
    :param placement: ``"both"`` makes a run with and one without; ``True`` and ``False`` one of them.
    :param requests: stop after this many. :param repeat: passes over the workload.
    :param utilization: percent of the drive that the cache uses. :param soc: percent of that for small objects, of at
        most `soc_max_object` bytes. :param op: over-provisioning of the drive, in percent of `flash`.
    :param unit: bytes of a reclaim unit; omitted, about 340 make the drive.
    :param admission: as of :class:`larder.Cache`. :param warmup: percent of the requests before the counters count.
    :raises ConfigError: for arguments that cannot work, with what is legal.
    """
    settings: dict[str, object] = {
        "dram": size_bytes("dram", dram),
        "flash": size_bytes("flash", flash),
        "placement": ("on" if placement else "off") if isinstance(placement, bool) else placement,
        "requests": requests,
        "repeat": repeat,
        "utilization": utilization,
        "soc": soc,
        "soc_max_object": soc_max_object,
        "op": op,
        "unit": None if unit is None else size_bytes("unit", unit),
        "admission": admission,
        "warmup": warmup,
        "seed": seed,
    }
    source = _source(keys, sizes, ops, times, ttls, workload)
    return Replay(json.loads(_larder.replay(source, settings, shown("replay", progress))))


def plan(
    keys: Column | None = None,
    sizes: Column | None = None,
    ops: Column | None = None,
    *,
    times: Column | None = None,
    ttls: Column | None = None,
    workload: str | None = None,
    dram: Size = 16_000_000_000,
    flash: Size = 1_880_000_000_000,
    requests: int | None = None,
    rate: float = 50_000.0,
    utilization: float = 100.0,
    soc: float = 4.0,
    soc_max_object: int = 640,
    op: float = 17.0,
    endurance: float = 1.0,
    warranty_years: float = 5.0,
    years: float = 5.0,
    dlwa_limit: float = 1.5,
    price_flash: float = 0.1,
    price_dram: float = 4.0,
    simulate: Size = "128M",
    seed: int = 1,
    progress: Progress = None,
) -> Plan:
    """What a drive will cost with a workload, before it is bought: life, carbon and money, with placement and without.

    The columns are a sample of the workload, as of :func:`replay`. A model of `simulate` bytes keeps the ratios of the
    drive.

    :param dram: bytes of memory of the cache. :param flash: advertised bytes of the drive.
    :param rate: requests a second. :param endurance: rated drive writes a day over `warranty_years`.
    :param years: that the cache is to serve. :param dlwa_limit: the write amplification whose utilization is looked for.
    :param price_flash: of a GB (10^9 bytes), and `price_dram`, in one currency.
    :raises ConfigError: for arguments that cannot work, with what is legal.
    """
    settings: dict[str, object] = {
        "dram": size_bytes("dram", dram),
        "flash": size_bytes("flash", flash),
        "requests": requests,
        "rate": rate,
        "utilization": utilization,
        "soc": soc,
        "soc_max_object": soc_max_object,
        "op": op,
        "endurance": endurance,
        "warranty_years": warranty_years,
        "years": years,
        "dlwa_limit": dlwa_limit,
        "price_flash": price_flash,
        "price_dram": price_dram,
        "simulate": size_bytes("simulate", simulate),
        "seed": seed,
    }
    source = _source(keys, sizes, ops, times, ttls, workload)
    return Plan(json.loads(_larder.plan(source, settings, shown("plan", progress))))


class _Result:
    """A result: what the command prints as JSON."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    def to_dict(self) -> dict[str, Any]:
        """All of it, under the names of the command's JSON."""
        return self._told


class Run(_Result):
    """One run of a replay."""

    @property
    def dlwa(self) -> float | None:
        """Bytes that the drive wrote to its media for each byte of the host, after the warm-up; at least 1."""
        dlwa: float | None = self._told["dlwa"]
        return dlwa

    @property
    def hit_ratio(self) -> float:
        """Share of the gets that found their key."""
        return float(self._told["hit_ratio"])

    def timeline(self) -> Any:
        """A data frame of pandas with the run in at most 256 equal parts: ``dlwa``, ``hit_ratio`` and bytes of each."""
        return _pandas().DataFrame(self._told["intervals"])


class Replay(_Result):
    """The result of :func:`replay`. A notebook shows it as a table, with DLWA over the run."""

    @property
    def runs(self) -> dict[str, Run]:
        """The runs: with placement under ``"on"``, without under ``"off"``."""
        return {run["placement"]: Run(run) for run in self._told["runs"]}

    @property
    def on(self) -> Run:
        """The run with placement."""
        return self.runs["on"]

    @property
    def off(self) -> Run:
        """The run without placement."""
        return self.runs["off"]

    @property
    def dlwa(self) -> float | None:
        """DLWA with placement, or of the only run."""
        return next(iter(self.runs.values())).dlwa

    @property
    def hit_ratio(self) -> float:
        """Hit ratio with placement, or of the only run."""
        return next(iter(self.runs.values())).hit_ratio

    def to_pandas(self) -> Any:
        """A data frame of pandas with a row for each run."""
        rows = [
            {name: it for name, it in run.items() if not isinstance(it, (list, dict))}
            for run in self._told["runs"]
        ]
        return _pandas().DataFrame(rows).set_index("placement")

    def __repr__(self) -> str:
        runs = ", ".join(
            f"{name}: DLWA {_number(run.dlwa)}, hit ratio {run.hit_ratio:.3f}"
            for name, run in self.runs.items()
        )
        return f"<larder.Replay, placement {runs}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
            ("requests", lambda run: f"{run['requests']:,}"),
            ("hit ratio", lambda run: f"{run['hit_ratio']:.4f}"),
            ("DLWA", lambda run: _number(run["dlwa"])),
            ("ALWA", lambda run: _number(run["alwa"])),
            ("host bytes", lambda run: f"{run['host_bytes']:,}"),
            ("media bytes", lambda run: "" if run["media_bytes"] is None else f"{run['media_bytes']:,}"),
            ("drive writes before", lambda run: f"{run['drive_writes_before']:.1f}"),
        ]
        runs = self._told["runs"]
        head = "".join(f"<th>placement {html.escape(run['placement'])}</th>" for run in runs)
        body = "".join(
            f"<tr><th>{name}</th>{''.join(f'<td>{show(run)}</td>' for run in runs)}</tr>"
            for name, show in rows
        )
        lines: dict[str, Line] = {
            run["placement"]: [(it["requests"], it["dlwa"]) for it in run["intervals"] if it["dlwa"]]
            for run in runs
        }
        chart = _chart(lines, lambda last: f"{last:,.0f} requests")
        return f"<table><tr><th></th>{head}</tr>{body}</table>{chart}"


class Plan(_Result):
    """The result of :func:`plan`. A notebook shows it as a table, with DLWA over utilization, and the advice."""

    @property
    def advice(self) -> list[str]:
        """The answer in words, the most important sentence first."""
        return list(self._told["advice"])

    @property
    def answers(self) -> dict[str, dict[str, Any]]:
        """The answers with placement under ``"on"``, and without under ``"off"``."""
        return {answer["placement"]: answer for answer in self._told["answers"]}

    def to_pandas(self) -> Any:
        """A data frame of pandas with a row for each simulated utilization and placement."""
        return _pandas().DataFrame(self._told["sweep"])

    def __repr__(self) -> str:
        return "\n".join(self.advice)

    def _repr_html_(self) -> str:
        answers = self._told["answers"]
        names = ["dlwa", "dlwa_theory", "life_years", "drives", "carbon_kg", "cost"]
        head = "".join(f"<th>placement {html.escape(it['placement'])}</th>" for it in answers)
        body = "".join(
            f"<tr><th>{name}</th>{''.join(f'<td>{_number(it.get(name))}</td>' for it in answers)}</tr>"
            for name in names
        )
        advice = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.advice)
        lines: dict[str, Line] = {name: [] for name in self.answers}
        for point in sorted(self._told["sweep"], key=lambda point: point["utilization"]):
            lines[point["placement"]].append((point["utilization"], point["dlwa"]))
        chart = _chart(lines, lambda last: f"the share of the drive in use, up to {last:.0f} %")
        return f"<table><tr><th></th>{head}</tr>{body}</table>{chart}{advice}"


class Ssd(_Ssd):
    """The model of an ordinary SSD: it keeps no contents, and counts what it writes to its media.

    ::

        drive = larder.Ssd("64M")
        drive.write(0, drive.pages)
        drive.write_pages([random.randrange(drive.pages) for _ in range(100_000)])
        drive.dlwa

    :param capacity: bytes that the host can address. :param unit: bytes of a reclaim unit; omitted, about 340 make the
        drive. :param op: over-provisioning, in percent of `capacity`. :param handles: placement handles.
    :param fdp: without it, every write is on handle 0.
    """

    def __new__(
        cls,
        capacity: Size,
        *,
        unit: Size | None = None,
        op: float = 17.0,
        handles: int = 8,
        fdp: bool = True,
        seed: int = 0,
    ) -> Ssd:
        total = size_bytes("capacity", capacity)
        about = max(total * (1 + op / 100) / 340 // 4096 * 4096, 65_536)
        unit_bytes = int(about) if unit is None else size_bytes("unit", unit)
        return super().__new__(cls, total, unit_bytes, op, handles, fdp, seed)  # type: ignore[return-value]

    @property
    def dlwa(self) -> float | None:
        """Pages written to the media for each page of the host, since the drive was made; None before a write."""
        stats = self.stats()
        return stats["media_pages"] / stats["host_pages"] if stats["host_pages"] else None

    def dlwa_since(self, earlier: dict[str, Any]) -> float | None:
        """The same since an earlier `stats()`."""
        stats = self.stats()
        host = stats["host_pages"] - earlier["host_pages"]
        return (stats["media_pages"] - earlier["media_pages"]) / host if host else None


def _source(
    keys: Column | None,
    sizes: Column | None,
    ops: Column | None,
    times: Column | None,
    ttls: Column | None,
    workload: str | None,
) -> Recorded | str:
    if (keys is None or sizes is None) == (workload is None):
        raise TypeError("give keys and sizes, or workload='NAME or FILE'")
    if workload is not None:
        return workload
    columns = [None if it is None else _column(it) for it in (keys, sizes, ops, times, ttls)]
    return Recorded(*columns)


def _column(column: Any) -> Any:
    """A column as an array of 64-bit numbers where it is one, else as an iterable of objects."""
    if isinstance(column, (list, tuple)):
        return column
    if hasattr(column, "to_numpy"):
        # Arrow copies what it cannot show in place, if it may.
        is_arrow = hasattr(column, "__arrow_c_array__") or hasattr(column, "chunks")
        column = column.to_numpy(zero_copy_only=False) if is_arrow else column.to_numpy()
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    if kind in ("i", "u"):
        return column.astype(f"{kind}8", order="C", copy=False)
    return column.tolist() if kind is not None else column


def shown(name: str, progress: Progress) -> Callable[[float], object] | None:
    """The function that is told progress."""
    if callable(progress):
        return progress
    is_seen = sys.stderr.isatty() or "ipykernel" in sys.modules
    if progress is False or (progress is None and not is_seen):
        return None

    def draw(share: float) -> None:
        filled = round(share * 40)
        end = "\n" if share >= 1 else ""
        print(f"\r{name} {'━' * filled}{'─' * (40 - filled)} {share:4.0%}", end=end, file=sys.stderr, flush=True)

    return draw


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


Line = list[tuple[float, float]]


def _chart(lines: dict[str, Line], over: Callable[[float], str]) -> str:
    """DLWA with and without placement, as a picture; `over` says what it is drawn over, up to a value."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    most = max(max(y for _, y in points), 1.5)

    def at(x: float, y: float) -> str:
        along = (x - first) / (last - first or 1.0)
        return f"{along * _WIDTH:.1f},{_HEIGHT - (y - 1) / (most - 1) * _HEIGHT:.1f}"

    drawn = "".join(
        f'<polyline fill="none" stroke="{_COLORS.get(name, "#555")}" stroke-width="1.5" '
        f'points="{" ".join(at(x, y) for x, y in line)}"/>'
        for name, line in lines.items()
    )
    legend = ", ".join(
        f'<span style="color:{_COLORS.get(name, "#555")}">placement {name}</span>' for name in lines
    )
    return (
        f'<p>DLWA over {over(last)}, 1 to {most:.2f}: {legend}</p>'
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="DLWA">{drawn}</svg>'
    )


def _pandas() -> Any:
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ImportError("data frames need pandas: pip install pandas") from None
    return pandas
