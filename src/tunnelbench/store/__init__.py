"""The store of all runs. Each trial is committed when it ends. `store` has the class, `location` the default path."""
