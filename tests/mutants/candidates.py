"""The small mistakes that a file has room for, by its syntax tree, and a choice of them that stays as code moves."""

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
SWAPPED = (
    ("MASK_STREAM", "VALIDATION_STREAM"), ("min", "max"), ("minimum", "maximum"), ("training", "validation"),
)  # fmt: skip
"""Names and words that are easily taken for each other."""
OTHERS = {a: b for pair in SWAPPED for a, b in (pair, pair[::-1])}
DROPPED = ("seed", "step", "rank", "epoch", "stream", "global_step", "global_rank")
"""What random choices depend on; 0 in place of it is a dependence lost."""


class Key(NamedTuple):
    """What a mutant is known by, without the numbers of lines."""

    file: str
    """Its name, without folders."""
    function: str
    line: str
    change: str
    number: int = 1


class Mutant(NamedTuple):
    """One small mistake."""

    file: str
    """From the top of the project."""
    function: str
    """Dotted, with its class; empty at the top of a module."""
    line: str
    """The line that the changed expression begins in, without indentation."""
    change: str
    number: int
    """Counts mutants that are alike in all of the above."""
    row: int
    text: str
    """The whole file with the mistake in it."""

    @property
    def key(self) -> "Key":
        """What it is known by, wherever it is moved."""
        return Key(Path(self.file).name, self.function, self.line, self.change, self.number)

    def rank(self, seed: int) -> str:
        """Orders mutants as if at random; each has its place whichever others there are."""
        words = (str(seed), Path(self.file).name, self.function, self.change, str(self.number))
        return hashlib.sha256("\0".join(words).encode()).hexdigest()


def choose(found: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` mutants: the first of each file by a hash of each, then the first of all; in the order they were found."""
    found = list(found)
    ranked = sorted(found, key=lambda mutant: mutant.rank(seed))
    first = list({mutant.file: mutant for mutant in reversed(ranked)}.values())
    chosen = set(sorted(first, key=lambda mutant: mutant.rank(seed))[:count])
    for mutant in ranked:
        if len(chosen) < count:
            chosen.add(mutant)
    return [mutant for mutant in found if mutant in chosen]


def candidates(project: Path, file: str) -> list[Mutant]:
    """Every mutant of a file of the project."""
    source = (project / file).read_text()
    lines = source.splitlines()
    known: Counter[tuple[str, str, str]] = Counter()
    mutants = []
    for function, node, changed in _changes(ast.parse(source), ""):
        line, change = lines[node.lineno - 1].strip(), f"{ast.unparse(node)} -> {ast.unparse(changed)}"
        known[function, line, change] += 1
        number = known[function, line, change]
        text = _replaced(source, node, ast.unparse(changed))
        mutants.append(Mutant(file, function, line, change, number, node.lineno, text))
    return mutants


def _changes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.stmt | ast.expr, ast.AST]]:
    """(function, node, the node with a mistake) of all below `node` that computes; messages and types do not."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    if isinstance(node, ast.stmt | ast.expr):
        for part, changed in _mistakes(node):
            yield function, part, changed
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in field if isinstance(field, list) else [field]:
            told = isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert | ast.match_case)
            method = isinstance(node, ast.Call) and isinstance(child, ast.Attribute) and child is node.func
            if method and child.attr in DROPPED:
                child = child.value
            if isinstance(child, ast.AST) and not told and not _is_logged(child):
                yield from _changes(child, function)


def _is_logged(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    words = ast.unparse(call.func).split(".") if isinstance(call, ast.Call) else [""]
    return words[0] in ("log", "print", "warnings")


def _mistakes(node: ast.stmt | ast.expr) -> Iterator[tuple[ast.stmt | ast.expr, ast.AST]]:
    """A part of the node, or all of it, and what stands in its place by mistake."""
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                yield node, _with(node, ops=[*ops[:i], OPERATORS[type(op)](), *ops[i + 1 :]])
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield node, _with(node, op=OPERATORS[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield node, operand
        case ast.Constant(value=bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield node, ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if value in OTHERS:
            yield node, ast.Constant(OTHERS[value])
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()) if name in DROPPED:
            yield node, ast.Constant(0)
        case ast.Name(id=name, ctx=ast.Load()) if name in OTHERS:
            yield node, ast.Name(OTHERS[name])
        case ast.Attribute(attr=name, ctx=ast.Load()) if name in OTHERS:
            yield node, _with(node, attr=OTHERS[name])
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, ast.Constant(None)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if isinstance(test, ast.Name | ast.Attribute | ast.Call):
                yield test, ast.UnaryOp(ast.Not(), test)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _replaced(source: str, node: ast.stmt | ast.expr, by: str) -> str:
    """The file with a node's text replaced; its offsets count bytes."""
    assert node.end_lineno is not None
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    first = starts[node.lineno - 1] + node.col_offset
    last = starts[node.end_lineno - 1] + (node.end_col_offset or 0)
    if isinstance(node, ast.expr):
        by = f"({by})"
    whole = b"".join(lines)
    return (whole[:first] + by.encode() + whole[last:]).decode()
