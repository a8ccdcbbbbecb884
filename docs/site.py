"""The site of the documentation: built from these files, without a network, and checked to load nothing.

    python -m docs.site FOLDER         build it; exit code 1 if a link leads nowhere or a page loads something

It is also a hook of mkdocs (`mkdocs.yml`): it orders the pages, and brings in those of the repository's root.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BROUGHT = {
    "index.md": "README.md",
    "project/how-to-add.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "project/changelog.md": "CHANGELOG.md",
}
"""Pages of the site, and the files at the root of the repository that they are."""
ORDER: dict[str, tuple[str, ...]] = {
    "Start": ("install", "five-minutes", "concepts", "choose", "studio"),
    "Publish": ("walkthrough", "choose-bound", "sign-off", "checklist", "again", "guide", "spark"),
    "Analyse": ("first-estimate", "sql", "associations", "regression", "learning", "intervals", "groups", "write-up"),
    "Review": ("threat-model", "audit", "report", "compare", "limits"),
    "Methods": ("index", "uniform", "subset", "ranges", "plateau", "geometric", "fine-grain", "small-domain",
                "randomized-response", "anatomy", "suppression", "robust-anatomy", "several"),
    "Reference": ("policy", "cli", "python", "manifest", "signature", "json", "errors", "glossary", "limits",
                  "survives"),
    "Project": ("architecture", "contributing", "how-to-add", "stability", "changelog", "security", "cite"),
}  # fmt: skip
"""The folders, and the pages that come first in each; others follow by their names."""
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"'](?:https?:)?//|"
    r"<link\b(?![^>]*rel=[\"'](?:canonical|next|prev))[^>]*\bhref=[\"'](?:https?:)?//|"
    r"class=[\"']mermaid|"  # drawn by a script that would be loaded
    r"@import\s+(?:url\()?[\"']?(?:https?:)?//|url\([\"']?(?:https?:)?//",
    re.IGNORECASE,
)
"""What a browser would load from elsewhere."""


# --- hooks of mkdocs --------------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Bring in the pages that lie at the root of the repository, and order all."""
    from mkdocs.structure.files import File

    for place, name in BROUGHT.items():
        text = relinked((ROOT / name).read_text(encoding="utf-8"), place)
        files.append(File.generated(config, place, content=text))
    config.nav = navigation(sorted(file.src_uri for file in files.documentation_pages()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let pages of `docs` lead to files at the root, which have a place in the site."""
    return markdown if page.file.src_uri in BROUGHT else relinked(markdown, page.file.src_uri, base="docs")


def relinked(text: str, place: str, base: str = "") -> str:
    """Return a text whose links, meant from the repository, lead to the same pages in the site.

    >>> relinked("[x](docs/start/install.md#a) and [y](LICENSE)", "index.md")
    '[x](start/install.md#a) and `LICENSE`'
    >>> relinked("[changes](../../CHANGELOG.md)", "project/cite.md", base="docs")
    '[changes](changelog.md)'
    """
    folder = os.path.dirname(os.path.join(base, place)) if base else ""
    return re.sub(
        r"(!?)\[([^\]]*)\]\(([^)#\s:]+)((?:#[\w-]+)?)\)",
        lambda m: _relinked(m, os.path.normpath(os.path.join(folder, m[3])), os.path.dirname(place)),
        text,
    )


def _relinked(link: re.Match[str], target: str, folder: str) -> str:
    places = {name: place for place, name in BROUGHT.items()}
    found = places.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
    if found is None:  # a file of the repository that the site does not have
        return f"`{target}`"
    return f"{link[1]}[{link[2]}]({os.path.relpath(found, folder or '.')}{link[4]})"


def navigation(pages: list[str]) -> list[Any]:
    """Return the pages in their order: the folders of `ORDER`, then pages that stand alone.

    >>> navigation(["faq.md", "index.md", "start/choose.md", "start/install.md"])
    [{'Home': 'index.md'}, {'Start': ['start/install.md', 'start/choose.md']}, 'faq.md']
    """
    parts: list[Any] = [{"Home": "index.md"}] if "index.md" in pages else []
    for title, first in ORDER.items():
        folder = title.lower()
        inside = sorted((p for p in pages if Path(p).parent.as_posix() == folder), key=lambda p: place_of(p, first))
        proofs = [{"Proofs": below}] if (below := [p for p in pages if p.startswith(f"{folder}/proofs/")]) else []
        if inside:
            parts.append({title: [*inside, *proofs]})
    return parts + [page for page in pages if "/" not in page and page != "index.md"]


def place_of(page: str, first: tuple[str, ...]) -> tuple[int, str]:
    name = Path(page).stem
    return (first.index(name) if name in first else len(first), name)


# --- building and checking --------------------------------------------------------------------------------------------


def build(folder: Path) -> None:
    """Build the site; a link that leads nowhere is an error."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    build_site(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))


def loaded(folder: Path) -> Iterator[str]:
    """Give what pages and styles of a site would load from elsewhere."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css"):
            text = re.sub(r"<pre.*?</pre>|<code.*?</code>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            for found in LOADED.finditer(text):
                yield f"{path.relative_to(folder)}: {text[found.start() : found.end() + 60]}"


def main(folder: str) -> int:
    """Build and check, and tell what is wrong."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    build(Path(folder))
    elsewhere = list(loaded(Path(folder)))
    print(
        "\n".join(elsewhere)
        or f"{len(list(Path(folder).rglob('*.html')))} pages, and nothing is loaded from elsewhere."
    )
    return 1 if elsewhere else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
