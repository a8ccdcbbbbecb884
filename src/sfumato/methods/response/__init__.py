"""Randomized response of quasi-identifiers and the sensitive attribute under a risk limit (AD).

Pure mathematics on a joint table of counts. `channels` has the products, `risks` what is limited, `problem` what is
minimised, `solver` the parameters, in the integers that are sampled; `guessing` the attacker whom no limit holds,
`estimating` estimates for domains that are too large. AD's p is called the *diagonal*.
"""

from __future__ import annotations

from sfumato.methods.response.channels import Channel, Channels, forward, kappa, untouched
from sfumato.methods.response.guessing import Guess, guesses, limit_success
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import ChiSquare, Kappa, Limit, Limits, ObjectiveName, Response, Scope, pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.risks import Link, Posterior, Reconstruction, RiskName, hits_with_own_row, row_posterior
from sfumato.methods.response.solver import solve

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
    "RiskName",
    "RiskOutOfReach",
    "Scope",
    "forward",
    "guesses",
    "hits_with_own_row",
    "kappa",
    "limit_success",
    "pose",
    "row_posterior",
    "solve",
    "untouched",
]
