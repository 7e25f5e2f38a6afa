"""The reader of generic MLIR: every piece of an operation, nesting, places, refusals, and Triton's own count."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tidegate.diag import BadInput, Finding
from tidegate.hosts.mlir import Operation, is_generic, parse_generic
from tidegate.hosts.mlir.model import integer, integers, split_top, split_type, walk
from tidegate.hosts.mlir.parse import _pairs

TEXTS = sorted((ROOT / "tests" / "ttgir").glob("*.ttgir"))

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="NOT TESTED: Triton is not here to count with: pip install tidegate[triton]",
)


def only(text: str) -> Operation:
    """The one operation of a text."""
    (block,) = parse_generic(text, "k.mlir").operation.regions[0].blocks
    (op,) = block.operations
    return op


def refused(text: str) -> Finding:
    with pytest.raises(BadInput) as caught:
        parse_generic(text, "k.mlir")
    (finding,) = caught.value.findings
    return finding


# --- operations ---------------------------------------------------------------------------------------------------


def test_an_operation_has_all_its_pieces() -> None:
    op = only(
        '%2 = "arith.addi"(%0, %1) <{overflowFlags = #arith.overflow<none>}> {tag, n = 3 : i32}'
        ' : (i32, i32) -> i32 loc("gemm.py":4:2)\n'
    )
    assert op.name == "arith.addi"
    assert op.results == ("%2",)
    assert op.result == "%2"
    assert op.operands == ("%0", "%1")
    assert op.attributes == (("overflowFlags", "#arith.overflow<none>"), ("tag", "unit"), ("n", "3 : i32"))
    assert op.attribute("tag") == "unit"
    assert op.attribute("none") is None
    assert op.integer("n") == 3
    assert op.operand_types == ("i32", "i32")
    assert op.result_types == ("i32",)
    assert op.loc == 'loc("gemm.py":4:2)'


def test_an_operation_may_have_nothing() -> None:
    op = only('"a.b"() : () -> ()')
    assert (op.results, op.operands, op.successors, op.attributes, op.regions) == ((), (), (), (), ())
    assert op.result == ""
    assert (op.operand_types, op.result_types) == ((), ())


def test_several_results_have_a_number_each() -> None:
    op = only('%7:3 = "a.b"(%1#1, %x.y$z-2) : (i1, i8) -> (i32, !tt.ptr<f16>, tensor<4xf32, #b>)')
    assert op.results == ("%7#0", "%7#1", "%7#2")
    assert op.operands == ("%1#1", "%x.y$z-2")
    assert op.result_types == ("i32", "!tt.ptr<f16>", "tensor<4xf32, #b>")


def test_successors_and_groups_of_operands() -> None:
    op = only(
        '"cf.cond_br"(%c, %a, %b, %d)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 2, 1>}>'
        " : (i1, i32, i32, i32) -> ()"
    )
    assert op.successors == ("^bb1", "^bb2")
    assert op.segments == (("%c",), ("%a", "%b"), ("%d",))


def test_operands_without_groups_are_one() -> None:
    assert only('"a.b"(%a, %b) : (i1, i1) -> ()').segments == (("%a", "%b"),)


def test_regions_blocks_labels_and_arguments() -> None:
    op = only(
        """
        %0 = "scf.if"(%c) ({
          "scf.yield"(%a) : (i32) -> ()
        }, {
        ^bb0(%x: i32 loc("x"(#loc3)), %m: !ttg.memdesc<4x8xf16, #s, #smem> loc(unknown)):
          "scf.yield"(%x) : (i32) -> ()
        ^bb1:  // pred: ^bb0
          "scf.yield"(%x) : (i32) -> ()
        }, {
        }) {after = 1 : i64} : (i1) -> i32
        """
    )
    first, second, third = op.regions
    assert [block.label for block in first.blocks] == [""]
    assert [block.label for block in second.blocks] == ["^bb0", "^bb1"]
    assert second.blocks[0].arguments == (("%x", "i32"), ("%m", "!ttg.memdesc<4x8xf16, #s, #smem>"))
    assert second.blocks[1].arguments == ()
    assert third.blocks == ()
    assert op.integer("after") == 1
    assert [each.name for each in walk(op)] == ["scf.if", "scf.yield", "scf.yield", "scf.yield"]


def test_text_in_quotes_is_no_bracket() -> None:
    op = only('"a.b"() {asm = "} ] > \\" ) // no comment", next = "->("} : () -> () loc("f(":1:1)')
    assert dict(op.attributes) == {"asm": '"} ] > \\" ) // no comment"', "next": '"->("'}
    assert op.string("next") == "->("
    assert op.loc == 'loc("f(":1:1)'


def test_arrows_inside_types_and_attributes_close_nothing() -> None:
    op = only(
        '"tt.func"() <{function_type = (i32, !tt.ptr<f32>) -> (), map = affine_map<(d0) -> (d0)>, sym_name = "f"}>'
        " ({}) : () -> ()"
    )
    assert op.attribute("function_type") == "(i32, !tt.ptr<f32>) -> ()"
    assert op.attribute("map") == "affine_map<(d0) -> (d0)>"
    assert op.string("sym_name") == "f"


def test_comments_and_white_space_are_nothing() -> None:
    op = only('// head\n%0   =\n  "a.b" ( %1 , %2 )  // behind\n  <{x = 1 : i32}> : (i1,i1) -> i32 // end\n')
    assert op.operands == ("%1", "%2")
    assert op.operand_types == ("i1", "i1")


def test_aliases_are_kept_and_resources_left_out() -> None:
    module = parse_generic(
        '#b = #ttg.blocked<{sizePerThread = [1],\n  order = [0]}>\n!t = tensor<4xf32, #b>\n"builtin.module"() ({\n'
        '  "a.b"() : () -> !t loc(#loc1)\n}) : () -> ()\n#loc1 = loc(callsite(#loc at "f.py":1:2))\n'
        '{-#\n  dialect_resources: { x: "0x00" }\n#-}\n'
    )
    assert module.aliases == {
        "#b": "#ttg.blocked<{sizePerThread = [1],\n  order = [0]}>",
        "!t": "tensor<4xf32, #b>",
        "#loc1": 'loc(callsite(#loc at "f.py":1:2))',
    }
    assert [op.name for op in module.functions("a.b")] == ["a.b"]


def test_several_operations_at_the_top_are_one_module() -> None:
    module = parse_generic('"tt.func"() ({}) : () -> ()\n"tt.func"() ({}) : () -> ()\n')
    assert module.operation.name == "builtin.module"
    assert len(list(module.functions("tt.func"))) == 2


def test_places_are_those_of_the_text() -> None:
    text = '"builtin.module"() ({\n  "a.b"() ({\n    %0 = "c.d"(%1) : (i1) -> i32\n  }) : () -> ()\n}) : () -> ()\n'
    found = [(op.name, op.at.line, op.at.column) for op in walk(parse_generic(text, "k.mlir").operation)]
    assert found == [("builtin.module", 1, 1), ("a.b", 2, 3), ("c.d", 3, 5)]


# --- small pieces -------------------------------------------------------------------------------------------------


def test_numbers_in_attributes() -> None:
    assert integer("3 : i32") == 3
    assert integer("-1 : i64") == -1
    assert (integer("true"), integer("false")) == (1, 0)
    assert integer("dense<0>") is None
    assert integers("array<i32: 1, -2, 0>") == (1, -2, 0)
    assert integers("array<i32>") == ()
    assert integers("[0, 16]") == (0, 16)


def test_numbers_with_types_in_a_list() -> None:
    assert integers("[0 : i32, 16 : i32]") == (0, 16)


def test_comparisons_in_attributes_close_nothing() -> None:
    op = only('"a.b"() {set = affine_set<(d0) : (d0 - 1 >= 0)>, n = 1 : i32} : () -> ()')
    assert op.integer("n") == 1


def test_types_are_split_at_the_top() -> None:
    assert split_type("(i32, (i1) -> i8) -> (f32, !t<a, b>)") == (("i32", "(i1) -> i8"), ("f32", "!t<a, b>"))
    assert split_type("i32") == ((), ("i32",))
    assert split_top('a, <b, c>, "d, e", {f = [g, h]}') == ["a", "<b, c>", '"d, e"', "{f = [g, h]}"]
    assert split_top("") == []


@pytest.mark.parametrize(
    ("text", "generic"),
    [
        ('"builtin.module"() ({}) : () -> ()', True),
        ('#a = #b<c>\n%0:2 = "a.b"() : () -> (i1, i1)', True),
        ("module {\n}", False),
        ('module attributes {a = "b"} {\n  %0 = "tt.reduce"(%1) ({\n  }) : (i1) -> i1\n}', False),
        ("", False),
    ],
)
def test_which_form_a_text_is_in(text: str, generic: bool) -> None:
    assert is_generic(text) is generic


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("module {\n}\n", 1, 1, "an operation in generic form is expected here"),
        ('"a.b"() : () -> ()\n  nonsense\n', 2, 3, "an operation in generic form is expected here"),
        ('"a.b"()\n  -> ()\n', 2, 3, "`:` is expected here"),
        ('"a.b"() {x = 1\n: () -> ()\n', 1, 9, "this bracket is not closed"),
        ('"a.b"() ({\n  "c.d"() : () -> ()\n', 2, 21, "an operation in generic form is expected here"),
        ('"a.b"() ({\n}, nothing) : () -> ()\n', 2, 4, "`{` is expected here"),
        ('"a.b"() ({\n^:\n}) : () -> ()\n', 2, 1, "a label such as `^bb0` is expected here"),
        ('"a.b"() : ?\n', 1, 11, "a type is expected here"),
        ('"a.b"() : () -> ?\n', 1, 17, "a type is expected here"),
        ("// nothing\n", 1, 11, "the file holds no operation"),
        ("", 1, 1, "the file holds no operation"),
    ],
)
def test_a_refusal_names_the_place(text: str, line: int, column: int, words: str) -> None:
    finding = refused(text)
    assert finding.code == "TG001"
    assert finding.message == words
    at = finding.labels[0].at
    assert at.file == "k.mlir"
    assert (at.line, at.column) == (line, column)


# --- many texts ---------------------------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z][a-z0-9_.]{0,6}", fullmatch=True)
WORDS = st.one_of(
    st.integers(-99, 99).map(lambda n: f"{n} : i32"),
    st.sampled_from(["true", "unit", "@f", "#loc", "f32", "() -> ()", "(i32) -> !tt.ptr<f16>"]),
    st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cc", "Cs"]), max_size=8).map(
        lambda s: f'"{s}"'
    ),
)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda each: "{" + ", ".join(f"{name} = {value}" for name, value in each) + "}"
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"#ttg.layout<{', '.join(each)}>"),
    ),
    max_leaves=12,
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), st.booleans())
@settings(max_examples=300, deadline=None)
def test_nested_attributes_come_back_as_they_were(pairs: list[tuple[str, str]], properties: bool) -> None:
    inside = ", ".join(f"{name} = {value}" for name, value in pairs)
    text = f'%0 = "a.b"(%1) {f"<{{{inside}}}>" if properties else f"{{{inside}}}"} : (i32) -> i32 loc(#loc2)'
    op = only(text)
    assert list(op.attributes) == pairs
    assert (op.operands, op.type, op.loc) == (("%1",), "(i32) -> i32", "loc(#loc2)")
    assert _pairs(inside) == pairs


@st.composite
def nested(draw: st.DrawFn, depth: int = 3) -> str:
    regions = draw(st.lists(st.lists(nested(depth - 1), max_size=2), max_size=2)) if depth else []
    body = ", ".join("{" + "\n".join(each) + "\n}" for each in regions)
    return f'"{draw(NAMES)}.op"() {f"({body})" if regions else ""} : () -> ()'


@given(nested())
@settings(max_examples=100, deadline=None)
def test_nested_regions_hold_every_operation(text: str) -> None:
    assert sum(1 for _ in walk(only(text))) == text.count(".op")


# --- against Triton -----------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_operations_are_those_that_triton_counts(path: Path) -> None:
    from tidegate.hosts.triton import libtriton

    parsed = libtriton.parse(path.read_text(encoding="utf-8"), path.name)
    counted: Counter[str] = Counter()
    results: Counter[str] = Counter()
    operands: Counter[str] = Counter()
    regions: Counter[str] = Counter()

    def count(op: object) -> None:
        name = op.get_name()
        counted[name] += 1
        results[name] += op.get_num_results()
        operands[name] += op.get_num_operands()
        regions[name] += op.get_num_regions()

    parsed.module.walk(count)
    found = list(walk(parse_generic(parsed.generic()).operation))
    assert Counter(op.name for op in found) == counted
    for op in found:
        results[op.name] -= len(op.results)
        operands[op.name] -= len(op.operands)
        regions[op.name] -= len(op.regions)
    assert not any(results.values())
    assert not any(operands.values())
    assert not any(regions.values())
    for op in found:
        assert len(op.operand_types) == len(op.operands), op.name
        assert len(op.result_types) == len(op.results), op.name


@needs_triton
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_generic_text_without_a_bracket_is_refused_with_a_place(path: Path) -> None:
    """Whatever single bracket is lost, the reader says where it stops; it never crashes and never stays silent."""
    from tidegate.hosts.triton import libtriton

    text = libtriton.parse(path.read_text(encoding="utf-8"), path.name).generic()
    body = text.index('"builtin.module"')
    places = [at for at in range(body, len(text)) if text[at] in "(){}" and text.rfind("loc(", 0, at) < 0][::40]
    places += [at for at in range(body, len(text)) if text.startswith("({", at) or text.startswith("})", at)]
    for at in places:
        finding = refused(text[:at] + text[at + 1 :])
        assert finding.code == "TG001"
        assert finding.labels[0].at.line >= 1
