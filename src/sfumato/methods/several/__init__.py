"""Several sensitive columns, each with a method and a requirement of its own."""

from __future__ import annotations
