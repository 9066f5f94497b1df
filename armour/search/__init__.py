"""Ways of searching that several attacks share; one paper's own idea stands in `attacks/`.

within a budget     stepping, sparse, ascent, sparse_ascent
the nearest         descent, quasi_newton, weighing, closest, polish, halving
without gradients   scores, starts, windows
several classes     rivals
"""
