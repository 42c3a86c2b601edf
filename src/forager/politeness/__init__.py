"""How sites are asked: the policy file, which rule takes precedence, and the rules in force while Forager runs."""
