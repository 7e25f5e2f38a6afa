"""Files of the user: only regular ones are read, and what is written is there whole or not at all.

Needs   nothing of the rest of Tidegate
Gives   the bytes of a file, or a file with other bytes; `OSError` says what stands in the way
Keeps   a file that is being replaced holds the old bytes or the new ones, whenever the disk is full or the process ends
Cost    linear in the bytes; each write waits for the disk
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

# Names of the process's own streams. They share their position with what is printed: opened anew, `> out` would be
# overwritten from its first byte on.
STREAM = re.compile(r"/(?:dev|proc/self)/(?:fd/(\d+)|(stdin|stdout|stderr))")
STREAMS = ("stdin", "stdout", "stderr")
# Links that are followed one by one, as many as Linux follows.
MOST_LINKS = 40
READER_COMES = 5  # seconds within which a FIFO has to be read
# Errors of a file system that cannot be asked to wait for its disk.
CANNOT_WAIT = (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EBADF)


def reason_of(error: OSError | ValueError) -> str:
    """What stands in the way, for the end of a sentence."""
    said = error.strerror if isinstance(error, OSError) else None
    said = said or str(error)
    return said[:1].lower() + said[1:]


# --- reading ------------------------------------------------------------------------------------------------------


def read_whole(path: str | Path, most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes.

    Anything else is refused before it is opened: a FIFO would block, a device such as /dev/zero never ends.
    """
    _refuse_others(os.stat(path))
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        _refuse_others(os.fstat(file.fileno()))  # it may have been exchanged since
        found = file.read(most + 1)  # files of /proc claim to be empty: the bytes are counted, not asked for
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MB, the most that is read")
    return found


def _refuse_others(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file, and only those are read")


# --- writing ------------------------------------------------------------------------------------------------------


def write_whole(path: str | Path, data: str | bytes) -> None:
    """Replaces a file, or makes it: a new file beside it gets the bytes and then its name.

    Of a link, the file at its end is replaced. Mode and, where that is allowed, owner stay. The streams of the process,
    FIFOs and devices are written as they are: there is nothing to replace.
    """
    if isinstance(data, str):  # names of files may hold bytes that are not UTF-8
        data = data.encode("utf-8", errors="backslashreplace")
    try:
        place, stream = _end_of_links(str(path))
        if stream is not None:
            _write_stream(stream, data)
            return
        old = _stat(place)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error)) from None
    if old is not None and not stat.S_ISREG(old.st_mode):
        _write_odd(place, data)
        return
    if old is not None and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # a new name would get around its mode
    _replace(place, data, old)


def _write_odd(place: str, data: bytes) -> None:
    """Into a device or a FIFO. A FIFO is waited for until somebody reads it, but not for ever."""
    until = time.monotonic() + READER_COMES
    while True:
        try:
            number = os.open(place, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > until:
                raise OSError(errno.ENXIO, "nothing reads from it") from None
        time.sleep(0.05)
    os.set_blocking(number, True)
    with os.fdopen(number, "wb") as file:
        file.write(data)


def _end_of_links(path: str) -> tuple[str, int | None]:
    """The path that a link leads to in the end, and the number of the stream that it names, if it names one."""
    for _ in range(MOST_LINKS):
        named = STREAM.fullmatch(os.path.abspath(path))
        if named is not None:
            return path, int(named[1]) if named[1] else STREAMS.index(named[2])
        try:
            link = os.readlink(path)
        except OSError:  # no link, or nothing at all
            return path, None
        path = os.path.join(os.path.dirname(path), link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _write_stream(number: int, data: bytes) -> None:
    """Behind what was printed there before."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with os.fdopen(os.dup(number), "wb") as file:
        file.write(data)


def _stat(place: str) -> os.stat_result | None:
    try:
        return os.stat(place)
    except FileNotFoundError:
        return None


def _replace(place: str, data: bytes, old: os.stat_result | None) -> None:
    folder = os.path.dirname(place) or "."
    beside = os.path.join(folder, f".tidegate-{secrets.token_hex(8)}.tmp")
    try:
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less what the umask takes away
        with os.fdopen(number, "wb") as file:
            if old is not None:
                _take_after(number, old)
            file.write(data)
            file.flush()
            _wait_for_disk(number)
        os.replace(beside, place)
    except BaseException:  # Ctrl-C too leaves nothing behind
        with suppress(OSError):
            os.unlink(beside)
        raise
    with suppress(OSError):  # the name is there already; only whether it outlives a power cut is open
        number = os.open(folder, os.O_RDONLY)
        try:
            _wait_for_disk(number)
        finally:
            os.close(number)


def _take_after(number: int, old: os.stat_result) -> None:
    new = os.fstat(number)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):  # only root may give files away
            os.fchown(number, old.st_uid, old.st_gid)
    os.fchmod(number, stat.S_IMODE(old.st_mode))  # after the owner, whose change takes bits away


def _wait_for_disk(number: int) -> None:
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in CANNOT_WAIT:
            raise
