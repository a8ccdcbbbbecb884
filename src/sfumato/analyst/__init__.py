"""The analyst's side: from published counts back to estimates of the original ones, with honest error bars.

inverse     the unbiased estimate P^-1 o and its variances
bayes       the likelihood (EM, iterative Bayes) estimate: never negative, needs no inverse
projection  the nearest table without negative counts
"""
