"""The demos of our own pipelines. They know a pipeline and its simulated upstream, so they live beside the commands."""
