"""Makes mutants: copies of a module's code with one small defect each, such as `<` in place of `<=`. Pure.

Only bodies of functions are changed, so that a mutant is a new code object for a function that is already loaded, and
no module has to be imported again. What cannot change behaviour is left as it is: docstrings, annotations, log lines,
the texts of errors, `raise` of an unreachable case, and code for type checkers.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, cast

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_SIGNS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
}
LARGE = 100
"""A number from here on is a size or a limit, of which one more or less is no defect: it becomes 1."""
_QUIET = frozenset({"log", "logger", "warnings"})
"""Names whose calls only speak to people."""
_WORDS = frozenset({"message", "detail", "note", "remedy", "description"})
"""Keyword arguments with texts for people."""

Edit = Callable[[Any], ast.AST | None]


@dataclass(frozen=True)
class Mutant:
    """One defect in one function."""

    path: str
    function: str
    """Its qualified name."""
    first_line: int
    """First line of the function, decorators included: what a code object has."""
    line: int
    what: str
    """The defect, such as `< → <=`."""
    number: int
    """Number among the mutants of its module."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.what}"


def mutants(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
    return [each for each, _, _ in _sites(path, ast.parse(source))]


def mutated(mutant: Mutant, source: str, file: str) -> CodeType:
    """Return the code of the mutant's function. `file` is the name that tracebacks show."""
    tree = ast.parse(source)
    for each, place, edit in _sites(mutant.path, tree):
        if each.number == mutant.number:
            _Replace(place, edit).visit(tree)
            whole = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
            return next(code for code in _codes(whole) if is_of(code, mutant))
    raise LookupError(f"{mutant} is not among the mutants of this source.")


def is_of(code: CodeType, mutant: Mutant) -> bool:
    return code.co_qualname == mutant.function and code.co_firstlineno == mutant.first_line


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class _Replace(ast.NodeTransformer):
    def __init__(self, place: ast.AST, edit: Edit) -> None:
        self._place, self._edit = place, edit

    def visit(self, node: ast.AST) -> ast.AST | None:
        if node is self._place:
            return self._edit(node)
        visited: ast.AST | None = self.generic_visit(node)
        return visited


def _sites(path: str, tree: ast.Module) -> list[tuple[Mutant, ast.AST, Edit]]:
    found: list[tuple[Mutant, ast.AST, Edit]] = []
    for function, name in _functions(tree, ""):
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        for node, what, edit in _edits(function):
            mutant = Mutant(path, name, first, getattr(node, "lineno", first), what, len(found))
            found.append((mutant, node, edit))
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Yield the functions of a module and its classes. Those inside a function belong to it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if not (child.name.startswith("__") and child.name in ("__repr__", "__str__", "__hash__")):
                yield child, f"{prefix}{child.name}"
        elif isinstance(child, ast.If) and not _is_for_checkers(child.test):
            yield from _functions(child, prefix)


def _is_for_checkers(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _edits(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.AST, str, Edit]]:
    for statement in function.body:
        yield from _of(statement)


def _of(node: ast.AST) -> Iterator[tuple[ast.AST, str, Edit]]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Raise | ast.Assert) or (isinstance(node, ast.expr) and _speaks(node)):
        return
    yield from _here(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.keyword) and child.arg in _WORDS:
                continue
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _of(child)


def _speaks(node: ast.expr) -> bool:
    """Return whether an expression is a call such as `log.warning(…)`."""
    inner = node.value if isinstance(node, ast.Await) else node
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute):
        return False
    root = inner.func.value
    return isinstance(root, ast.Name) and root.id in _QUIET


def _here(node: ast.AST) -> Iterator[tuple[ast.AST, str, Edit]]:
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in _COMPARISONS:
            other = _COMPARISONS[type(operator)]
            yield node, f"{_SIGNS[type(operator)]} → {_SIGNS[other]}", _with(lambda n: n.ops.__setitem__(0, other()))
        case ast.BoolOp(op=operator):
            swapped = ast.Or if isinstance(operator, ast.And) else ast.And
            sign = f"{_SIGNS[type(operator)]} → {_SIGNS[swapped]}"
            yield node, sign, _with(lambda n: setattr(n, "op", swapped()))
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC and not _is_text(node):
            turned = _ARITHMETIC[type(operator)]
            sign = f"{_SIGNS[type(operator)]} → {_SIGNS[turned]}"
            yield node, sign, _with(lambda n: setattr(n, "op", turned()))
        case ast.UnaryOp(op=ast.Not()):
            yield node, "not removed", lambda n: cast("ast.AST", n.operand)
        case ast.Constant(value=bool() as value):
            yield node, f"{value} → {not value}", _with(lambda n: setattr(n, "value", not n.value))
        case ast.Constant(value=int() | float() as value):
            other_value = value + 1 if abs(value) < LARGE else 1
            yield node, f"{value} → {other_value}", _with(lambda n: setattr(n, "value", other_value))
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare | ast.Constant):
            if not isinstance(test, ast.UnaryOp):
                negated = ast.UnaryOp(ast.Not(), test)
                yield node, "condition negated", _with(lambda n: setattr(n, "test", negated))
        case ast.IfExp():
            yield node, "branches of an expression swapped", _with(_swap)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "returns None", _with(lambda n: setattr(n, "value", ast.Constant(None)))
        case ast.Expr(value=ast.Call() | ast.Await() as value) if not _speaks(value):
            yield node, f"`{ast.unparse(value)[:60]}` left out", lambda n: ast.copy_location(ast.Pass(), n)
        case ast.AugAssign(op=operator) if type(operator) in _ARITHMETIC and not _is_text(node.value):
            turned = _ARITHMETIC[type(operator)]
            sign = f"{_SIGNS[type(operator)]}= → {_SIGNS[turned]}="
            yield node, sign, _with(lambda n: setattr(n, "op", turned()))
        case ast.Break():
            yield node, "break → continue", lambda n: ast.copy_location(ast.Continue(), n)
        case ast.Continue():
            yield node, "continue → break", lambda n: ast.copy_location(ast.Break(), n)


def _with(change: Callable[[Any], object]) -> Edit:
    """Return an edit that changes a node in place."""

    def edit(node: ast.AST) -> ast.AST:
        change(node)
        return node

    return edit


def _swap(node: ast.AST) -> None:
    assert isinstance(node, ast.IfExp)
    node.body, node.orelse = copy.copy(node.orelse), copy.copy(node.body)


def _is_text(node: ast.expr) -> bool:
    """Return whether an expression visibly joins or formats text, or joins types: another operator would only raise."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return False
