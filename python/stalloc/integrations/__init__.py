"""Callbacks for training frameworks: they mark the steps exactly where the framework ends them.

Without them the optimizer's own steps are the marks, and everything works, too; plans come
later then where evaluations lie between steps.
"""
