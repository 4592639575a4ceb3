"""The Common Expression Language, as far as Kubernetes offers it in validation rules.

Text goes through `lexer` and `parser` to a tree (`ast`), `checker` finds its type, `evaluator`
and `loops` turn it into closures. `library` lists the functions, `rules` applies the rules of a
CustomResourceDefinition to an object. Everything is pure, and bounded in time and memory.
"""
