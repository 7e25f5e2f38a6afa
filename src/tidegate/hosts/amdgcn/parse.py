"""AMDGCN assembly as an `Assembly`.

Needs   text as LLVM prints it (`-S`, `llvm-objdump -d`), and the name of its file for messages
Gives   an `Assembly`: each kernel that has an `.amdhsa_kernel`, or else each function
Keeps   every instruction of every kernel, in order, known or not; damaged text is `BadInput`, or an instruction that
        nobody knows
Cost    linear; about 100,000 instructions a second

The syntax is that of LLVM, User Guide for AMDGPU Backend, Assembler (https://llvm.org/docs/AMDGPUUsage.html).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.code_object import CodeObject
from tidegate.hosts.amdgcn.disassembly import Disassembled, is_disassembly, read_disassembly
from tidegate.hosts.amdgcn.expand import expand

_TARGET = re.compile(r"\s*\.amdgcn_target\s+\"([^\"]*)\"")
_GFX = re.compile(r"gfx[0-9a-f]+")
_LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$@]*):(?!:)")
_SETTING = re.compile(r"\s*\.amdhsa_(\w+)\s+(-?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18}))\s*$")
_FACT = re.compile(r"    \.(\w+):\s*(.*)$")
_RANGE = re.compile(r"(ttmp|[vsa])\[(\d{1,5})(?::(\d{1,5}))?\]$")
_SINGLE = re.compile(r"(ttmp|[vsa])(\d{1,5})$")
_HALF = re.compile(r"(v\d{1,5})\.[lh]$")
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|\d{1,19})$")
_FLOAT = re.compile(r"[+-]?\d{1,40}\.\d{1,40}(?:e[+-]?\d{1,3})?$")
_RENUMBERED = re.compile(r"[vsa](?:\d+|\[[\d:]+\]) ?/\*([vsa](?:\d+|\[[\d:]+\]))\*/")
_COMMENT = re.compile(r'^((?:[^";/]|"[^"]*"|/(?!/))*)(?:;|//).*$')  # not within a string
_MODIFIER = re.compile(r"\s+([a-zA-Z]\w*):(\[[^\]]*\]|[^\s,]+)")
_WORDS = (
    "offen idxen glc slc dlc lds tfe nv gds off clamp addr64 unorm lwe r128 a16 d16 da scale_offset bound_ctrl "
    "row_mirror row_half_mirror sc0 sc1 nt abid cbsz blgp"
).split()
_PAIRED = {"vcc": ("vcc_lo", "vcc_hi"), "exec": ("exec_lo", "exec_hi"), "flat_scratch": ("flat_lo", "flat_hi")}
_SPECIAL = {"vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "m0", "scc", "null"}
_ENCODINGS = ("_e32", "_e64", "_vi", "_gfx9")
# Directives that make no code and change none. Any other may: macros, repetitions, conditions, instructions as numbers.
_HARMLESS = (
    *(".loc", ".cfi_", ".file", ".p2align", ".size", ".type", ".globl", ".text", ".ident", ".set", ".Ltmp", ".weak"),
    *(
        ".protected",
        ".hidden",
        ".local",
        ".end_amdhsa",
        ".amdhsa_",
        ".amdgpu_lds",
        ".amdgcn_target",
        ".addrsig",
        ".no_",
    ),
)
MOST_REGISTERS = 64  # of one operand
Body = list[a.AsmLine | a.Mark]


def parse_amdgcn(text: str, file: str = "<text>", of: CodeObject | None = None) -> a.Assembly:
    """The kernels that a text holds. `of`: what is known of the code object that it is the disassembly of."""
    found = _Assembler(text, file)
    if is_disassembly(text):
        found.take(read_disassembly(text), of)
    return found.assembly()


class _Assembler:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = text.split("\n")
        self.renumbers = _RENUMBERED.search(text) is not None
        self.target = ""
        self.settings: dict[str, dict[str, int]] = {}
        self.bodies: dict[str, list[a.AsmLine | a.Mark]] = {}
        self.places: dict[str, Span] = {}
        self.functions: set[str] = set()
        self.facts: dict[str, dict[str, tuple[int, ...]]] = {}
        self.arrays: list[str] = []
        self.marks: dict[int, str] = {}  # by line
        self.is_disassembly = False
        self.known: dict[str, tuple[str, tuple[a.Operand, ...], tuple[tuple[str, str], ...]]] = {}

    def take(self, given: Disassembled, of: CodeObject | None) -> None:
        self.is_disassembly = True
        self.lines, self.marks, self.functions = given.lines, given.marks, set(given.functions)
        if of is not None:
            self.target, self.settings, self.facts = of.target, dict(of.settings), dict(of.facts)

    def assembly(self) -> a.Assembly:
        self.read()
        if not self.target and not self.bodies:
            help_ = 'LLVM prints it first, as `.amdgcn_target "amdgcn-amd-amdhsa--…"`'
            place = Label(Span(self.file, 0, 0, 0))
            raise BadInput(Finding("TG007", "the file names no AMD GPU", (place,), help=help_))
        names = [each for each in self.bodies if each in self.settings] or list(self.bodies)
        kernels = tuple(
            a.KernelText(
                each,
                tuple(self.bodies[each]),
                self.settings.get(each, {}),
                self.facts.get(each, {}),
                self.places[each],
            )
            for each in names
        )
        return a.Assembly(self.target, kernels, tuple(self.arrays))

    def read(self) -> None:
        open_: Body | None = None
        settings: dict[str, int] | None = None
        for number, plain in expand(list(self.plain())):
            if number in self.marks and open_ is not None:
                open_.append(a.Mark(self.marks[number], self.span(number, plain)))
            stripped = plain.strip()
            if not stripped:
                continue
            if stripped == ".amdgpu_metadata":
                self.metadata(number)
                open_ = None
            elif stripped.startswith(".") and not (found := _LABEL.match(plain)):
                settings = self.directive(stripped, plain, settings)
                if stripped.startswith((".section", ".amdhsa_kernel")):
                    open_ = None
                elif open_ is not None and not stripped.startswith(_HARMLESS):
                    open_.append(a.AsmLine(stripped.split()[0], (), (), stripped[:40], self.span(number, plain)))
            else:
                while (found := _LABEL.match(plain)) is not None:
                    open_ = self.label(found[1], open_, self.span(number, plain))
                    plain = " " * found.end() + plain[found.end() :]
                if open_ is not None and (stripped := plain.strip()):
                    open_.extend(self.instructions(stripped, number, plain))

    def plain(self) -> Iterator[tuple[int, str]]:
        """Lines without comments."""
        in_comment = False
        for number, line in enumerate(self.lines, 1):
            plain, in_comment = self.without_comments(line, in_comment)
            yield number, plain

    def label(self, name: str, body: Body | None, at: Span) -> Body | None:
        """The body that goes on behind a label: that of a function, or the one it stands in."""
        if name.startswith(".Lfunc_end"):
            return None
        if name in self.functions:
            self.bodies[name], self.places[name] = [], at
            return self.bodies[name]
        if body is not None:
            body.append(a.Mark(name, at))
        return body

    def without_comments(self, line: str, inside: bool) -> tuple[str, bool]:
        """`;` and `//` end a line; comments in the middle name registers beyond the 256th."""
        if inside:
            _, found, line = line.partition("*/")
            if not found:
                return "", True
        if "/*" in line:
            line = _RENUMBERED.sub(r"\1", line)
            line = re.sub(r"/\*.*?\*/", " ", line)
            if "/*" in line:
                return line.partition("/*")[0], True
        return _COMMENT.sub(r"\1", line), False

    def directive(self, stripped: str, plain: str, settings: dict[str, int] | None) -> dict[str, int] | None:
        words = stripped.split()
        if stripped.startswith(".amdgcn_target"):
            found = _TARGET.match(plain)
            chips = _GFX.findall(found[1]) if found else []
            self.target = chips[-1] if chips else ""
        elif words[0] == ".type" and "@function" in stripped and len(words) > 1:
            self.functions.add(words[1].partition(",")[0])
        elif words[0] == ".amdgpu_lds" and len(words) > 1:
            self.arrays.append(words[1].rstrip(","))
        elif words[0] == ".amdhsa_kernel" and len(words) > 1:
            return self.settings.setdefault(words[1], {})
        elif words[0] == ".end_amdhsa_kernel":
            return None
        elif settings is not None and (each := _SETTING.match(plain)):
            settings[each[1]] = int(each[2], 0)
        return settings

    # --- metadata ---

    def metadata(self, start: int) -> None:
        """Lines of YAML in the shape in which LLVM prints them: kernels at two blanks, their facts at four."""
        facts: dict[str, tuple[int, ...]] = {}
        key = ""
        for line in self.lines[start:]:
            if line.strip() in ("...", ".end_amdgpu_metadata"):
                break
            if line.startswith("  - "):
                facts, key = {}, ""
                line = "    " + line[4:]
            found = _FACT.match(line)
            if found is not None:
                key, value = found[1], found[2].strip()
                if key == "name":
                    self.facts[value.strip("'\"")] = facts
                elif _INTEGER.match(value):
                    facts[key] = (int(value, 0),)
                elif value:
                    facts[key] = ()
            elif key and line.startswith("      - ") and _INTEGER.match(line[8:].strip()):
                facts[key] = (*facts.get(key, ()), int(line[8:].strip(), 0))

    # --- instructions ---

    def span(self, number: int, plain: str) -> Span:
        width = len(plain) - len(plain.lstrip())
        return Span(self.file, number, width + 1, max(width + 2, len(plain.rstrip()) + 1))

    def instructions(self, stripped: str, number: int, plain: str) -> Iterator[a.AsmLine]:
        """One, or the two of a `v_dual_…`, which are carried out at once."""
        if self.renumbers and stripped.startswith("s_set_vgpr_msb"):
            return  # registers stand there with their whole numbers
        if stripped not in self.known:
            self.known[stripped] = self.parsed(stripped)
        name, operands, modifiers = self.known[stripped]
        yield a.AsmLine(name, operands, modifiers, stripped.split(" ")[0].split("\t")[0], self.span(number, plain))

    def parsed(self, text: str) -> tuple[str, tuple[a.Operand, ...], tuple[tuple[str, str], ...]]:
        first, _, second = text.partition("::")
        name, _, rest = first.strip().replace("\t", " ").partition(" ")
        if second:  # both halves, the second one's name and operands behind those of the first
            other, _, more = second.strip().replace("\t", " ").partition(" ")
            operands, modifiers = read_operands(rest)
            return name, operands, ((other, more.strip()), *modifiers)
        name = name.replace("_e64_dpp", "_dpp")
        for each in _ENCODINGS:
            name = name.removesuffix(each)
        name = name.removesuffix("_e64_dpp") + "_dpp" if name.endswith("_e64_dpp") else name
        if name.startswith(("s_waitcnt", "s_wait_")):
            return name, (a.Symbol(rest.strip()),), ()
        operands, modifiers = read_operands(rest)
        return name, operands, modifiers


def read_operands(text: str) -> tuple[tuple[a.Operand, ...], tuple[tuple[str, str], ...]]:
    modifiers: list[tuple[str, str]] = []

    def take(found: re.Match[str]) -> str:
        modifiers.append((found[1], found[2]))
        return " "

    text = _MODIFIER.sub(take, f" {text}").strip()
    while True:
        head, _, word = text.rpartition(" ")
        if word in _WORDS and (head or word != "off"):
            modifiers.append((word, ""))
            text = head.rstrip()
            if word == "off":
                break
        else:
            break
    parts = [each.strip() for each in _split(text)] if text else []
    return tuple(operand(each) for each in parts if each), tuple(modifiers)


def second_half(item: a.AsmLine) -> a.AsmLine | None:
    """The other instruction of a `v_dual_…`."""
    if not item.name.startswith("v_dual_") or not item.modifiers:
        return None
    name, text = item.modifiers[0]
    operands, modifiers = read_operands(text)
    return a.AsmLine(name, operands, modifiers, item.text, item.at)


def _split(text: str) -> list[str]:
    """At commas that no bracket encloses."""
    found, depth, start = [], 0, 0
    for place, each in enumerate(text):
        if each in "[(":
            depth += 1
        elif each in "])":
            depth -= 1
        elif each == "," and depth <= 0:
            found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]]


def operand(text: str) -> a.Operand:
    if (half := _HALF.match(text)) is not None:
        return a.Changed(a.Registers((half[1],)))
    if (known := _registers(text)) is not None:
        return known
    if _INTEGER.match(text):
        return a.Immediate(int(text, 0) if text.lstrip("+-")[:2].lower() == "0x" else int(text))
    if _FLOAT.match(text):
        return a.Immediate(struct.unpack("<i", struct.pack("<f", min(3e38, max(-3e38, float(text)))))[0], True)
    for opening, closing in (("-", ""), ("|", "|"), ("-|", "|"), ("sext(", ")"), ("neg(", ")"), ("abs(", ")")):
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            inner = _registers(text[len(opening) : len(text) - len(closing)])
            if inner is not None:
                return a.Changed(inner)
    return a.Symbol(text)


def _registers(text: str) -> a.Registers | None:
    if text in _PAIRED:
        return a.Registers(_PAIRED[text])
    if text in _SPECIAL:
        return a.Registers((text,))
    if (found := _SINGLE.match(text)) is not None:
        return a.Registers((f"{found[1]}{int(found[2])}",))
    if (found := _RANGE.match(text)) is not None:
        first = int(found[2])
        last = int(found[3] or found[2])
        if first <= last < first + MOST_REGISTERS:
            return a.Registers(tuple(f"{found[1]}{each}" for each in range(first, last + 1)))
    if text.startswith("[") and text.endswith("]"):
        names = [_registers(each.strip()) for each in text[1:-1].split(",")]
        if names and all(each is not None for each in names):
            return a.Registers(tuple(each.first for each in names if each is not None))
    return None
