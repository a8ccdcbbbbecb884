"""Which way is better for a table: every method at the same requirement, measured alike.

translating  one requirement in the words of every method, and whom each is about
original     the table as arrays
queries      what analysts keep: the same random counts from every release
guessing     what a release gives away: the same guesser on every release
trials       a method's releases, made and measured, and thrown away
searching    the parameter of a method at which the guesser is right as often as with another
record       all of it, in words and as JSON
compare      the comparison
"""
