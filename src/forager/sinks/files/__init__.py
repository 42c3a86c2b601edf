"""The files sink: changes as files by kind and date, in a folder, with manifests. Start at `sink.py`."""
