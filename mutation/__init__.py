"""`make mutate`: are there mistakes in freshness, budgets, publishing and negotiation that no test would notice?

Each mutant is one module with one small mistake; tests that run the mistaken line are run until one fails. A mutant
that no test fails for survived: either a test is missing, or explained.toml says why none can or need tell it.

This is a runner of our own because of what the usual ones leave out. mutmut 3 mutates neither properties nor context
managers nor anything else that is decorated, nor what modules and classes are set up with, which is much of a budget
and of a poll; cosmic-ray drops no statements, rewrites the tree that one works in, and starts an interpreter for each
mutant. Here mutants are forked from a process that has imported everything but our own code, which takes less time
than the tests do.
"""
