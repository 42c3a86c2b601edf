"""Where files are kept: a local folder, or a prefix in an S3 bucket, behind the port `core/place.py`."""
