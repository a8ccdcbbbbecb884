"""The analyst's page: questions to a release, by clicking or in SQL. Nothing private is imported, by contract.

asking     a question as it stands in an address, and the call of the library that answers it
calls      that call as a command, in Python and in R
telling    an answer as the page shows it: figures with intervals, the uncorrected figure beside them, pictures
overview   what a release is, in words
saving     the page as one file without scripts, to be handed out with a release
app        the pages and their addresses
"""
