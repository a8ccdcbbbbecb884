"""A model as a formula: an outcome, a tilde, and the terms that it is explained by.

    outcome ~ a + b          both, and an intercept (without one: 0 + ... or ... - 1)
              a * b          both and their product: a + b + a:b
              a:b            the product alone
              (a + b) * c    parentheses as in algebra; - takes a term out again

Between these marks stand *factors*: a column, a condition (age BETWEEN 40 AND 60, sex == 'F'), or a function:

    C(x, reference='b')                          one coefficient for each value but the reference
    C(x, sets={'heart': ['I10', 'I21']}, others='rest')    values that count as one
    I(age / 10), log(x), sqrt(x), CASE ... END   any expression, in SQL
    bins(age, 30, 50)                            below 30, [30, 50), 50 and above
    middle(age)                                  of values that are bins, '[20, 30)', their middles
    center(x), scale(x)                          of untouched columns: less the mean, over the standard deviation

Factors are read by sqlglot and rebuilt from permitted parts; nothing of a formula is pasted into SQL.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.analyst.ask.where import reason
from sfumato.errors import UsageError

EXAMPLE = "A formula looks like: diagnosis == 'diabetes' ~ age + C(region) * sex"
MARKS = ("+", "-", "*", ":", "~")
MOST_TERMS = 200

_TOKEN = re.compile(
    r"""\s*(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*") | \s*(?P<word>[^\W\d]\w*)
    | \s*(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)
    | \s*(?P<mark>==|!=|<>|<=|>=|\*\*|//|\|\||[-~+*:()<>=,/^%{}\[\].]) | \s*(?P<end>$)""",
    re.VERBOSE,
)
_BEFORE_OPERAND = {"BETWEEN", "AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "THEN", "ELSE", "WHEN", "CASE", "IS"}
_ARITHMETIC = (exp.Div, exp.Pow, exp.Mod, exp.IntDiv, exp.Neg)

Standard = Literal["", "center", "scale"]


@dataclass(frozen=True)
class Factor:
    """One expression of a formula. Two factors that are written alike are the same."""

    text: str
    tree: exp.Expression = field(compare=False, repr=False)
    in_levels: bool = False  # C(...) or bins(...): a coefficient for each level
    reference: str | None = None
    levels: tuple[str, ...] = ()  # in their order, where the formula states it
    standard: Standard = ""
    middle: bool = False
    name: str = ""  # what its levels are called by; "": as it is written

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it looks at."""
        return frozenset(column.name for column in self.tree.find_all(exp.Column))


Term = frozenset[str]
"""The texts of the factors that are multiplied; none for the intercept."""
INTERCEPT: Term = frozenset()


@dataclass(frozen=True)
class Formula:
    """The outcome, all factors by their texts, and the terms in their order."""

    text: str
    outcome: Factor
    factors: dict[str, Factor]
    terms: tuple[tuple[str, ...], ...]  # without the intercept; factors in the order in which they are written
    intercept: bool

    @property
    def columns(self) -> frozenset[str]:
        """All columns."""
        return frozenset().union(self.outcome.columns, *(factor.columns for factor in self.factors.values()))


def parsed_formula(text: str) -> Formula:
    """Return what a formula says; raise UsageError where it cannot be read.

    >>> model = parsed_formula("died ~ age * sex - age")
    >>> model.terms, model.intercept
    ((('sex',), ('age', 'sex')), True)
    """
    tokens = _tokens(text)
    sides = _split(tokens, ("~",))
    if len(sides) != 2 or not all(sides):
        raise UsageError(f"The formula {text!r} needs an outcome, one ~ and the terms.", EXAMPLE)
    reader = _Reader({})
    terms = reader.terms(sides[1])
    if len(terms) > MOST_TERMS:
        raise UsageError(f"The formula has {len(terms):,} terms; {MOST_TERMS} are possible.", "Leave some out.")
    written = {name: place for place, name in enumerate(reader.factors)}
    ordered = sorted((term for term in terms if term), key=len)  # stable: main effects first, as they are written
    named = tuple(tuple(sorted(term, key=written.__getitem__)) for term in ordered)
    used = {name: factor for name, factor in reader.factors.items() if any(name in term for term in named)}
    outcome = _Reader({}).factor(_unwrapped(sides[0]))
    return Formula(text.strip(), outcome, used, named, INTERCEPT in terms)


def parsed_factor(text: str, what: str) -> Factor:
    """Return a single expression, such as an offset."""
    tokens = _tokens(text)
    if not tokens:
        raise UsageError(f"The {what} is empty.", f"Name a column, e.g. {what}='log(years)'.")
    return _Reader({}).factor(tokens)


# --- tokens -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    tokens, place = [], 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if not found:
            rest = text[place:].strip()
            what = "a quote is never closed" if rest[0] in "'\"" else f"{rest[0]!r} does not belong there"
            raise UsageError(f"The formula {text!r} cannot be read: {what}.", EXAMPLE)
        place = found.end()
        kind = str(found.lastgroup)
        if kind != "end":
            tokens.append(_Token(kind, found[kind]))
    _check_brackets(tokens, text)
    return tokens


def _check_brackets(tokens: Sequence[_Token], text: str) -> None:
    pairs, opened = {")": "(", "]": "[", "}": "{"}, list[str]()
    for token in tokens:
        if token.kind == "mark" and token.text in pairs.values():
            opened.append(token.text)
        elif token.kind == "mark" and token.text in pairs and (not opened or opened.pop() != pairs[token.text]):
            raise UsageError(f"The formula {text!r} has a {token.text!r} without its {pairs[token.text]!r}.", EXAMPLE)
    if opened:
        raise UsageError(f"The formula {text!r} has a {opened[-1]!r} that is never closed.", EXAMPLE)


def _outer(tokens: Sequence[_Token]) -> Iterator[tuple[int, _Token]]:
    """Give the marks that stand outside of all brackets, with their places; a sign before a number is none."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        depth -= token.text in ")]}"
        if depth == 0 and not (token.text == "-" and not _ends_operand(tokens[:place])):
            yield place, token
        depth += token.text in "([{"


def _ends_operand(before: Sequence[_Token]) -> bool:
    if not before:
        return True  # a minus at the start takes a term out
    last = before[-1]
    if last.kind == "word":
        return last.text.upper() not in _BEFORE_OPERAND
    return last.kind in ("text", "number") or last.text in (")", "]", "}", "+", "*", ":", "~")


def _split(tokens: Sequence[_Token], marks: Sequence[str]) -> list[list[_Token]]:
    """Return what stands between these marks, outside of brackets."""
    cuts = [place for place, token in _outer(tokens) if token.text in marks]
    return [list(tokens[a + 1 : b]) for a, b in zip([-1, *cuts], [*cuts, len(tokens)], strict=True)]


def _unwrapped(tokens: list[_Token]) -> list[_Token]:
    """Return what stands inside of one pair of parentheses around all of it."""
    while len(tokens) > 1 and tokens[0].text == "(" and _closes(tokens) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closes(tokens: Sequence[_Token]) -> int:
    """Return where the bracket is closed that the tokens begin with."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind == "mark":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0:
            return place
    return -1


def _written(tokens: Sequence[_Token]) -> str:
    """Return tokens as one text, spaced alike however they were written."""
    text = ""
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        tight = before is None or token.text in ("(", ")", ",", "]", ".") or before.text in ("(", "[", ".")
        if before and token.text == "(" and before.kind == "word" and before.text.upper() in _BEFORE_OPERAND:
            tight = False
        if before and before.text == "-" and not _ends_operand(tokens[: place - 1]):
            tight = True
        text += token.text if tight else f" {token.text}"
    return text


# --- terms ------------------------------------------------------------------------------------------------------------


@dataclass
class _Reader:
    """Reads terms, and keeps the factors that it meets, in their order."""

    factors: dict[str, Factor]

    def terms(self, tokens: Sequence[_Token]) -> list[Term]:
        """Return the terms of a sum; there is an intercept unless it is taken out."""
        return self._sum(tokens, [INTERCEPT])

    def _sum(self, tokens: Sequence[_Token], start: list[Term]) -> list[Term]:
        terms = dict.fromkeys(start)
        signs = [(place, token.text) for place, token in _outer(tokens) if token.text in "+-"]
        if not signs or signs[0][0] > 0:
            signs.insert(0, (-1, "+"))
        ends = [*(place for place, _ in signs[1:]), len(tokens)]
        for (place, sign), end in zip(signs, ends, strict=True):
            part = list(tokens[place + 1 : end])
            number = part[0].text if len(part) == 1 and part[0].kind == "number" else ""
            if number not in ("", "0", "1"):
                raise UsageError(f"{number} is no term: 1 is the intercept, and 0 takes it out.", EXAMPLE)
            if number == "0":
                sign = "-" if sign == "+" else "+"
            for term in [INTERCEPT] if number else self._product(part):
                terms[term] = None
                if sign == "-":
                    del terms[term]
        return list(terms)

    def _product(self, tokens: Sequence[_Token]) -> list[Term]:
        """Return the terms of a * b * c: every product of some of them."""
        parts = [self._interaction(part) for part in _split(tokens, ("*",))]
        chosen = (some for size in range(1, len(parts) + 1) for some in combinations(parts, size))
        return list(dict.fromkeys(term for some in chosen for term in _crossed(some)))

    def _interaction(self, tokens: Sequence[_Token]) -> list[Term]:
        return list(_crossed([self._atom(part) for part in _split(tokens, (":",))]))

    def _atom(self, tokens: list[_Token]) -> list[Term]:
        if not tokens:
            raise UsageError("A term is missing: two marks follow each other, or the formula ends with one.", EXAMPLE)
        inside = _unwrapped(tokens)
        if inside is not tokens:
            return self._sum(inside, [])
        factor = self.factor(tokens)
        self.factors.setdefault(factor.text, factor)
        return [frozenset({factor.text})]

    def factor(self, tokens: list[_Token]) -> Factor:
        """Return one factor; functions that SQL does not know are taken apart here."""
        if not tokens:
            raise UsageError("A function of the formula is given nothing, as in C().", EXAMPLE)
        text = _written(tokens)
        name = tokens[0].text if tokens[0].kind == "word" else ""
        is_call = len(tokens) > 2 and tokens[1].text == "(" and _closes(tokens[1:]) == len(tokens) - 2
        made = _CALLS.get(name) if is_call else None
        if made is not None:
            factor: Factor = made(text, _split(tokens[2:-1], (",",)))
            return factor
        tree = _expression(tokens)
        if not is_call and isinstance(tree, _ARITHMETIC):
            raise UsageError(f"{text} is arithmetic, which + - * : are not in a formula.", f"Write I({text}).")
        if not any(True for _ in tree.find_all(exp.Column)):
            raise UsageError(f"{text} names no column, so it explains nothing.", EXAMPLE)
        return Factor(text, tree)


def _crossed(parts: Iterable[list[Term]]) -> Iterator[Term]:
    products: list[Term] = [frozenset()]
    for terms in parts:
        products = [product | term for product in products for term in terms]
    return iter(products)


# --- functions --------------------------------------------------------------------------------------------------------


def _expression(tokens: Sequence[_Token]) -> exp.Expression:
    text = _written(tokens)
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except SqlglotError as problem:
        raise UsageError(f"{text!r} in the formula cannot be read: {reason(problem)}.", EXAMPLE) from None
    if isinstance(tree, exp.Alias):
        raise UsageError(f"{text!r} in the formula cannot be read: a mark is missing in it.", EXAMPLE)
    if tree is None:
        raise UsageError("A function of the formula has an empty argument.", EXAMPLE)
    return tree.transform(lambda node: exp.Ln(this=node.this) if _is_log(node) else node)


def _is_log(node: exp.Expression) -> bool:
    """Whether it is log(x), which is the natural one in models, and to the base 10 in SQL."""
    return isinstance(node, exp.Log) and node.args.get("expression") is None


def _levels(text: str, arguments: list[list[_Token]]) -> Factor:
    """Return C(x, reference=..., sets=..., others=...)."""
    own, given = arguments[0], dict(_named(text, part) for part in arguments[1:])
    if unknown := sorted(set(given) - {"reference", "sets", "others"}):
        raise UsageError(f"{text}: C(...) has no {unknown[0]!r}.", "It has reference=, sets= and others=.")
    inner = _Reader({}).factor(own)
    reference = given.get("reference", inner.reference)
    tree = _merged(text, inner.tree, given["sets"], given.get("others")) if "sets" in given else inner.tree
    if "others" in given and "sets" not in given:
        raise UsageError(f"{text}: others= goes with sets=.", "C(x, sets={'a': ['b', 'c']}, others='rest')")
    order = inner.levels or (tuple(map(str, given["sets"])) if "sets" in given else ())
    return Factor(text, tree, True, None if reference is None else str(reference), order, name=inner.name or inner.text)


def _named(text: str, tokens: list[_Token]) -> tuple[str, Any]:
    if len(tokens) < 3 or tokens[0].kind != "word" or tokens[1].text != "=":
        raise UsageError(f"{text}: {_written(tokens)} has no name.", "C(x, reference='b')")
    try:
        return tokens[0].text, ast.literal_eval("".join(token.text for token in tokens[2:]))
    except (SyntaxError, ValueError):
        raise UsageError(
            f"{text}: {_written(tokens[2:])} is no value.",
            "Values stand in quotes, and sets in braces: C(x, sets={'heart': ['I10', 'I21']})",
        ) from None


def _merged(text: str, tree: exp.Expression, sets: Any, others: Any) -> exp.Expression:
    """Return CASE WHEN x IN (...) THEN 'name' ... ELSE x END."""
    if not isinstance(sets, dict) or not sets or not all(isinstance(v, list | tuple) and v for v in sets.values()):
        raise UsageError(f"{text}: sets= needs a name and a list of values for each set.", "{'heart': ['I10', 'I21']}")
    members = [str(value) for values in sets.values() for value in values]
    if twice := next((value for place, value in enumerate(members) if value in members[:place]), None):
        raise UsageError(f"{text}: {twice!r} is in two sets.", "Leave it in one.")
    as_text = exp.Cast(this=tree.copy(), to=exp.DataType.build("varchar"))
    case = exp.Case()
    for name, values in sets.items():
        inside = exp.In(this=as_text.copy(), expressions=[exp.Literal.string(str(value)) for value in values])
        case = case.when(inside, exp.Literal.string(str(name)), copy=False)
    if others is None:
        return case.else_(as_text.copy(), copy=False)
    missing = exp.Is(this=tree.copy(), expression=exp.Null())
    return case.when(exp.Not(this=missing), exp.Literal.string(str(others)), copy=False)


def _bins(text: str, arguments: list[list[_Token]]) -> Factor:
    """Return bins(x, 30, 50): levels below 30, [30, 50), 50 and above."""
    try:
        edges = [float("".join(token.text for token in part)) for part in arguments[1:]]
    except ValueError:
        raise UsageError(f"{text}: edges of bins are numbers.", "bins(age, 30, 50, 70)") from None
    if not edges or sorted(set(edges)) != edges:
        raise UsageError(f"{text}: edges of bins ascend.", "bins(age, 30, 50, 70)")
    own, shown = _expression(arguments[0]), [f"{edge:g}" for edge in edges]
    inner = [f"[{low}, {high})" for low, high in pairwise(shown)]
    names = (f"below {shown[0]}", *inner, f"{shown[-1]} and above")
    case = exp.Case()
    for edge, name in zip(edges, names, strict=False):
        below = exp.LT(this=own.copy(), expression=exp.Literal.number(repr(edge)))
        case = case.when(below, exp.Literal.string(name), copy=False)
    known = exp.Not(this=exp.Is(this=own.copy(), expression=exp.Null()))
    return Factor(
        text,
        case.when(known, exp.Literal.string(names[-1]), copy=False),
        True,
        None,
        names,
        name=_written(arguments[0]),
    )


def _standardized(kind: Standard) -> Any:
    def made(text: str, arguments: list[list[_Token]]) -> Factor:
        return Factor(text, _only(text, arguments), standard=kind)

    return made


def _middle(text: str, arguments: list[list[_Token]]) -> Factor:
    tree = _only(text, arguments)
    if not isinstance(tree, exp.Column):
        raise UsageError(f"{text}: middle() is of a column that holds bins.", "middle(age)")
    return Factor(text, tree, middle=True)


def _plain(text: str, arguments: list[list[_Token]]) -> Factor:
    return Factor(text, _only(text, arguments))


def _only(text: str, arguments: list[list[_Token]]) -> exp.Expression:
    if len(arguments) != 1:
        raise UsageError(f"{text} takes one argument.", EXAMPLE)
    return _expression(arguments[0])


_CALLS: dict[str, Any] = {
    "C": _levels,
    "I": _plain,
    "bins": _bins,
    "middle": _middle,
    "center": _standardized("center"),
    "scale": _standardized("scale"),
}
