"""Knowledge about each kind of data, one folder per pipeline. Nothing here imports a driver or a web framework."""
