"""PTX text as a `Module`.

Needs   text, and the name of its file for messages
Gives   a `Module`; damaged text is `BadInput` with the place where reading stopped
Keeps   every instruction of every function, in order, known or not; names of inner scopes are made unique
Cost    linear; about 200,000 tokens a second

The grammar is that of the PTX ISA 9.0, sections 4 (syntax), 5 (state spaces, types, variables) and 11 (directives).
"""

from __future__ import annotations

from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.tokens import Cursor

_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4}
_BYTES |= {"f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "pred": 1}
_SPACES = ("global", "shared", "const", "local", "param", "tex")
_LINKING = (".visible", ".extern", ".weak", ".common")
MOST_REGISTERS = 1 << 18  # of one function: machines have 255 for a thread
MOST_LISTED = 1 << 20  # of all functions: each is written out
MOST_BYTES = 1 << 40  # of one array: no GPU has so much memory
MOST_DEPTH = 64


def parse_ptx(text: str, file: str = "<text>") -> p.Module:
    """The module that a text holds."""
    return _Parser(Cursor(text, file)).module()


class _Scope:
    """One pair of braces: the names declared in it, as the rest of the program calls them."""

    def __init__(self, number: int, before: _Scope | None) -> None:
        self.number, self.before = number, before
        self.names: dict[str, str] = {}

    def own(self, name: str) -> str:
        found = name if self.before is None else f"{name}#{self.number}"
        self.names[name] = found
        return found

    def look_up(self, name: str) -> str:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.before
        return name


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.functions: list[p.Function] = []
        self.variables: list[p.Variable] = []
        self.prototypes: set[str] = set()
        self.scopes = 0
        self.depth = 0
        self.listed_registers = 0

    def module(self) -> p.Module:
        cursor, version, target = self.cursor, "", ""
        while cursor.kind != "end":
            word = cursor.text
            if word == ".version":
                cursor.advance()
                version = cursor.advance()
            elif word == ".target":
                cursor.advance()
                target = cursor.word("the name of an architecture")
                while cursor.accept(","):
                    cursor.advance()
            else:
                self.top_level(word)
        if not version and not self.functions:
            cursor.fail("the file is not PTX: it has no version and no function", 0)
        return p.Module(version, target, tuple(self.functions), tuple(self.variables), frozenset(self.prototypes))

    def top_level(self, word: str) -> None:
        cursor = self.cursor
        if word == ".address_size":
            cursor.advance()
            cursor.number("32 or 64")
        elif word == ".section":
            self.skip_section()
        elif word == ".file":
            self.skip_place()
        elif word in (".pragma", ".alias"):
            self.skip_past(";")
        else:
            is_extern = False
            while cursor.text in _LINKING:
                is_extern |= cursor.advance() == ".extern"
            if cursor.text in (".entry", ".func"):
                self.function()
            elif cursor.text.removeprefix(".") in _SPACES:
                self.variables += self.declared(is_extern)
            else:
                cursor.fail(f"expected a function or a variable, found {cursor.found()}")

    # --- what is passed over ---

    def skip_past(self, text: str) -> None:
        start = self.cursor.position
        while not self.cursor.accept(text):
            if self.cursor.kind == "end":
                self.cursor.fail(f"expected `{text}` before the end of the file", start)
            self.cursor.advance()

    def skip_place(self) -> None:
        """Directives about source places end with no mark: `.loc 1 2 3, function_name $L1+4, inlined_at 1 2 3`."""
        cursor = self.cursor
        cursor.advance()
        while cursor.kind in ("number", "string") or cursor.text == ",":
            if cursor.advance() == "," and cursor.accept("function_name"):
                cursor.word("a label")
                cursor.accept("+")
            else:
                cursor.accept("inlined_at")

    def skip_section(self) -> None:
        while self.cursor.text != "{":
            if self.cursor.kind == "end":
                self.cursor.fail("expected `{` before the end of the file")
            self.cursor.advance()
        self.skip_past("}")

    # --- declarations ---

    def declared(self, is_extern: bool, scope: _Scope | None = None) -> list[p.Variable]:
        """`.shared .align 16 .b8 a[1024], b[4] = {...};`"""
        cursor, start = self.cursor, self.cursor.position
        space = cursor.advance().removeprefix(".")
        align, size = self.typed()
        found: list[p.Variable] = []
        while True:
            at = cursor.at(start, cursor.position)
            name = cursor.word("a variable's name")
            name = scope.own(name) if scope is not None else name
            count = self.extents()
            found.append(p.Variable(name, space, None if count is None else size * count, max(align, 1), at))
            if cursor.accept("="):
                self.skip_initial()
            if not cursor.accept(","):
                break
        cursor.expect(";")
        if is_extern:
            return [p.Variable(each.name, space, None, each.align, each.at) for each in found]
        return found

    def typed(self) -> tuple[int, int]:
        """Alignment and size of the type that stands here, vectors included."""
        cursor, align, size, lanes = self.cursor, 0, 0, 1
        while cursor.kind == "word" and cursor.text.startswith("."):
            word = cursor.advance()[1:]
            if word == "align":
                align = cursor.number("an alignment")
            elif word in ("v2", "v4"):
                lanes = int(word[1])
            elif word in _BYTES:
                size = _BYTES[word]
            elif word == "ptr" or word in _SPACES or word.startswith("attribute"):
                continue
            else:
                size = size or 8  # a texture or surface reference, or what is newer than this reader
        if not size:
            cursor.fail(f"expected a type, found {cursor.found()}")
        return align or size * lanes, size * lanes

    def extents(self) -> int | None:
        """How many elements; None where the text leaves it open."""
        cursor, count = self.cursor, 1
        while cursor.accept("["):
            if cursor.accept("]"):
                return None
            count *= cursor.number("a number of elements")
            if count > MOST_BYTES:
                cursor.fail("this array is larger than any memory")
            cursor.expect("]")
        return count

    def skip_initial(self) -> None:
        depth = 0
        while depth or self.cursor.text not in (",", ";"):
            if self.cursor.kind == "end":
                self.cursor.fail("expected `;` before the end of the file")
            depth += {"{": 1, "}": -1}.get(self.cursor.advance(), 0)

    # --- functions ---

    def function(self) -> None:
        cursor, is_entry = self.cursor, self.cursor.advance() == ".entry"
        start = cursor.position
        scope = _Scope(0, None)
        if cursor.text == "(":
            self.parameters()  # of a device function, what it gives back
        at = cursor.at(start, cursor.position)
        name = cursor.word("a function's name")
        params = self.parameters() if cursor.text == "(" else ()
        shapes: dict[str, tuple[int, ...]] = {}
        clusters = False
        while cursor.text not in ("{", ";"):
            if cursor.kind == "end":
                cursor.fail("expected the body of the function before the end of the file")
            word = cursor.advance()
            if word in (".reqntid", ".maxntid"):
                shapes[word] = self.numbers()
            clusters |= word in (".reqnctapercluster", ".explicitcluster", ".maxclusterrank")
            if word == ".pragma":
                self.skip_past(";")
        if cursor.accept(";"):
            self.prototypes.add(name)
            return
        body = _Body()
        cursor.expect("{")
        self.block(scope, body)
        shape = (shapes.get(".reqntid", ()), shapes.get(".maxntid", ()))
        parts = (tuple(body.items), tuple(body.variables), tuple(body.registers.items()))
        self.functions.append(p.Function(name, is_entry, params, *parts, *shape, clusters, at))

    def parameters(self) -> tuple[p.Variable, ...]:
        cursor = self.cursor
        cursor.expect("(")
        found: list[p.Variable] = []
        while not cursor.accept(")"):
            space = cursor.word("a parameter, as in `.param .u64 x`").removeprefix(".")
            align, size = self.typed()
            at = cursor.at()
            name = cursor.word("a parameter's name")
            count = 1
            if cursor.accept("<"):
                count = cursor.number("a number of registers")
                cursor.expect(">")
            more = self.extents()
            found.append(p.Variable(name, space, None if more is None else size * count * more, align, at))
            if not cursor.accept(",") and cursor.text != ")":
                cursor.fail(f"expected `,` or `)`, found {cursor.found()}")
        return tuple(found)

    def numbers(self) -> tuple[int, ...]:
        found = [self.cursor.number("a number of threads")]
        while self.cursor.accept(","):
            found.append(self.cursor.number("a number of threads"))
        return tuple(found)

    def labels(self, scope: _Scope) -> None:
        """Labels of these braces, and not of those inside: two pieces of inline assembly may have the same."""
        cursor, depth = self.cursor, 0
        for place in range(cursor.position, len(cursor.texts) - 1):
            text = cursor.texts[place]
            depth += {"{": 1, "}": -1}.get(text, 0)
            if depth < 0:
                return
            if not depth and cursor.kinds[place] == "word" and cursor.texts[place + 1] == ":":
                scope.own(text)

    def block(self, scope: _Scope, body: _Body) -> None:
        cursor = self.cursor
        self.labels(scope)
        self.depth += 1
        if self.depth > MOST_DEPTH:
            cursor.fail(f"braces are nested more than {MOST_DEPTH} deep")
        while not cursor.accept("}"):
            word = cursor.text
            if cursor.kind == "end":
                cursor.fail("the function is never closed: expected `}`")
            elif cursor.accept("{"):
                self.scopes += 1
                self.block(_Scope(self.scopes, scope), body)
            elif word == ".reg":
                self.register(scope, body)
            elif word.removeprefix(".") in _SPACES and word.startswith("."):
                body.variables += self.declared(False, scope)
            elif word in (".loc", ".file"):
                self.skip_place()
            elif word == ".section":
                self.skip_section()
            elif word.startswith("."):
                self.skip_past(";")
            elif not cursor.accept(";"):
                self.statement(scope, body)
        self.depth -= 1

    def register(self, scope: _Scope, body: _Body) -> None:
        """`.reg .b32 %r<5>, %x;`"""
        cursor = self.cursor
        cursor.advance()
        kind = cursor.word("a type").removeprefix(".")
        if kind in ("v2", "v4"):
            kind = cursor.word("a type").removeprefix(".")
        while True:
            name = cursor.word("a register")
            listed = [name]
            if cursor.accept("<"):
                count = cursor.number("a number of registers")
                if len(body.registers) + count > MOST_REGISTERS:
                    cursor.fail(f"a function has at most {MOST_REGISTERS:,} registers here")
                self.listed_registers += count
                if self.listed_registers > MOST_LISTED:
                    cursor.fail(f"the functions of a file have at most {MOST_LISTED:,} registers here")
                listed = [f"{name}{number}" for number in range(count)]
                cursor.expect(">")
            for each in listed:
                body.registers[scope.own(each)] = kind
            if not cursor.accept(","):
                break
        cursor.expect(";")

    # --- statements ---

    def statement(self, scope: _Scope, body: _Body) -> None:
        cursor, start = self.cursor, self.cursor.position
        if cursor.kind == "word" and cursor.texts[cursor.position + 1 : cursor.position + 2] == [":"]:
            name = scope.look_up(cursor.advance())
            cursor.advance()
            body.items.append(p.Label(name, cursor.at(start)))
            return
        guard = None
        if cursor.accept("@"):
            negated = cursor.accept("!")
            guard = p.Guard(scope.look_up(cursor.word("a predicate")), negated)
        first = cursor.position
        opcode, *modifiers = cursor.word("an instruction").split(".")
        operands: list[p.Operand] = []
        while not cursor.accept(";"):
            operands.append(self.operand(scope))
            if not cursor.accept(",") and cursor.text != ";":
                cursor.fail(f"expected `,` or `;`, found {cursor.found()}")
        at = cursor.at(start if guard else first, cursor.position - 2)
        body.items.append(p.Instruction(opcode, tuple(modifiers), tuple(operands), guard, at))

    def operand(self, scope: _Scope) -> p.Operand:
        found = self.single(scope)
        if self.cursor.accept("|"):
            return p.Pair(found, self.single(scope))
        return found

    def single(self, scope: _Scope) -> p.Operand:
        cursor = self.cursor
        if cursor.text in ("{", "("):
            return p.Vector(self.listed(scope, "}" if cursor.advance() == "{" else ")"))
        if cursor.accept("["):
            return self.address(scope)
        if cursor.text in ("!", "-", "~"):
            sign = cursor.advance()
            self.depth += 1
            if self.depth > MOST_DEPTH:
                cursor.fail(f"signs are nested more than {MOST_DEPTH} deep")
            inner = self.single(scope)
            self.depth -= 1
            if isinstance(inner, p.Number) and sign == "-" and not inner.fraction:
                return p.Number(-inner.value)
            return p.Negated(sign, inner)
        if cursor.kind == "float" and cursor.text[:2].lower() not in ("0f", "0d"):
            return p.Name(cursor.advance())  # its bits depend on the instruction: of no register, and so unknown
        if cursor.kind in ("number", "float"):
            return p.Number(cursor.number("a number")) if cursor.kind == "number" else _fraction(cursor.advance())
        name = p.Name(scope.look_up(cursor.word("an operand")))
        if cursor.text in ("+", "-") and cursor.kinds[cursor.position + 1] == "number":
            # `mov.u32 %r1, array+16`: the address of a variable, as a constant
            factor = -1 if cursor.advance() == "-" else 1
            return p.Address(name, _as_signed(factor * cursor.number("an offset")))
        return name

    def listed(self, scope: _Scope, end: str) -> tuple[p.Operand, ...]:
        found: list[p.Operand] = []
        self.depth += 1
        if self.depth > MOST_DEPTH:
            self.cursor.fail(f"lists are nested more than {MOST_DEPTH} deep")
        while not self.cursor.accept(end):
            found.append(self.operand(scope))
            if not self.cursor.accept(",") and self.cursor.text != end:
                self.cursor.fail(f"expected `,` or `{end}`, found {self.cursor.found()}")
        self.depth -= 1
        return tuple(found)

    def address(self, scope: _Scope) -> p.Address:
        cursor = self.cursor
        base: p.Name | p.Number
        if cursor.kind == "number":
            base = p.Number(cursor.number("an address"))
        else:
            base = p.Name(scope.look_up(cursor.word("an address")))
        offset = 0
        while cursor.text in ("+", "-"):
            sign = -1 if cursor.advance() == "-" else 1
            sign = -sign if cursor.accept("-") else sign  # `[%r1+-8]`
            offset += sign * cursor.number("an offset")
        more: list[p.Operand] = []
        self.depth += 1
        if self.depth > MOST_DEPTH:
            cursor.fail(f"addresses are nested more than {MOST_DEPTH} deep")
        while cursor.accept(","):
            more.append(self.operand(scope))
        self.depth -= 1
        cursor.expect("]")
        return p.Address(base, _as_signed(offset), tuple(more))


class _Body:
    """What a function holds, while it is read."""

    def __init__(self) -> None:
        self.items: list[p.Instruction | p.Label] = []
        self.variables: list[p.Variable] = []
        self.registers: dict[str, str] = {}


def _fraction(text: str) -> p.Number:
    """A floating-point constant whose bits the text says."""
    return p.Number(int(text[2:], 16), 4 * len(text[2:]))


def _as_signed(offset: int) -> int:
    """Addresses wrap around at 64 bits."""
    offset &= (1 << 64) - 1
    return offset - (1 << 64) if offset >> 63 else offset
