"""How published records share what is published without noise: anybody who has the release can count that."""

from __future__ import annotations

from sfumato.release.folder import ReleaseFolder
from sfumato.release.manifest import KNOWN_TREATMENTS
from sfumato.release.reading import connected, quoted
from sfumato.values.profile import Uniqueness, uniqueness

MOST_ROWS = 2_000_000  # records above which it is not counted who is alone


def alone_in(release: ReleaseFolder) -> Uniqueness | None:
    """Return how many published records share each combination; None without such columns, or of too many records."""
    names = [column.name for column in release.manifest.columns if column.treatment in KNOWN_TREATMENTS]
    if not names or release.manifest.data.rows > MOST_ROWS:
        return None
    columns = ", ".join(map(quoted, names))
    sizes = f"SELECT count(*) AS size FROM release GROUP BY {columns}"
    with connected(release) as connection:
        found = connection.sql(f"SELECT size, count(*) FROM ({sizes}) GROUP BY size").fetchall()
    return uniqueness(tuple(names), dict(found))
