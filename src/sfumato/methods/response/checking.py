"""A plan against the table it is published with: nothing in a plan file is taken on trust.

The hash that seals a plan file can be computed by anybody. So the risk is evaluated once more before publishing, from
the table's own counts, on the integers that will be sampled.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.claims.claim import Guarantee, Shape, differing
from sfumato.errors import PlanMismatch
from sfumato.methods.response.channels import Channel, Channels
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.problem import pose
from sfumato.methods.response.request import Axes
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.grid import is_on_grid
from sfumato.values.mechanism import Mechanism
from sfumato.values.profile import Profile, counts_hash


def check_plan(stated: Guarantee, plan: ResponseFigures, profile: Profile) -> None:
    """Raise unless the table is the planned one, and the plan's own integers keep the limits that it states for it."""
    if counts_hash(profile) != plan.counts_hash:
        raise PlanMismatch(
            "The table is not the one that was planned: it has other combinations of values, or other numbers of "
            "them, and so another risk.",
            "Plan again with the table as it is now.",
        )
    if not _of_the_method(plan, profile):
        raise _changed("are not those of randomized response for the columns that it names")
    axes = Axes.of(profile, [name for name in profile.quasi_identifiers if name not in plan.randomized])
    channels = _channels(axes, plan.mechanisms)
    # what has no noise costs no rounding: so this asks for no larger margin than the plan was made with
    untouched = [k for k, channel in enumerate(channels) if not channel.noise]
    problem = pose(axes.table, axes.limits(plan.claim.limit), plan.claim.risk, fixed=untouched)
    if not problem.within(problem.risk(axes.table, channels)):
        raise _changed("do not keep its limit for this table")
    if not all(is_on_grid(mechanism.matrix) for mechanism in plan.mechanisms):
        raise _changed("have retentions of more than two digits, which tell more of the table")
    if differing(stated, plan.claim.guarantee(Shape(plan.mechanisms))):
        raise _changed("are not those that its guarantee is stated for")


def _of_the_method(plan: ResponseFigures, profile: Profile) -> bool:
    """Whether each matrix is uniform and of an attribute in scope as the table has it, none of them twice."""
    claimed = plan.claim.quasi_identifiers, plan.claim.sensitive
    left = _in_scope(plan, profile)
    for mechanism in plan.mechanisms:
        if mechanism.domain not in left or not (mechanism.is_whole and mechanism.matrix.is_uniform):
            return False
        left.remove(mechanism.domain)
    return claimed == (profile.quasi_identifiers, profile.sensitive_domain.names)


def _in_scope(plan: ResponseFigures, profile: Profile) -> list[SensitiveDomain]:
    quasi = [SensitiveDomain((part,)) for part in profile.quasi_domain.parts if part.name not in plan.fixed]
    return {
        "sensitive": [profile.sensitive_domain],
        "quasi-identifiers": quasi,
        "both": [*quasi, profile.sensitive_domain],
    }[plan.claim.scope]


def _channels(axes: Axes, mechanisms: Sequence[Mechanism]) -> Channels:
    """Return the channel of each axis, in the integers that are sampled."""
    names = axes.profile.quasi_identifiers
    columns = [*((names[k],) for k in axes.own), *([()] if axes.shared else []), axes.profile.sensitive_domain.names]
    noise = {mechanism.domain.names: mechanism.matrix.uniform_noise or 0 for mechanism in mechanisms}
    return tuple(
        Channel.from_noise(size, noise.get(of_axis, 0)) for of_axis, size in zip(columns, axes.table.sizes, strict=True)
    )


def _changed(how: str) -> PlanMismatch:
    return PlanMismatch(
        f"The plan's matrices {how}.", "The plan file was changed after it was made: plan again, and sign that off."
    )
