"""Politeness towards sites: the policy file, the precedence of rules, and the rules in force while Forager runs."""
