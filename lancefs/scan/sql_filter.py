"""Filters in SQL text, as Arrow expressions that a scan applies while it reads.

    condition  := condition OR condition | condition AND condition | NOT condition | predicate
    predicate  := comparison [IS [NOT] (NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM comparison)]
    comparison := range [(= | == | != | <> | < | <= | > | >=) range]
    range      := sum [[NOT] IN (sum, …)] | sum [[NOT] BETWEEN sum AND sum]
                | sum [[NOT] (LIKE | ILIKE) 'pattern' [ESCAPE 'c']] | sum NOT NULL
    sum        := operand, with + - || * / % between operands and - or + before them
    operand    := column | literal | CAST(condition AS type) | operand::type
                | function(condition, …) | EXTRACT(part FROM condition) | (condition)
                | CASE [condition] (WHEN condition THEN condition)+ [ELSE condition] END
    column     := name | "name" | `name` | column.member | column['member']
    literal    := 3 | 3.5 | 3e5 | 'text' | X'0aff' | TRUE | FALSE | NULL | type 'text'

A filter that pylance takes keeps the rows that pylance keeps. Where pylance differs from standard
SQL, and where pylance refuses a filter, the rows are those of DuckDB; docs/filters.md lists the
differences. A condition may be unknown, as in SQL: a scan returns rows for which it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.fields import Field
from lancefs.errors import ColumnNotFound, InvalidFilter
from lancefs.scan import (
    expressions,
    sql_functions,
    sql_operators,
    sql_text_functions,
    sql_time_functions,
)
from lancefs.scan.condition_trees import conditions_of
from lancefs.scan.conditions import by_column
from lancefs.scan.sql_casts import DECIMALS, TIMESTAMP_UNITS, TYPES, UNSIGNED, cast
from lancefs.scan.sql_functions import Argument, ListLiteral
from lancefs.scan.sql_literals import parse_number
from lancefs.scan.sql_operands import Literal, Operand, read_column, strings, whole_numbers
from lancefs.scan.sql_tokens import Refused, Token, tokenize
from lancefs.table.row_metadata import ROW_METADATA
from lancefs.table.schema import find_column, find_way

T = TypeVar("T")

# Deepest nesting of parentheses, functions and the like: the parser is recursive.
_DEEPEST = 100
# How tightly operators bind; parentheses and functions begin anew with _OR.
_OR, _AND, _NOT, _IS, _COMPARISON, _RANGE, _SUM, _PRODUCT, _SIGN = range(9)
_COMPARISONS = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_INFIX = {
    "or": _OR,
    "and": _AND,
    "is": _IS,
    **dict.fromkeys(_COMPARISONS, _COMPARISON),
    **dict.fromkeys(("not", "in", "between", "like", "ilike"), _RANGE),
    **dict.fromkeys(("+", "-", "||"), _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}
_LITERALS = ("number", "string", "binary")
_CONSTANTS = {"true": True, "false": False, "null": None}
# Words that are no columns unless they stand in quotes.
_RESERVED = {"and", "or", "not", "is", "in", "between", "like", "ilike", "escape"} | {*_CONSTANTS}
# Words of SQL that begin what filters do not have.
_UNSUPPORTED = {"select", "exists", "interval", "any", "all", "some"}
# Words that begin the parts of a query after the condition.
_AFTER = {"group", "having", "limit", "offset", "order", "qualify"}
_AN_OPERAND = "a column or a literal was expected"


def parse_filter(text: str, fields: Sequence[Field]) -> pc.Expression:
    """Read a filter.

    Args:
        text: A condition in SQL, without WHERE.
        fields: The columns of the table; the columns of row metadata are known as well.

    Returns:
        An expression that Arrow can evaluate for rows of these columns: true, false, or null where
        the condition is unknown.

    Raises:
        InvalidFilter: The text is no condition; the message says where, and what was expected.
        ColumnNotFound: The text names a column that the table lacks.
        UnsupportedFeature: The type of a column is not known to this release.
    """
    fields = (*fields, *ROW_METADATA.values())
    try:
        text.encode()
        expression = _Parser(text, fields).parse()
        _check(expression, fields)
    except Refused as refused:
        raise refused.to_error(text) from None
    except UnicodeEncodeError as error:
        raise InvalidFilter(f"the filter is not text: {error}") from None
    except RecursionError:  # the caller's own calls count, too
        raise InvalidFilter("the filter nests too deep for the stack") from None
    return expression


def _check(expression: pc.Expression, fields: Sequence[Field]) -> None:
    """Check that Arrow can evaluate an expression, before anything is read."""
    known = {field.name: field for field in fields}
    columns = [known[name].to_arrow() for name in expressions.columns_of(expression, known)]
    schema = pa.schema(columns)
    if by_column(conditions_of(expressions.as_tree(expression)), schema) is not None:
        return  # lancefs compares these itself
    nothing = [pa.nulls(0, column.type) for column in columns]
    try:
        expressions.evaluate_filter(expression, pa.RecordBatch.from_arrays(nothing, schema=schema))
    except (pa.ArrowException, ValueError) as error:
        raise InvalidFilter(f"the filter cannot be evaluated: {error}") from error


class _Parser:
    """Reads a filter from left to right, by the precedence of its operators."""

    def __init__(self, text: str, fields: Sequence[Field]) -> None:
        self._text = text
        self._fields = fields
        self._tokens = tokenize(text)
        self._next = 0
        self._depth = 0

    def parse(self) -> pc.Expression:
        """Read the whole filter."""
        condition = self._parse(_OR)
        if self._token.word in _AFTER:
            raise self._refuse(f"a filter is a condition, without {self._token.text}")
        if self._token.kind != "end":
            raise self._refuse("'and', 'or' or the end was expected")
        return sql_operators.truth(condition).expression

    def _parse(self, binding: int) -> Operand:
        """Read an operand, and operators after it that bind at least as tightly as `binding`."""
        left = self._parse_prefix(binding)
        while (level := _INFIX.get(self._token.word, -1)) >= binding:
            left = self._parse_infix(left, level)
            if level == _COMPARISON and _INFIX.get(self._token.word) == _COMPARISON:
                raise self._refuse("comparisons do not chain; 'and' was expected")
        return left

    def _parse_prefix(self, binding: int) -> Operand:
        """Read an operand with the signs and NOTs before it."""
        start = self._token.start
        if binding <= _NOT and self._token.word == "not":
            negated = False
            while self._take("not"):
                negated = not negated
            operand: Operand = sql_operators.truth(self._parse(_IS))
            return sql_operators.negation(operand) if negated else operand
        is_negative = False
        while self._token.word in ("-", "+"):
            is_negative ^= self._advance().word == "-"
        operand = self._parse_operand()
        if is_negative:
            operand = sql_operators.change_sign(operand)
        return operand if operand.start == start else operand._replace(start=start)

    def _parse_infix(self, left: Operand, level: int) -> Operand:
        """Read an operator after an operand, and the operands that follow."""
        if level == _OR:
            return sql_operators.disjunction(self._parse_terms(left, "or", _AND))
        if level == _AND:
            return sql_operators.conjunction(self._parse_terms(left, "and", _NOT))
        if level == _IS:
            return self._parse_is(left)
        if level == _RANGE:
            return self._parse_range(left)
        word = self._advance().word
        right = self._parse(level + 1)
        if level == _COMPARISON:
            return sql_operators.compare(_COMPARISONS[word], left, right)
        if word == "||":
            return sql_text_functions.join(word, left, right)
        return sql_operators.arithmetic(word, left, right)

    def _parse_terms(self, first: Operand, word: str, binding: int) -> list[Operand]:
        terms = [first]
        while self._take(word):
            terms.append(self._parse(binding))
        return terms

    def _parse_is(self, left: Operand) -> Operand:
        self._expect("is")
        negated = self._take("not")
        if self._take("distinct"):
            self._expect("from")
            answer: Operand = sql_operators.is_distinct(left, self._parse(_COMPARISON))
        elif self._take("null"):
            answer = sql_operators.is_missing(left)
        elif self._take("unknown"):
            answer = sql_operators.is_missing(sql_operators.truth(left))
        elif self._token.word in ("true", "false"):
            answer = sql_operators.is_truth(left, self._advance().word == "true")
        else:
            raise self._refuse("null, true, false, unknown or distinct from was expected")
        return sql_operators.negation(answer) if negated else answer

    def _parse_range(self, left: Operand) -> Operand:
        negated = self._take("not")
        if negated and self._take("null"):
            return sql_operators.negation(sql_operators.is_missing(left))
        if self._take("in"):
            answer: Operand = sql_operators.is_in(left, self._parse_items("(", ")"))
        elif self._take("between"):
            low = self._parse(_SUM)
            self._expect("and")
            bounds = ((">=", low), ("<=", self._parse(_SUM)))
            tests = [sql_operators.compare(sign, left, bound) for sign, bound in bounds]
            answer = sql_operators.conjunction(tests)
        elif self._token.word in ("like", "ilike"):
            answer = self._parse_like(left)
        else:
            raise self._refuse("'in', 'between', 'like', 'ilike' or 'null' was expected")
        return sql_operators.negation(answer) if negated else answer

    def _parse_like(self, left: Operand) -> Operand:
        ignores_case = self._advance().word == "ilike"
        pattern, escape = self._parse(_SUM), None
        if self._take("escape"):
            token = self._advance()
            if token.kind != "string" or len(token.text) != 1:
                raise Refused("a single character in quotes was expected", token.start)
            escape = token.text
        return sql_functions.like(left, pattern, escape, ignores_case)

    def _parse_items(self, opening: str, closing: str) -> list[Operand]:
        """Read operands with commas between them."""
        self._expect(opening)
        return self._parse_rest(closing, lambda: self._parse_item(closing))

    def _parse_rest(self, closing: str, parse: Callable[[], T]) -> list[Literal | T]:
        """Read the items of a list, and the sign that closes it."""
        items: list[Literal | T] = []
        while True:
            items += self._take_literals() or [parse()]
            if not self._take(","):
                self._expect(closing)
                return items

    def _take_literals(self) -> list[Literal]:
        """Go on behind the items of a list that are one token, and return them."""
        token = self._token
        if token.kind not in ("numbers", "strings"):
            return []
        self._advance()
        make = whole_numbers if token.kind == "numbers" else strings
        return list(make(token.text, token.start))

    def _parse_item(self, closing: str) -> Operand:
        """Read an operand of a list: a literal at once."""
        token = self._token
        if token.kind in _LITERALS and self._following.word in (",", closing):
            self._next += 1
            return self._literal(token)
        return self._parse_nested()

    def _parse_nested(self) -> Operand:
        """Read a condition or an operand inside of parentheses or the like."""
        if self._depth == _DEEPEST:
            raise self._refuse(f"the parentheses nest too deep (more than {_DEEPEST})")
        self._depth += 1
        operand = self._parse(_OR)
        self._depth -= 1
        return operand

    def _parse_operand(self) -> Operand:
        """Read a column, a literal, a function or parentheses, with the casts after it."""
        operand = self._parse_simple_operand()
        while self._take("::"):
            operand = cast(operand, self._parse_type())
        return operand

    def _parse_simple_operand(self) -> Operand:
        token = self._token
        if self._take("("):
            operand = self._parse_nested()
            self._expect(")")
            return operand
        if token.kind in _LITERALS:
            self._advance()
            return self._literal(token)
        if token.kind not in ("name", "quoted"):
            raise self._refuse(_AN_OPERAND)
        if token.word in _CONSTANTS:
            self._advance()
            return Literal(_CONSTANTS[token.word], token.start, token.text)
        if token.word in _RESERVED:
            raise self._refuse(_AN_OPERAND)
        if token.word == "cast" and self._following.word == "(":
            return self._parse_cast()
        if token.word == "extract" and self._following.word == "(":
            return self._parse_extract()
        follows = self._following
        if (
            token.word == "case"
            and follows.kind not in ("sign", "end")
            and follows.word not in _INFIX
        ):
            return self._parse_case()
        return self._parse_typed_literal() or self._parse_named()

    def _literal(self, token: Token) -> Literal:
        text = self._text[token.start : token.end]
        try:
            if token.kind == "number":
                return Literal(parse_number(token.text), token.start, text)
            if token.kind == "binary":
                return Literal(bytes.fromhex(token.text), token.start, text)
        except ValueError as error:
            raise Refused(str(error), token.start) from None
        return Literal(token.text, token.start, text)

    def _parse_cast(self) -> Operand:
        self._advance()
        self._expect("(")
        operand = self._parse_nested()
        self._expect("as")
        target = self._parse_type()
        self._expect(")")
        return cast(operand, target)

    def _parse_extract(self) -> Operand:
        """Read `EXTRACT(month FROM ordered_at)`."""
        name = self._advance()
        self._expect("(")
        part = self._advance()
        self._expect("from")
        operand = self._parse_nested()
        self._expect(")")
        return sql_time_functions.part_of(name.text, part.text, part.start, operand)

    def _parse_case(self) -> Operand:
        """Read `CASE WHEN … THEN … ELSE … END`, or `CASE … WHEN … THEN … END`."""
        name = self._advance()
        compared = None if self._token.word == "when" else self._parse_nested()
        tests, results = list[Operand](), list[Operand]()
        while self._take("when"):
            test = self._parse_nested()
            is_same = None if compared is None else sql_operators.compare("=", compared, test)
            tests.append(sql_operators.truth(test) if is_same is None else is_same)
            self._expect("then")
            results.append(self._parse_nested())
        if not tests:
            raise self._refuse("'when' was expected")
        results.append(self._parse_nested() if self._take("else") else Literal(None, name.start))
        self._expect("end")
        return sql_functions.choose(name.text, tests, results, name.start)

    def _parse_typed_literal(self) -> Operand | None:
        """Read a type and a string after it, such as `date '2024-01-01'`; None for other words."""
        token, before = self._token, self._next
        if token.kind != "name" or token.word not in (*TYPES, *DECIMALS):
            return None
        try:
            target = self._parse_type()
        except Refused:
            target = None
        if target is None or self._token.kind != "string":
            self._next = before  # it is the name of a column
            return None
        return cast(self._literal(self._advance()), target)

    def _parse_type(self) -> pa.DataType:
        token = self._advance()
        if token.word in DECIMALS:
            precision, scale = self._parse_sizes(2)
            if not (1 <= precision <= 76 and 0 <= scale <= precision):
                raise Refused("a decimal has 1 to 76 digits", token.start)
            make = pa.decimal128 if precision <= 38 else pa.decimal256
            return make(precision, scale)
        target = TYPES.get(token.word)
        if target is None:
            known = ", ".join([*TYPES, "decimal(p, s)"])
            raise Refused(f"there is no type {token.text!r}; there are {known}", token.start)
        if token.word == "double":
            self._take("precision")
        elif target in UNSIGNED and self._take("unsigned"):
            return UNSIGNED[target]
        elif token.word == "timestamp" and self._token.word == "(":
            (digits,) = self._parse_sizes(1)
            if digits not in TIMESTAMP_UNITS:
                raise Refused("a timestamp has 0, 3, 6 or 9 digits after seconds", token.start)
            return pa.timestamp(TIMESTAMP_UNITS[digits])
        return target

    def _parse_sizes(self, count: int) -> list[int]:
        """Read whole numbers in parentheses; those left out are 0."""
        self._expect("(")
        sizes: list[int] = []
        while True:
            token = self._advance()
            if token.kind != "number" or not (token.text.isdigit() and len(token.text) < 4):
                raise Refused("a size was expected", token.start)
            sizes.append(int(token.text))
            if len(sizes) == count or not self._take(","):
                break
        self._expect(")")
        return sizes + [0] * (count - len(sizes))

    def _parse_named(self) -> Operand:
        """Read a function, or a column with the members below it."""
        token = self._advance()
        if token.kind == "name" and self._token.word == "(":
            called = sql_functions.call(token.text, self._parse_arguments(), token.start)
            return called._replace(start=token.start)
        parts = [token.text]
        while self._token.word in (".", "["):
            parts.append(self._parse_member())
        try:
            return read_column(self._find(parts), token.start)
        except ColumnNotFound as error:
            if token.word == "where" and token.start == self._tokens[0].start:
                raise Refused("a filter is a condition, without where", token.start) from None
            if token.word in _UNSUPPORTED:
                raise Refused(f"{token.text} is not supported in a filter", token.start) from None
            if self._text[token.start] != '"' and "did you mean" in str(error):
                raise
            raise ColumnNotFound(f"{error} (a text stands in single quotes)") from None

    def _parse_member(self) -> str:
        """Read `.member` or `['member']`."""
        if self._take("."):
            token = self._advance()
            if token.kind not in ("name", "quoted"):
                raise Refused("the name of a member was expected", token.start)
            return token.text
        self._expect("[")
        token = self._advance()
        if token.kind != "string":
            raise Refused("the name of a member in quotes was expected", token.start)
        self._expect("]")
        return token.text

    def _parse_arguments(self) -> list[Argument]:
        self._expect("(")
        return [] if self._take(")") else self._parse_rest(")", self._parse_argument)

    def _parse_argument(self) -> Argument:
        """Read an operand or a list: `['a', 'b']`, `array['a']` or `make_array('a')`."""
        start, word, following = self._token.start, self._token.word, self._following.word
        signs = "()" if (word, following) == ("make_array", "(") else "[]"
        if word != "[" and (word, following) not in (("array", "["), ("make_array", "(")):
            return self._parse_nested()
        if word != "[":
            self._advance()
        if self._following.word == signs[1]:
            self._advance()
            self._advance()
            return ListLiteral((), start)
        return ListLiteral(tuple(self._parse_items(*signs)), start)

    def _find(self, parts: list[str]) -> tuple[Field, ...]:
        """Find a column; capitals do not matter where only one column has the letters.

        The parts may also be those of one name that has dots, and one part may be a path.
        """
        name = ".".join(parts)
        is_column = any(field.name == name for field in self._fields)
        if not is_column and (way := find_way(self._fields, parts)) is not None:
            return way
        try:
            return find_column(self._fields, name)
        except ColumnNotFound:
            alike = [way for way in _ways(self._fields) if _join_names(way).lower() == name.lower()]
            if len(alike) != 1:
                raise
            return alike[0]

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    @property
    def _following(self) -> Token:
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    def _advance(self) -> Token:
        """Return the token that is next, and go on to the one after it."""
        token = self._token
        if token.kind != "end":
            self._next += 1
        return token

    def _take(self, word: str) -> bool:
        """Go on where a word is next."""
        is_next = self._token.word == word
        self._next += is_next
        return is_next

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._refuse(f"{word!r} was expected")

    def _refuse(self, what: str) -> Refused:
        return Refused(what, self._token.start)


def _ways(fields: Sequence[Field]) -> Iterator[tuple[Field, ...]]:
    """Yield the ways to columns and members of structs."""
    for field in fields:
        yield (field,)
        yield from ((field, *way) for way in _ways(field.members))


def _join_names(way: tuple[Field, ...]) -> str:
    return ".".join(field.name for field in way)
