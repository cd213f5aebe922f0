"""Output of `tunnelbench show`: one module each for plans, testbeds, tunnels, references and runs."""
