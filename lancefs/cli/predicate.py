"""`--where`: conditions as SQL writes them, as Arrow expressions that a scan applies.

    condition   := [not] condition | condition (and | or) condition | ( condition )
    comparison  := operand (= == != <> < <= > >=) operand
                 | operand is [not] null
                 | operand [not] in ( literal, … )
                 | operand [not] between literal and literal
                 | operand [not] like 'pattern'
    operand     := column, also "a column" and a.member, or literal
    literal     := 3, 3.5, 'text', true, false; dates and times are texts

That is what a scan can apply while it reads; `lancefs sql` takes everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.cli.exits import Failure
from lancefs.datafile.fields import Field
from lancefs.table.row_metadata import ROW_METADATA
from lancefs.table.schema import find_column

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
  | '(?P<text>(?:[^']|'')*)'
  | (?P<name>(?:"(?:[^"]|"")+"|[^\W\d]\w*)(?:\.(?:"(?:[^"]|"")+"|\w+))*)
  | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
  )""",
    re.VERBOSE,
)
_PART = re.compile(r'"((?:[^"]|"")+)"|(\w+)')
_DEEPEST = 100
_WORDS = {"and", "or", "not", "is", "null", "in", "between", "like", "true", "false"}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column, with its type, or a literal, whose type is that of what it meets."""

    expression: pc.Expression | None
    data_type: pa.DataType | None
    value: Any = None
    shown: str = ""
    may_be_null: bool = False


def parse_predicate(text: str, fields: Sequence[Field]) -> pc.Expression:
    """Read a condition.

    Args:
        text: As a user wrote it.
        fields: The columns of the table.

    Raises:
        Failure: It is not one; the message says where, and what was expected.
        ColumnNotFound: It names a column that is not there.
    """
    parser = _Parser(text, fields)
    expression = parser.either(0)
    parser.expect_end()
    return expression


class _Parser:
    """Reads a condition from left to right."""

    def __init__(self, text: str, fields: Sequence[Field]) -> None:
        self._text = text
        self._fields = (*fields, *ROW_METADATA.values())
        self._tokens = self._split()
        self._next = 0

    def either(self, depth: int) -> pc.Expression:
        """Conditions joined by `or`."""
        if depth > _DEEPEST:
            raise Failure("--where: the parentheses nest too deep")
        found = self._both(depth)
        while self._take("or"):
            found = found | self._both(depth)
        return found

    def expect_end(self) -> None:
        """See that nothing is left."""
        if self._next < len(self._tokens):
            raise self._error("'and', 'or' or the end was expected")

    def _both(self, depth: int) -> pc.Expression:
        found = self._one(depth)
        while self._take("and"):
            found = found & self._one(depth)
        return found

    def _one(self, depth: int) -> pc.Expression:
        negated = 0
        while self._take("not"):
            negated += 1
        if self._take("("):
            found = self.either(depth + 1)
            self._expect(")")
        else:
            found = self._comparison()
        return ~found if negated % 2 else found

    def _comparison(self) -> pc.Expression:
        left = self._operand()
        token = self._peek()
        if token is not None and token.kind == "sign" and token.text in _COMPARE:
            self._next += 1
            right = self._operand()
            return _COMPARE[token.text](*_matched(left, right))
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            missing = self._column(left).is_null()
            return ~missing if negated else missing
        negated = self._take("not")
        found = self._special(left)
        if found is None:
            if negated or left.expression is None or not pa.types.is_boolean(left.data_type):
                raise self._error("a comparison was expected, such as price > 3")
            return left.expression
        return ~found if negated else found

    def _special(self, left: _Operand) -> pc.Expression | None:
        if self._take("in"):
            self._expect("(")
            values = [self._literal(left)]
            while self._take(","):
                values.append(self._literal(left))
            self._expect(")")
            wanted = pa.array([value.as_py() for value in values], left.data_type)
            column = self._column(left)
            # Arrow calls a missing value not in the list, SQL does not know; `<` does not either.
            unknown = column < column
            return column.isin(wanted) | unknown if left.may_be_null else column.isin(wanted)
        if self._take("between"):
            low = self._literal(left)
            self._expect("and")
            high = self._literal(left)
            return (self._column(left) >= low) & (self._column(left) <= high)
        if self._take("like"):
            token = self._peek()
            if token is None or token.kind != "text":
                raise self._error("a pattern in quotes was expected after like")
            self._next += 1
            return pc.match_like(self._column(left), token.text)
        return None

    def _literal(self, beside: _Operand) -> pa.Scalar:
        operand = self._operand()
        if operand.expression is not None:
            self._next -= 1
            raise self._error("a literal was expected")
        assert beside.data_type is not None or self._column(beside)
        return _as_type(operand, beside.data_type, exact=True)

    def _operand(self) -> _Operand:
        token = self._peek()
        if token is None or token.kind == "sign":
            raise self._error("a column or a literal was expected")
        self._next += 1
        if token.kind == "number":
            whole = re.fullmatch(r"[-+]?\d+", token.text)
            value = int(token.text) if whole else Decimal(token.text)
            return _Operand(None, None, value, token.text)
        if token.kind == "text":
            return _Operand(None, None, token.text, repr(token.text))
        word = token.text.lower()
        if word in ("true", "false"):
            return _Operand(None, None, word == "true", word)
        if word in _WORDS:
            self._next -= 1
            raise self._error("a column or a literal was expected")
        return self._named(token.text)

    def _named(self, text: str) -> _Operand:
        parts = [a.replace('""', '"') if a else b for a, b in _PART.findall(text)]
        way = find_column(self._fields, ".".join(parts))
        data_type = way[-1].to_arrow().type
        if isinstance(data_type, pa.BaseExtensionType):
            data_type = data_type.storage_type
        if pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
        names = [field.name for field in way]
        may_be_null = way[0].name not in ROW_METADATA and any(field.nullable for field in way)
        return _Operand(pc.field(*names), data_type, shown=text, may_be_null=may_be_null)

    def _column(self, operand: _Operand) -> pc.Expression:
        if operand.expression is None:
            raise self._error(f"a column was expected in place of {operand.shown}")
        return operand.expression

    def _split(self) -> list[_Token]:
        tokens, position = [], 0
        end = len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                rest = self._text[position:].strip()
                raise Failure(f"--where: {rest!r} was not understood in {self._text!r}")
            value = match[match.lastgroup]
            if match.lastgroup == "text":
                value = value.replace("''", "'")
            tokens.append(_Token(match.lastgroup, value, match.start(match.lastgroup)))
            position = match.end()
        return tokens

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, word: str) -> bool:
        token = self._peek()
        found = token is not None and token.kind != "text" and token.text.lower() == word
        self._next += found
        return found

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._error(f"{word!r} was expected")

    def _error(self, expected: str) -> Failure:
        token = self._peek()
        where = "at the end" if token is None else f"at {self._text[token.start :]!r}"
        return Failure(
            f"--where: {expected} {where} of {self._text!r} ('lancefs sql' takes all of SQL)"
        )


def _matched(left: _Operand, right: _Operand) -> tuple[Any, Any]:
    """Return both sides of a comparison, a literal as the type of the column that it meets."""
    if left.expression is None and right.expression is None:
        raise Failure(f"--where: {left.shown} is compared with {right.shown}; name a column")
    if left.expression is None:
        return _as_type(left, right.data_type), right.expression
    if right.expression is None:
        return left.expression, _as_type(right, left.data_type)
    return left.expression, right.expression


def _as_type(literal: _Operand, data_type: pa.DataType | None, exact: bool = False) -> pa.Scalar:
    """Return a literal as a value of the type of a column."""
    value = literal.value
    is_number = not isinstance(value, str | bool)
    if is_number and pa.types.is_decimal(data_type):
        return _as_decimal(Decimal(value), data_type)
    if isinstance(value, Decimal):
        value = float(value)
    try:
        return pa.scalar(value).cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        is_numeric = pa.types.is_integer(data_type) or pa.types.is_floating(data_type)
        if is_number and is_numeric and not exact:
            return pa.scalar(value)  # 3.5 beside whole numbers: Arrow compares them as they are
        raise Failure(f"--where: {literal.shown} is not a value of the type {data_type}") from error


def _as_decimal(value: Decimal, data_type: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(value, data_type)
    except pa.ArrowInvalid:  # it has more digits than the column: Arrow compares them as they are
        return pa.scalar(value)
