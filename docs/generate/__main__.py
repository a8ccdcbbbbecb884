"""Write the pages anew, and say which ones changed."""

from __future__ import annotations

from docs.generate import write

if __name__ == "__main__":
    print("\n".join(write()) or "All pages are as the code says.")
