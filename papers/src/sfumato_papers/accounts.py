"""What came of each paper, in short. There is no number in it: numbers are in the tables that a run makes."""

from __future__ import annotations

from sfumato_papers.experiment import Paper

ACCOUNTS: dict[Paper, str] = {
    "SDR": """
The examples, Table 1 and the grouping come out as printed, but for one figure, which is that of another quantity.
The guarantee is for an attacker who takes the records of a part for independent draws. A part's size and values are
published, so a small part gives its composition away, and then the bound is exceeded: in the paper's own example and
on real records. The proved version keeps parts large. It exceeds the bound by less, calls this attacker not covered
and says by how much.

CENSUS is not available. What is said of it can agree on the table that stands in, but is then said of another
population, and in places because that was grouped to have as many values. There, cutting a table into parts with
small domains does retain more. How many parts there are depends on ties in the order of the groups, which the paper
leaves open. Errors of counts are smaller than with the uniform matrix, by less than it says.

On OCC that advantage is one at equal bounds. Held to the same rate of right guesses of the average record, uniform
perturbation has the smaller error and the larger worst case. Anatomy is beaten with the estimate that the paper gives
it, except where the table is small and the query rare, and not with least squares on the same groups. On EDU least
squares is of no use, and at equal measured risk the order turns round: Anatomy has the smaller error. How Anatomy's
groups are dealt changes its errors, too.
""",
    "FG": """
The requirements, matrices and utilities of both examples come out as printed, but for a misprinted matrix and for the
stated increase, which is relative to the larger utility. Theorem 1 bounds only how far a belief rises: in the paper's
own example one falls below its lower bound. The proved version bounds both directions and retains less.

CADR is not available, and the thetas of its figures are lost. Record utility is better, as it must be; how far the
gain is what it says depends on which thetas are tried. On the skewed table aggregate utility is worse than with the
uniform matrix, as it says; but it does not always rise with theta, and rare values are not the only reason. Held to
the same rate of right guesses, the uniform matrix retains more nearly everywhere.
""",
    "AD": """
The worked example, the associations in the original table and most optimal parameters come out as printed, though on
fewer rows than it says. One search of the paper stopped short of the optimum, and some printed parameters break the
limit by rounding. The parameters printed for RR-S keep no limit. Losses grow faster than linearly by two of three
measures, and randomizing both is not always better than the quasi-identifiers alone.

Its risk is not what an attacker can learn. For a larger l whoever knows how values depend on the columns guesses far
more people right than the limit says; a limit on the posterior itself costs much more. At equal l most comparisons
with the other methods come out as it says, and a better estimate for Anatomy brings it near. But at equal l the
methods leave unequal risks. At equal measured risk randomization with the paper's estimate is no longer better than
generalization, and only in places than Anatomy; mostly Anatomy's release is guessed more often than the table itself,
and nothing is left to compare. Generalization with entropy l-diversity never beats the table without any association
in distances and errors of counts.

In Tables 4 and 5 the levels of generalization are not printed. They were read off the zeros, and a grouping of race
was chosen that gives a printed figure, so that most figures of generalized tables agree by construction and are not
compared. Those with education are compared, and differ: its groups are not known. After randomization the association
of education and race is another than printed, and no cause was found. Anatomy's depend on an order of values that is
not told. Run times are those of other programs on another machine.
""",
    "SK": """
Examples, levels, expectations and most trends of the suppression rates come out as printed. The requirement itself
does not hold: R-suppression leaves posteriors above its limit, since not all eligible sets are equally likely after
it. Theorem 4's inequality holds, a step of its proof does not. Rotation, the proved replacement, keeps to the limit;
it suppresses more than R-suppression and less than Safe D-suppression, and less than R-suppression once that is held
to the same risk.

Two statements on Fig. 6 are of the same samples. Each could be chance, but both are met by no reading that was tried:
even the least possible suppression is too large a part of Safe D-suppression. Three statements on Fig. 8 hold in part
only: violations begin at a somewhat smaller alpha, the stated saving is that of some alphas, and beta does matter
where alpha is large. CADR is not available; of its weeks and months the stand-in agrees in part.
""",
    "PI": """
The numbers of the examples, Theorem 2 and all of Table V come out as printed. Theorem 1 holds only if everything but
one value is taken as one outcome: with three values, groups that meet the condition exceed the limit, and larger
groups more so. On Adult, merging by the condition leaves a few such groups where education is known, and some records
in no group. The proved versions keep to the limit and withhold about as many records.

The paper announces a measurement of query errors and prints none. Here they are measured: whether robust groups or
Anatomy answer better depends on which columns are known, and on the limit.
""",
}
