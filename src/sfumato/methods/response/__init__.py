"""Randomized response of quasi-identifiers and the sensitive attribute under a risk limit (AD).

Pure mathematics on a joint table of counts. `channels` has the products, `risks` what is limited, `objectives` what is
minimised, `solver` the parameters, in the integers that are sampled (`newton` in a few steps, on the `few` cells that
matter); `guessing` the attacker whom no limit holds, `sampling` estimates for domains that are too large.
AD's p is called the *diagonal*.
"""

from __future__ import annotations

from sfumato.methods.response.channels import Channel, Channels, forward, kappa, untouched
from sfumato.methods.response.guessing import Guess, guess, limit_success
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.objectives import ChiSquare, Kappa, ObjectiveName
from sfumato.methods.response.own_row import hits_with_own_row
from sfumato.methods.response.problem import Limit, Limits, Response, Scope
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.risks import Link, Posterior, Reconstruction, RiskName, row_posterior
from sfumato.methods.response.sampling import RiskEstimate, likely_worst, sampled_risk
from sfumato.methods.response.solver import solve, trade_off

__all__ = [
    "Channel",
    "Channels",
    "ChiSquare",
    "Guess",
    "JointTable",
    "Kappa",
    "Limit",
    "Limits",
    "Link",
    "ObjectiveName",
    "Posterior",
    "Reconstruction",
    "Response",
    "RiskEstimate",
    "RiskName",
    "RiskOutOfReach",
    "Scope",
    "forward",
    "guess",
    "hits_with_own_row",
    "kappa",
    "likely_worst",
    "limit_success",
    "row_posterior",
    "sampled_risk",
    "solve",
    "trade_off",
    "untouched",
]
