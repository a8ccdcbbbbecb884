"""Planners: pure mathematics on counts, one module per method. `plan` chooses by name."""

from __future__ import annotations

from sfumato.methods.perturbation import METHODS, plan

__all__ = ["METHODS", "plan"]
