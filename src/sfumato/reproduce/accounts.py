"""What came of each paper, in short. There is no number in it: numbers are in the tables that a run makes."""

from __future__ import annotations

from sfumato.reproduce.experiment import Paper

ACCOUNTS: dict[Paper, str] = {
    "SDR": """
The examples, the first table and the grouping come out as printed, and cutting a table into parts with small
domains does retain more, as much as it says. The guarantee is for an attacker who takes the records of a part for
independent draws. A part's size and values are published, so a small part gives its composition away, and then the
bound is exceeded, in the paper's own example and on real tables. The proved version keeps parts large, calls this
attacker not covered and says by how much. The advantage over the uniform matrix is one at equal bounds: held to the
same rate of right guesses of the average record, uniform perturbation has the smaller error and the larger worst
case. Anatomy is beaten with the estimate that the paper gives it, and not with least squares on the same groups.
CENSUS is not to be had. Numbers from the table that stands in agree for another population, some because it was
grouped to have as many values.
""",
    "FG": """
Both examples come out as printed. Theorem 1 bounds only how far a belief rises: in the paper's own example one
falls below its lower bound. The proved version bounds both directions and retains less. Held to the same rate of
right guesses, the uniform matrix retains more nearly everywhere. CADR is not to be had. The thetas of its figures
are lost: how far the gain is what it says depends on which are tried.
""",
    "AD": """
The worked example, the original rows of the association tables and most optimal parameters come out as printed; one
search of the paper stopped short of the optimum, and some printed parameters break the limit by rounding. Its risk
is not what an attacker can learn: whoever knows how values depend on the columns guesses far more people right than
the limit says, and the limit on the posterior itself costs much more. The comparison with the other methods is at
equal l, where they leave unequal risks; at equal measured risk it turns around in places, and so it does with a
better estimate for Anatomy. Generalization with entropy l-diversity never beats the table without any association
in distances and errors of counts. The levels of generalization in the tables of associations are not printed: they
were read off its zeros, and a grouping of race was chosen that gives the printed figure, so that these agree by
construction.
""",
    "SK": """
Examples, levels, expectations and the trends of the suppression rates come out as printed. The requirement itself
does not hold: R-suppression leaves posteriors above its limit, since not all eligible sets are equally likely after
it. Theorem 4's inequality holds, a step of its proof does not. Rotation, the proved replacement, keeps to the
limit; it suppresses more than R-suppression and less than Safe D-suppression, and less than R-suppression once that
is held to the same risk. CADR is not to be had.
""",
    "PI": """
Examples, Theorem 2 and all of Table V come out as printed. Theorem 1 holds only if everything but one value is
taken as one outcome: with three values, groups that meet the condition exceed the limit, and larger groups more so.
On real data merging by the condition leaves such groups, too. The proved versions keep to the limit and withhold
about as many records. The paper announces a measurement of query errors and prints none; here they are measured,
and whether robust groups or Anatomy answer better depends on which columns are known.
""",
}
