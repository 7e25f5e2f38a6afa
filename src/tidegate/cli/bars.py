"""Bars for long work: on the error stream, only if it is a terminal, only after a moment, and gone at the end.

Work inside of work gets a bar below the first. What is printed meanwhile stands above the bars.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, Timer
from typing import TYPE_CHECKING

from tidegate.cli.terminal import is_coloured, is_dumb, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

# Seconds before a bar appears.
SHOW_AFTER = 1.0
# Columns that the title and the bar may take.
TITLE, BAR = 28, 30


class _Bars:
    """All bars that are up now: one for each work, outermost first."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.works: list[tuple[str, int, int]] = []  # title, done, total
        self.timer: Timer | None = None
        self.shown: Progress | None = None

    def begin(self, title: str) -> int:
        with self.lock:
            self.works.append((title, 0, 0))
            if len(self.works) == 1:
                self.timer = Timer(SHOW_AFTER, self.show)
                self.timer.daemon = True
                self.timer.start()
            elif self.shown is not None:
                self.shown.add_task(title, total=None)
            return len(self.works) - 1

    def show(self) -> None:
        with self.lock:
            if not self.works or self.shown is not None:
                return
            self.shown = _make()
            for title, done, total in self.works:
                self.shown.add_task(title, total=total or None, completed=done)
            self.shown.start()

    def tell(self, number: int, done: int, total: int) -> None:
        with self.lock:
            self.works[number] = (self.works[number][0], done, total)
            if self.shown is not None:
                self.shown.update(self.shown.task_ids[number], completed=done, total=total or None)

    def end(self) -> None:
        with self.lock:
            self.works.pop()
            if self.shown is not None:
                self.shown.remove_task(self.shown.task_ids[-1])
            if not self.works:
                if self.timer is not None:
                    self.timer.cancel()
                self.hide()

    def hide(self) -> bool:
        """Takes the bars from the screen; gives whether there were any."""
        with self.lock:
            shown, self.shown = self.shown, None
            if shown is not None:
                shown.stop()
            return shown is not None


_BARS = _Bars()


def _make() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    narrow = Column(max_width=TITLE, no_wrap=True, overflow="ellipsis", ratio=2)
    return Progress(
        TextColumn("{task.description}", table_column=narrow, markup=False),
        BarColumn(bar_width=None, table_column=Column(max_width=BAR, ratio=1)),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, color_system="standard" if is_coloured(sys.stderr) else None, no_color=False),
        transient=True,
        expand=True,
        redirect_stdout=False,  # rich would send it to the error stream
        redirect_stderr=False,
    )


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Gives what is to be told how much is done, of how much; without that the bar only says that time goes by."""
    if quiet or not is_terminal(sys.stderr) or is_dumb():
        yield lambda *_: None
        return
    number = _BARS.begin(title)
    try:
        yield lambda done, total: _BARS.tell(number, done, total)
    finally:
        _BARS.end()


@contextmanager
def above_bars() -> Iterator[None]:
    """For what is printed while bars are up."""
    with _BARS.lock:
        were_up = _BARS.hide()
        try:
            yield
        finally:
            if were_up:
                sys.stdout.flush()
                _BARS.show()
