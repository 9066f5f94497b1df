"""Searches that several attacks share; the idea of a single paper stands in `attacks/`.

within a budget     gradient_steps, auto_pgd
the nearest         nearest_examples, penalty_descent
without gradients   black_box
"""
