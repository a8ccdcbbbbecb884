"""How records share what others may know of people; of a release, by what is published without noise."""

from __future__ import annotations

from pydantic import Field

from sfumato.release.folder import ReleaseFolder, connected, quoted
from sfumato.release.manifest import KNOWN_TREATMENTS
from sfumato.release.parts import Part

MOST_ROWS = 2_000_000  # records above which it is not counted who is alone


class Alone(Part):
    """How records share the values of columns that others may know."""

    columns: tuple[str, ...]
    records: int = Field(ge=0)
    unique: int = Field(ge=0, description="Records that share them with no other.")
    smallest_group: int = Field(ge=0, description="k: the fewest records that share them.")


def alone_in(release: ReleaseFolder) -> Alone | None:
    """Return how published records share what is published without noise: anybody can count that.

    None without such columns, or of too many records.
    """
    names = [column.name for column in release.manifest.columns if column.treatment in KNOWN_TREATMENTS]
    if not names or release.manifest.data.rows > MOST_ROWS:
        return None
    sizes = f"SELECT count(*) AS size FROM release GROUP BY {', '.join(map(quoted, names))}"
    with connected(release) as connection:
        query = f"SELECT sum(size), count(*) FILTER (size = 1), min(size) FROM ({sizes})"
        records, unique, smallest = connection.sql(query).fetchall()[0]
    return Alone(columns=tuple(names), records=records or 0, unique=unique, smallest_group=smallest or 0)
