"""Rows on a Spark cluster: counted, perturbed, dealt and written where they lie.

    source      a DataFrame under a policy, and the address of each row (file, number in the file)
    tasks       jobs, and what runs in Spark's Python workers: batches with addresses, the same steps as on one machine
    counting    the profile, by partial counts and a groupBy; what is seen of columns
    selection   what is wrong with a column, when a worker refused a value; which row of a person is drawn
    mapping     the map, and the deal to sub-tables
    writing     rows to the files of a release: in their order, shuffled, or by group
    grouping    Anatomy's deal: ranks in parts by secret word

Everything is a function of (row's values, row's secret words), and a word belongs to (key, step, file, row): so a row
gets the same on every engine, whatever the partitions, the batches and the retries are. pyspark is imported where it
is used; the package can be imported without it.
"""
