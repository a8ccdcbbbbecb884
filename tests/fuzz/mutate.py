"""Change a file or a question: by its structure, so that most of it still reads, or by its bytes."""

from __future__ import annotations

import copy
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.publisher import toml

TEXTS = [
    "",
    " ",
    "x",
    "\0",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\r",
    "\r\n",
    "\t",
    "\u202eabc",
    "\u200b",
    "\ufeff",
    "é",
    "漢",
    "e\u0301",
    "\U0001f600",
    "'",
    '"',
    "`",
    "\\",
    "--",
    "/*",
    ";",
    "%",
    "{}",
    "{0}",
    "%s",
    "$HOME",
    "$(id)",
    "=1+1",
    '=HYPERLINK("http://x")',
    "@SUM(1)",
    "-1",
    "+1",
    "1e400",
    "-0",
    "0x10",
    "1_000",
    "NaN",
    "Infinity",
    "null",
    "None",
    "true",
    "../../x",
    "/etc/passwd",
    "<script>alert(1)</script>",
    "<img src=x onerror=1>",
    "[1, 2)",
    "1/0",
    "1/3",
    "observed",
    "table",
    "category",
    "drop",
    "other",
    "(missing)",
    "a" * 5000,
    "|",
    "a|b",
    "DECIDE",
    "9" * 5000,
]
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    256,
    2**31 - 1,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**9,
    10**18,
    10**400,
    0.5,
    0.1,
    1e-300,
    5e-324,
    1e308,
    -0.0,
    0.9999999999999999,
    1.0000000000000002,
    float("nan"),
    float("inf"),
    float("-inf"),
]
PLAIN: list[Any] = [None, True, False, [], {}, [[]], {"a": 1}, [None], ["x", "x"], {"": ""}]
WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "NULL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "AS",
    "COUNT(*)",
    "COUNT(DISTINCT",
    "SUM(",
    "AVG(",
    "MIN(",
    "MAX(",
    "MEDIAN(",
    "STDDEV(",
    "QUANTILE_CONT(",
    "ABS(",
    "LOG(",
    "SQRT(",
    "UPPER(",
    "LENGTH(",
    "OVER",
    "()",
    "PARTITION",
    "UNION",
    "JOIN",
    "ON",
    "WITH",
    "RECURSIVE",
    "DISTINCT",
    "FILTER",
    "(WHERE",
    "read_csv(",
    "read_text(",
    "glob(",
    "getenv(",
    "pg_sleep(",
    "generate_series(",
    "range(",
    "unnest(",
    "EXISTS",
    "(",
    ")",
    ",",
    "*",
    "+",
    "-",
    "/",
    "%",
    "=",
    "<>",
    "<",
    ">",
    "<=",
    ">=",
    "||",
    "::",
    "[",
    "]",
    "{",
    "}",
    "~",
    "^",
    ":",
    "C(",
    "log(",
    "bs(",
    "poly(",
    "I(",
    "sex",
    "age",
    "diagnosis",
    "visits",
    "region",
    "weight",
    "insured",
    "release",
    "compositions",
    "'F'",
    "'flu'",
    "1",
    "2.5",
    "-3",
    "0",
    "1e999",
    "''",
    "DATE",
    "INTERVAL",
    "TRUE",
    "FALSE",
    "current_date",
    "random()",
    "rowid",
    ";",
    "--",
    "/*",
    "*/",
    "\\",
    "$1",
    "?",
    "@x",
    "#1",
    '"sex"',
    "`sex`",
    "U&'\\0041'",
    "E'\\n'",
    "＝",
    "ｓｅｘ",
]
TYPES = [
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.decimal128(20, 3),
    pa.dictionary(pa.int32(), pa.string()),
    pa.list_(pa.string()),
    pa.time64("us"),
    pa.duration("s"),
    pa.null(),
]


def mutated(content: bytes, kind: str, draw: Random) -> bytes:
    """Return the content with one to three changes: of its kind, or of bytes."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        change = _bytes if draw.random() < 0.12 else KINDS[kind]
        with suppress(
            AttributeError,
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            OverflowError,
            RecursionError,
            OSError,
            pa.ArrowException,
        ):
            content = change(content, draw)
    return content


def odd(draw: Random) -> Any:
    """Return a value that few expect."""
    return copy.deepcopy(draw.choice(draw.choice((TEXTS, NUMBERS, PLAIN))))


# --- documents --------------------------------------------------------------------------------------------------------


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give everything in a document as its owner and its key there."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _document(value: Any, draw: Random) -> Any:
    """Return a document with one thing in it changed."""
    places = list(_places(value))
    if not places or draw.random() < 0.01:
        return odd(draw)
    owner, key = draw.choice(places)
    other, its = draw.choice(places)
    change = draw.randrange(9)
    if change == 0:
        del owner[key]
    elif change == 1:
        owner[key] = copy.deepcopy(other[its])
    elif change == 2:
        owner[key], other[its] = copy.deepcopy(other[its]), copy.deepcopy(owner[key])
    elif change == 3 and isinstance(owner, dict):
        owner[draw.choice([*TEXTS, *(k for _, k in places if isinstance(k, str))])] = owner.pop(key)
    elif change == 4 and isinstance(owner, dict):
        owner[draw.choice([k for _, k in places if isinstance(k, str)] or ["x"])] = odd(draw)
    elif change == 4:
        owner.insert(key, copy.deepcopy(owner[key]))
    elif change == 5 and isinstance(owner[key], int | float) and not isinstance(owner[key], bool):
        owner[key] = draw.choice((owner[key] + 1, -owner[key], owner[key] * 2, owner[key] / 3, str(owner[key])))
    elif change == 6:
        for _ in range(draw.choice((1, 2, 60))):
            owner[key] = [owner[key]] if draw.random() < 0.5 else {"a": owner[key]}
    else:
        owner[key] = odd(draw)
    return value


def _json(content: bytes, draw: Random) -> bytes:
    text = json.dumps(_document(json.loads(content), draw), ensure_ascii=False)
    if draw.random() < 0.04:  # a key that is there twice
        text = text.replace('": ', f'": {json.dumps(odd(draw))}, "{draw.choice("abc")}": ', 1)
    if draw.random() < 0.02:
        text = "[" * 20_000 + text
    return text.encode("utf-8", "surrogatepass")


def _toml(content: bytes, draw: Random) -> bytes:
    text = content.decode()
    if draw.random() < 0.75:
        return toml.document(_document(tomllib.loads(text), draw)).encode("utf-8", "surrogatepass")
    lines = text.splitlines()
    place, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    literal = draw.choice(
        [
            "nan",
            "inf",
            "-inf",
            "0x_1",
            "1979-05-27T07:32:00Z",
            "07:32:00",
            "'''",
            '"""',
            "[",
            "{",
            "9" * 400,
            "[" * 3000,
        ]
    )
    lines[place] = draw.choice(
        ["", lines[other], f"{lines[place].split('=')[0]}= {literal}", f"{lines[place]} {literal}", f"[{lines[other]}]"]
    )
    return "\n".join(lines).encode()


# --- tables -----------------------------------------------------------------------------------------------------------


def _csv(content: bytes, draw: Random) -> bytes:
    lines = content.split(b"\n")
    between = b";" if b";" in lines[0] else b","
    # the first lines, where names and types are made, as often as all others
    place = draw.randrange(min(3, len(lines))) if draw.random() < 0.5 else draw.randrange(len(lines))
    fields = lines[place].split(between)
    which, text = draw.randrange(len(fields)), str(odd(draw)).encode("utf-8", "surrogatepass")
    change = draw.randrange(12)
    if change == 0:
        del lines[place]
    elif change == 1:
        lines[place] = lines[draw.randrange(len(lines))]
    elif change == 2:
        del fields[which]
    elif change == 3:
        fields.insert(which, text)
    elif change == 4:
        fields[which] = draw.choice([b'"' + text, b'"' + text + b'"', b'"a""' + text + b'"', b'""', b'"\n"', b'"\r"'])
    elif change == 5:
        fields[which] = fields[draw.randrange(len(fields))]
    elif change == 6:
        return draw.choice(
            [
                b"\xef\xbb\xbf" + content,
                content.decode().encode("utf-16"),
                content.replace(b"\n", b"\r\n"),
                content.replace(b"\n", b"\r"),
                content.replace(between, b"\t"),
                content.replace(between, b"|"),
            ]
        )
    elif change == 7:
        lines = lines[: draw.choice((0, 1, 2, 5, place))]
        return b"\n".join(lines)
    elif change == 8:
        fields[which] += draw.choice([b"\r", b"\0", b"\xff", b"\xed\xa0\x80", b'"', b"'"])
    else:
        fields[which] = text
    if change > 1:
        lines[place] = between.join(fields)
    return b"\n".join(lines)


def _parquet(content: bytes, draw: Random) -> bytes:
    table = pq.read_table(io.BytesIO(content))
    place = draw.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    change = draw.randrange(8)
    if change == 0:
        table = table.remove_column(place)
    elif change == 1:
        names = [
            *table.column_names[:place],
            draw.choice([*TEXTS, *table.column_names]),
            *table.column_names[place + 1 :],
        ]
        table = table.rename_columns(names)
    elif change == 2:
        table = table.slice(0, draw.choice((0, 1, 2, 10)))
    elif change == 3:
        table = table.append_column(
            draw.choice([*TEXTS, "extra"]),
            pa.array([odd(draw)] * 1).cast(pa.string()).take(pa.array([0] * len(column))),
        )
    elif change == 4:
        table = table.replace_schema_metadata({"pandas": draw.choice(TEXTS), "ARROW:schema": "x"})
    elif change == 5:
        table = pa.concat_tables([table, table])
    elif change == 6:
        table = table.set_column(place, name, column.cast(draw.choice(TYPES)))
    else:
        values = column.to_pylist()
        for _ in range(draw.choice((1, 5, len(values)))):
            values[draw.randrange(len(values))] = odd(draw)
        made = (
            pa.array(values, column.type)
            if draw.random() < 0.5
            else pa.array([None if v is None else str(v) for v in values])
        )
        table = table.set_column(place, name, made)
    written = io.BytesIO()
    pq.write_table(
        table,
        written,
        compression=draw.choice(["zstd", "snappy", "gzip", "none"]),
        use_dictionary=draw.random() < 0.5,
        row_group_size=draw.choice((7, 100, 10**6)),
        data_page_version=draw.choice(["1.0", "2.0"]),
    )
    return written.getvalue()


# --- texts and bytes --------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s+|'[^']*'|\"[^\"]*\"|\w+|[^\w\s]")


def _text(content: bytes, draw: Random) -> bytes:
    tokens = _TOKEN.findall(content.decode("utf-8", "surrogateescape")) or [""]
    place, other = draw.randrange(len(tokens)), draw.randrange(len(tokens))
    change = draw.randrange(8)
    if change == 0:
        del tokens[place]
    elif change == 1:
        tokens[place] = tokens[other]
    elif change == 2:
        tokens[place:place] = tokens[min(place, other) : max(place, other)]
    elif change == 3:
        tokens[place] = f"({''.join(tokens[place:])})"
        del tokens[place + 1 :]
    elif change == 4:
        tokens.insert(place, "'" + str(draw.choice(TEXTS)).replace("'", "''") + "'")
    elif change == 5:
        tokens[place] = draw.choice(
            ["(" * 300, "NOT " * 200, "-" * 50, tokens[place] * 30, f" OR {tokens[place]}" * 150]
        )
    else:
        tokens.insert(place, f" {draw.choice(WORDS)} ")
    return "".join(tokens).encode("utf-8", "surrogateescape")


def _bytes(content: bytes, draw: Random) -> bytes:
    if not content:
        return bytes(draw.randrange(256) for _ in range(8))
    place, length = draw.randrange(len(content)), draw.choice((1, 1, 2, 4, 8, 100))
    new = draw.choice([b"", b"\0" * length, b"\xff" * length, bytes(draw.randrange(256) for _ in range(length))])
    change = draw.randrange(4)
    if change == 0:
        return content[:place]
    if change == 1:
        return content[:place] + new + content[place:]
    if change == 2:
        return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]
    return content[:place] + new + content[place + length :]


KINDS: dict[str, Callable[[bytes, Random], bytes]] = {
    "json": _json, "toml": _toml, "csv": _csv, "parquet": _parquet, "text": _text, "bytes": _bytes,
}  # fmt: skip
