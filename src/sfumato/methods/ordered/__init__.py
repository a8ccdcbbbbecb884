"""Methods for ordered values, such as ages, incomes or degrees: their errors are small where one asks "up to c".

`design` is pure mathematics, `drawing` is what the methods share; each method has a module of its own.
"""
