"""Attackers and measures: the truth against a release. `sfumato.audit(table, release)` lets them loose.

finding      a measured risk beside what was promised
case         the table and its release as arrays
attacks      each attacker on a case; the modules beside it do the mathematics
auditing     all attackers that apply, and what analysts keep: an Audit (record)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Audit(ModuleType):
    """The package, which can be called: Python puts it under the name `sfumato.audit`, which is that of the function.

    Elsewhere the two have different names (`plan` and `plans`); here the house and the verb are one word.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Audit a release: see `sfumato.audit.auditing.audit`."""
        from sfumato.audit.auditing import audit

        return audit(*args, **options)


sys.modules[__name__].__class__ = _Audit
