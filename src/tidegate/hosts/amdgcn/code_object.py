"""A code object: which GPU it is for, its kernels, and what the hardware sets up for them.

Needs   the bytes of an ELF file for AMD GPUs, or of a bundle that holds some
Gives   `CodeObject`: the name of the GPU, and for each kernel what its descriptor and its metadata say
Keeps   damaged bytes are `BadInput`; a kernel of which the file says nothing has no settings
Cost    linear

LLVM, User Guide for AMDGPU Backend: ELF Code Object, Kernel Descriptor, Code Object Metadata (MessagePack); Clang
Offload Bundler, the format of bundles.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.diag import BadInput, Finding, Label, Span

MAGIC, BUNDLE, COMPRESSED = b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_AMDGPU = 224
_NOTE_METADATA = 32
_SYMBOLS, _NOTES = (2, 11), 7  # types of sections
_MOST = 100_000  # entries of one table
_GFX = re.compile(r"gfx[0-9a-f]+")
# Of the kernel's properties: the bits that ask for registers.
_PROPERTIES = (
    "private_segment_buffer dispatch_ptr queue_ptr kernarg_segment_ptr dispatch_id flat_scratch_init "
    "private_segment_size"
).split()
Settings = dict[str, int]
Facts = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class CodeObject:
    """`settings` and `facts`: as those of a `KernelText`, by the name of the kernel."""

    target: str
    settings: dict[str, Settings]
    facts: dict[str, Facts]


class _Damaged(Exception):
    pass


def elf_in(data: bytes, file: str, target: str | None) -> bytes:
    """The bytes themselves, or the code object of a bundle: the only one, or the one for a target."""
    if data.startswith(COMPRESSED):
        _fail(file, "the bundle is compressed", "`clang-offload-bundler --unbundle --type=o` takes it apart")
    if not data.startswith(BUNDLE):
        return data
    try:
        found = dict(_unbundled(data))
    except (struct.error, _Damaged, OverflowError):
        _fail(file, "the bundle is damaged")
    chosen = [each for each in found if target is None or target in each.replace(":", "-").split("-")]
    if len(chosen) != 1:
        help_ = f"it holds: {', '.join(found) or 'none'}; name one with `--target`"
        _fail(file, f"the bundle holds {len(chosen)} code objects that may be meant", help_)
    return found[chosen[0]]


def _unbundled(data: bytes) -> Iterator[tuple[str, bytes]]:
    place = len(BUNDLE)
    (count,) = struct.unpack_from("<Q", data, place)
    place += 8
    for _ in range(min(count, _MOST)):
        offset, size, length = struct.unpack_from("<QQQ", data, place)
        name = data[place + 24 : place + 24 + length].decode("utf-8", "replace")
        place += 24 + length
        if "amdgcn" in name and data[offset : offset + 4] == MAGIC:
            yield name, data[offset : offset + size]


def read_code_object(data: bytes, file: str) -> CodeObject:
    if not data.startswith(MAGIC):
        _fail(file, "the file is no code object", "a `.hsaco` or `.co` file starts with the bytes of an ELF file")
    try:
        return _read(data, file)
    except (struct.error, _Damaged, OverflowError, IndexError, UnicodeDecodeError, RecursionError):
        _fail(file, "the code object is damaged")


def _read(data: bytes, file: str) -> CodeObject:
    if data[4] != 2 or data[5] != 1 or struct.unpack_from("<H", data, 18)[0] != _AMDGPU:
        _fail(file, "the ELF file is not one for AMD GPUs")
    sections = list(_sections(data))
    metadata = next(_metadata(data, sections), {})
    targets = _GFX.findall(str(metadata.get("amdhsa.target", "")))
    kernels = metadata.get("amdhsa.kernels", [])
    facts = {str(each[".name"]): _facts(each) for each in kernels if isinstance(each, dict) and ".name" in each}
    settings = {}
    for name, address in _symbols(data, sections):
        if name.endswith(".kd") and (place := _offset_of(address, sections)) is not None:
            settings[name.removesuffix(".kd")] = _settings(data, place)
    return CodeObject(targets[-1] if targets else "", settings, facts)


# --- ELF ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    address: int
    offset: int
    size: int
    link: int
    entry: int


def _sections(data: bytes) -> Iterator[_Section]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for number in range(count):
        _, kind, _, address, offset, length, link, _, _, entry = struct.unpack_from(
            "<IIQQQQIIQQ", data, start + number * size
        )
        yield _Section(kind, address, offset, length, link, entry)


def _symbols(data: bytes, sections: list[_Section]) -> Iterator[tuple[str, int]]:
    for each in sections:
        if each.kind not in _SYMBOLS or each.entry < 24 or each.link >= len(sections):
            continue
        names = sections[each.link].offset
        for number in range(min(each.size // each.entry, _MOST)):
            name, _, _, _, address, _ = struct.unpack_from("<IBBHQQ", data, each.offset + number * each.entry)
            end = data.find(b"\0", names + name)
            yield data[names + name : max(end, 0)].decode("utf-8", "replace"), address


def _offset_of(address: int, sections: list[_Section]) -> int | None:
    """Where in the file an address lies."""
    for each in sections:
        if each.address and each.address <= address < each.address + each.size:
            return each.offset + address - each.address
    return None


def _settings(data: bytes, place: int) -> Settings:
    """The 64 bytes of a kernel descriptor, by the names that the assembler has for them."""
    shared, private, arguments = struct.unpack_from("<III", data, place)
    _, _, second, properties, preload = struct.unpack_from("<IIIHH", data, place + 44)
    found = {f"user_sgpr_{name}": properties >> bit & 1 for bit, name in enumerate(_PROPERTIES)}
    found |= {f"system_sgpr_workgroup_id_{axis}": second >> 7 + place & 1 for place, axis in enumerate("xyz")}
    return found | {
        "group_segment_fixed_size": shared,
        "private_segment_fixed_size": private,
        "kernarg_size": arguments,
        "user_sgpr_count": second >> 1 & 31,
        "system_vgpr_workitem_id": second >> 11 & 3,
        "wavefront_size32": properties >> 10 & 1,
        "user_sgpr_kernarg_preload_length": preload & 127,
        "user_sgpr_kernarg_preload_offset": preload >> 7,
    }


# --- metadata -----------------------------------------------------------------------------------------------------


def _metadata(data: bytes, sections: list[_Section]) -> Iterator[dict[str, Any]]:
    for each in sections:
        place, end = each.offset, each.offset + each.size
        while each.kind == _NOTES and place + 12 <= end:
            name, size, kind = struct.unpack_from("<III", data, place)
            start = place + 12 + -(-name // 4) * 4
            if kind == _NOTE_METADATA and data[place + 12 : place + 18] == b"AMDGPU":
                found = _Packed(data[start : start + size]).value()
                if isinstance(found, dict):
                    yield found
            place = start + -(-size // 4) * 4


def _facts(kernel: dict[str, Any]) -> Facts:
    found: Facts = {}
    for key, value in kernel.items():
        if isinstance(value, int):
            found[str(key).lstrip(".")] = (int(value),)
        elif isinstance(value, list) and value and all(isinstance(each, int) for each in value):
            found[str(key).lstrip(".")] = tuple(value)
    return found


class _Packed:
    """MessagePack, as far as metadata has it (https://github.com/msgpack/msgpack/blob/master/spec.md)."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, form: str) -> Any:
        (found,) = struct.unpack_from(form, self.data, self.place)
        self.place += struct.calcsize(form)
        return found

    def text(self, size: int) -> str:
        found = self.data[self.place : self.place + size]
        self.place += size
        return found.decode("utf-8")

    def many(self, size: int) -> range:
        if size > len(self.data):
            raise _Damaged
        return range(size)

    def value(self) -> Any:
        first = self.take(">B")
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 256
        if first < 0x90:
            return self.map(first & 15)
        if first < 0xA0:
            return [self.value() for _ in self.many(first & 15)]
        if first < 0xC0:
            return self.text(first & 31)
        simple = {0xC0: None, 0xC2: False, 0xC3: True}
        if first in simple:
            return simple[first]
        numbers = dict(
            zip(range(0xCA, 0xD4), (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True)
        )
        if first in numbers:
            return self.take(numbers[first])
        sizes = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
        if first not in sizes:
            raise _Damaged
        size = self.take(sizes[first])
        if first <= 0xDB:
            return self.text(size)
        return [self.value() for _ in self.many(size)] if first <= 0xDD else self.map(size)

    def map(self, size: int) -> dict[Any, Any]:
        found = {}
        for _ in self.many(size):
            key = self.value()
            if not isinstance(key, str | int):
                raise _Damaged
            found[key] = self.value()
        return found


def _fail(file: str, message: str, help_: str = "") -> NoReturn:
    raise BadInput(Finding("TG007", message, (Label(Span(file, 0, 0, 0)),), help=help_))
