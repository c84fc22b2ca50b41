"""Commands: `lancefs x` is the function `x` of the module `x`."""
