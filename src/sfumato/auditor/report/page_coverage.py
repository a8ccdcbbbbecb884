"""Which attackers a public page lists, and whom of them the guarantee is about: from the manifest alone.

An audit of the table knows more: that nobody was left out, that no value has a share which the requirement speaks of.
Such things are of the table, so a public page does not depend on them.
"""

from __future__ import annotations

from sfumato.release.manifest import Manifest

RISKS = ("posterior", "link", "reconstruction")
"""Of randomized response; one of them is limited."""


def coverage(manifest: Manifest) -> dict[str, bool]:
    """Return the attackers on a release of this kind, and whether the guarantee is about each."""
    if manifest.groups is not None:
        own = _of_groups(manifest)
    elif manifest.response is not None:
        own = _of_response(manifest)
    else:
        own = _of_randomized(manifest)
    return {**own, "averaging": False, "missing": False, "order": manifest.data.shuffled, "residue": True}


def _of_randomized(manifest: Manifest) -> dict[str, bool]:
    whole, several = len(manifest.mechanism_value.tables) == 1, len(manifest.mechanism_value.domain.parts) > 1
    proved = manifest.assurance == "proved"
    return {
        "draws": True,
        "posterior": True,
        "frequencies": True,
        **({} if whole else {"dealing": True, "label": False}),
        "background": whole,
        **({"column": manifest.guarantee.scope == "any predicate" or (proved and not whole)} if several else {}),
        "composition": False,
        "corruption": whole and not manifest.from_table,
    }


def _of_response(manifest: Manifest) -> dict[str, bool]:
    assert manifest.response is not None
    limited = {risk: risk == manifest.response.risk for risk in RISKS}
    return {"draws": True, **limited, "row": False, "distribution": False, "guesser": False, "corruption": False}


def _of_groups(manifest: Manifest) -> dict[str, bool]:
    claim = manifest.group_claim
    assert manifest.groups is not None
    hidden = manifest.groups.withheld > 0 or claim.always  # else which value is the most frequent is public
    suppressed = {"eligibility": hidden} if claim.variant is not None else {}
    own = {"dealing": True, "posterior": True}
    return {**own, "background": bool(claim.attribute_sets), "corruption": False, **suppressed}
