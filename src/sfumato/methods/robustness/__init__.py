"""r-robustness (PI): no adversary who knows Pr(value | signature) believes in a value by more than 1/r.

Records are published in groups: who is in a group, and which values it has, but not who has which. A signature is a
combination of the values of an attribute set, a cell one of all attribute sets together.

    prior       what the adversary knows: from the table, from a file
    posterior   what they then believe, exactly
    check       what they believe at most; the paper's condition, and its repair; breaches of published groups
    grouping    `proved`: the deal inside cells, and guests of what is left over
    merging     `as-published`: bottom-up, by the paper's condition
"""
