"""Learning from a release whose label is randomized and whose features are as they were. Public as `sfumato.sklearn`.

A row has the features w and the true label x, and publishes the output y. All that follows needs one table of weights:

    E[b(y, k) | x] = 1{x = k}           b = P^-1, row by row (`labels`)

    pseudo      regress b(y, k) on w: its mean given w is the chance of k
    unmixed     learn the chances lambda of the outputs, then weigh: sum_y lambda(y | w) b(y, k) is the chance of k
    scores      mean of sum_k b(y, k) loss(k, f(w)): the loss on the true labels, without knowing them
"""
