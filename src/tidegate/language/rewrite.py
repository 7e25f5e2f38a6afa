"""Python loops and conditions that carry values, made ready for tracing.

Needs   a function whose source can be read
Gives   the same function, in which loops and conditionals of the kernel tell the tracer what their bodies assign
Keeps   line numbers, globals, closures; Python's own `for`, `if` and `with` stay as they are and run while tracing

    for k in iterate(n):              loop = iterate(n)
        acc = mma(a, b, acc)          for k in loop:
                                          (acc becomes a carried value)
                             becomes      acc = name_result("acc", mma(a, b, acc))
                                          loop.leave(locals())
                                      (acc becomes the loop's result)
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from types import CellType, FunctionType
from typing import Any

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.language import regions

RUNTIME = "__tidegate"


def rewrite(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, ready to be traced."""
    assert isinstance(function, FunctionType)  # `arguments.traceable` sees to it
    tree, file = _read(function)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.returns = None
    for arg in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs):
        arg.annotation = None
    definition.body = _Rewriter(function).block(definition.body)
    return _compile(function, definition, file)


def _read(function: FunctionType) -> tuple[ast.Module, str]:
    file = inspect.getsourcefile(function) or function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        if not isinstance(tree.body[0], ast.FunctionDef):
            raise SyntaxError
    except (OSError, TypeError, SyntaxError):
        at = Span(file, function.__code__.co_firstlineno, 1, 2)
        raise BadInput(
            Finding(
                "TG007",
                f"the source of `{function.__name__}` cannot be read",
                (Label(at),),
                help="define the kernel with `def` in a file, or build it with `tidegate.language.builder`",
            )
        ) from None
    ast.increment_lineno(tree, first - 1)
    return tree, file


def _compile(function: FunctionType, definition: ast.FunctionDef, file: str) -> Callable[..., Any]:
    """Compiles the definition inside a function whose parameters are its free variables, then binds the real ones."""
    free = function.__code__.co_freevars
    outer = ast.FunctionDef(
        name="outer",
        args=ast.arguments([], [ast.arg(name) for name in (RUNTIME, *free)], None, [], [], None, []),
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
        decorator_list=[],
    )
    outer.__dict__.setdefault("type_params", [])  # Python 3.12 asks for it, 3.11 does not know it
    module = ast.fix_missing_locations(ast.Module([outer], []))
    space: dict[str, Any] = {}
    exec(compile(module, file, "exec"), space)
    made = space["outer"](*[None] * (1 + len(free)))
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(regions)
    closure = tuple(cells[name] for name in made.__code__.co_freevars)
    new = FunctionType(made.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


class _Rewriter(ast.NodeTransformer):
    """Rewrites statement by statement; `block` sees neighbours, which `otherwise` needs."""

    def __init__(self, function: FunctionType) -> None:
        self.known = {**function.__globals__, **_closure_values(function)}
        self.count = 0

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        waiting = list(reversed(statements))
        while waiting:
            statement = self.alone(waiting.pop())
            following = waiting[-1] if waiting else None
            if isinstance(statement, ast.For) and self.means(statement.iter, regions.iterate):
                result += self.loop(statement)
            elif isinstance(statement, ast.With) and self.opens(statement, regions.conditional):
                other = (
                    following if isinstance(following, ast.With) and self.opens(following, regions.otherwise) else None
                )
                if other is not None:
                    waiting.pop()
                result += self.conditional(statement, other)
            elif isinstance(statement, ast.With) and self.opens(statement, regions.wave_group):
                result += self.group(statement)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                result += self.augmented(statement, statement.target.id)
            else:
                result.append(self.visit(statement))
        return result

    def alone(self, node: ast.stmt) -> ast.stmt:
        """`with a, b:` is `with a:` around `with b:`; a region stands alone in its `with`."""
        regional = (regions.conditional, regions.otherwise, regions.wave_group)
        if not isinstance(node, ast.With) or len(node.items) < 2:
            return node
        if not any(self.means(item.context_expr, what) for item in node.items for what in regional):
            return node
        inner = ast.copy_location(ast.With(node.items[1:], node.body), node)
        return ast.copy_location(ast.With(node.items[:1], [inner]), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Statement lists inside other statements are rewritten as blocks."""
        for name, old in ast.iter_fields(node):
            if isinstance(old, list) and old and isinstance(old[0], ast.stmt):
                setattr(node, name, self.block(old))
            elif isinstance(old, list):
                setattr(node, name, [self.visit(each) if isinstance(each, ast.AST) else each for each in old])
            elif isinstance(old, ast.AST):
                setattr(node, name, self.visit(old))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # a function of its own, with variables of its own

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node  # a docstring, for one
        node.value = _call("discard", node.value)
        return _locate([node], node)[0]

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        makes_value = isinstance(node.value, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare)
        if makes_value and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            node.value = _call("name_result", ast.Constant(node.targets[0].id), node.value)
        return node

    def augmented(self, node: ast.AugAssign, name: str) -> list[ast.stmt]:
        """`a += b` stays: on a list it works in place. Its result then takes the variable's name."""
        named = _call("name_result", ast.Constant(name), ast.Name(name, ast.Load()))
        return [node, *_locate([ast.Assign([ast.Name(name, ast.Store())], named)], node)]

    def loop(self, node: ast.For) -> list[ast.stmt]:
        loop = self.variable()
        names = _assigned(node.body)
        counter = node.target.id if isinstance(node.target, ast.Name) else "i"
        names = [name for name in names if name != counter]
        body: list[ast.stmt] = [
            *_rebind(names, _method(loop, "enter", _tuple(names), _locals())),
            *self.block(node.body),
            ast.Expr(_method(loop, "leave", _locals())),
        ]
        made = [
            ast.Assign([ast.Name(loop, ast.Store())], node.iter),
            ast.Assign([ast.Attribute(ast.Name(loop, ast.Load()), "counter_hint", ast.Store())], ast.Constant(counter)),
            ast.For(node.target, ast.Name(loop, ast.Load()), body, []),
            *_rebind(names, ast.Attribute(ast.Name(loop, ast.Load()), "after", ast.Load())),
            *self.block(node.orelse),  # a loop of the kernel is never left early
        ]
        return _locate(made, node)

    def conditional(self, node: ast.With, other: ast.With | None) -> list[ast.stmt]:
        branch = self.variable()
        names = _assigned([*node.body, *(other.body if other else [])])
        enter = ast.Name(branch, ast.Load())
        made: list[ast.stmt] = [
            ast.Assign([ast.Name(branch, ast.Store())], node.items[0].context_expr),
            ast.Expr(_method(branch, "save", _tuple(names), _locals())),
            ast.With(
                [ast.withitem(enter)],
                [*self.block(node.body), ast.Expr(_method(branch, "end_then", _tuple(names), _locals()))],
            ),
            *_restore(names, ast.Attribute(enter, "before", ast.Load())),
            ast.With(
                [ast.withitem(enter)],
                [
                    *self.block(other.body if other else []),
                    ast.Assign(
                        [ast.Name(branch + "_r", ast.Store())],
                        _method(branch, "end_otherwise", _tuple(names), _locals()),
                    ),
                ],
            ),
            *_rebind(names, ast.Name(branch + "_r", ast.Load())),
        ]
        return _locate(made, node)

    def group(self, node: ast.With) -> list[ast.stmt]:
        group = self.variable()
        names = _assigned(node.body)
        after, end = group + "_r", _method(group, "end", _tuple(names), _locals())
        made: list[ast.stmt] = [
            ast.Assign([ast.Name(group, ast.Store())], node.items[0].context_expr),
            ast.Expr(_method(group, "save", _tuple(names), _locals())),
            ast.With(
                [ast.withitem(ast.Name(group, ast.Load()), node.items[0].optional_vars)],
                [*self.block(node.body), ast.Assign([ast.Name(after, ast.Store())], end)],
            ),
            *_rebind(names, ast.Name(after, ast.Load())),
        ]
        return _locate(made, node)

    def variable(self) -> str:
        self.count += 1
        return f"{RUNTIME}_{self.count}"

    def opens(self, node: ast.With, what: Callable[..., Any]) -> bool:
        return len(node.items) == 1 and self.means(node.items[0].context_expr, what)

    def means(self, node: ast.expr, what: Callable[..., Any]) -> bool:
        """Whether the expression is a call of this function, under whatever name it was imported."""
        if not isinstance(node, ast.Call):
            return False
        parts: list[str] = []
        head: ast.expr = node.func
        while isinstance(head, ast.Attribute):
            parts.append(head.attr)
            head = head.value
        if not isinstance(head, ast.Name) or head.id not in self.known:
            return False
        found = self.known[head.id]
        for part in reversed(parts):
            found = getattr(found, part, None)
        return found is what


def _locate(made: list[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
    """What was made stands in the first line of what it replaces: a call that spans lines is placed in its last one."""
    place = {"lineno": node.lineno, "col_offset": node.col_offset}
    place.update(end_lineno=node.lineno, end_col_offset=node.col_offset)
    for each in made:
        for part in ast.walk(each):
            if "lineno" in part._attributes and not hasattr(part, "lineno"):
                vars(part).update(place)
    return made


def _closure_values(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # a variable that is assigned later
            continue
    return found


_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _assigned(statements: Iterable[ast.stmt]) -> list[str]:
    """Variables that these statements assign, in order, each once; inner functions have their own."""
    names: dict[str, None] = {}
    stack: list[tuple[ast.AST, bool]] = [(each, False) for each in reversed(list(statements))]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        inside = inside or isinstance(node, _COMPREHENSION)
        names.update(dict.fromkeys(_assigned_by(node, inside)))
        stack.extend((each, inside) for each in reversed(list(ast.iter_child_nodes(node))))
    return [name for name in names if not name.startswith(RUNTIME)]


def _assigned_by(node: ast.AST, in_comprehension: bool) -> list[str]:
    """What a node itself assigns. In a comprehension only `:=` assigns a variable of the function."""
    match node:
        case ast.NamedExpr(target=ast.Name(id=name)):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()) if not in_comprehension:
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
    return []


def _rebind(names: list[str], found: ast.expr) -> list[ast.stmt]:
    """`found` is a dictionary: each name in it is assigned."""
    if not names:
        return [ast.Expr(found)]
    table = f"{RUNTIME}_now"
    made: list[ast.stmt] = [ast.Assign([ast.Name(table, ast.Store())], found)]
    for name in names:
        key, read = ast.Constant(name), ast.Name(table, ast.Load())
        test = ast.Compare(key, [ast.In()], [read])
        take = ast.Assign([ast.Name(name, ast.Store())], ast.Subscript(read, key, ast.Load()))
        made.append(ast.If(test, [take], []))
    return made


def _restore(names: list[str], found: ast.expr) -> list[ast.stmt]:
    """As `_rebind`, and a name that is not in it and was assigned is removed again."""
    made = _rebind(names, found)
    for name, statement in zip(names, made[1:], strict=False):
        assert isinstance(statement, ast.If)
        was_set = ast.Compare(ast.Constant(name), [ast.In()], [_locals()])
        statement.orelse = [ast.If(was_set, [ast.Delete([ast.Name(name, ast.Del())])], [])]
    return made


def _call(function: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(RUNTIME, ast.Load()), function, ast.Load()), list(args), [])


def _method(variable: str, method: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(variable, ast.Load()), method, ast.Load()), list(args), [])


def _locals() -> ast.expr:
    return ast.Call(ast.Name("locals", ast.Load()), [], [])


def _tuple(names: list[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())
